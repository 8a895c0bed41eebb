/** What `env.webgpu` has: the device that sessions share, as the page wants it. */

import { Gpu } from "../gpu.js";

/** Have `env.webgpu` say what the device is, and what the page wants. */
export function extend(webgpu) {
  let { device: own } = webgpu;
  Gpu.wishes = webgpu;
  if (own) Gpu.shared = Promise.resolve(Gpu.of(own, true));
  Object.defineProperty(webgpu, "device", {
    get: () => Gpu.take().then(({ device }) => device),
    set(device) {
      if (!(device instanceof GPUDevice)) throw new TypeError("env.webgpu.device takes a GPUDevice");
      if (device === own) return;
      if (Gpu.shared) throw new Error("sessions share a GPUDevice already: set env.webgpu.device before the first one, or when it is lost");
      own = device;
      Gpu.shared = Promise.resolve(Gpu.of(device, true));
    },
    enumerable: false, // to copy `env` makes no device
  });
}
