/** Tensors on the GPU: those of the page, and those that sessions give. */

import { Tensor } from "onnxruntime-common";
import { Client, padded } from "../client.js";
import { arrayOf, product, widthOf } from "../types.js";

export const GPU = "gpu-buffer";
const homes = new WeakMap(); // the device of each buffer that was seen

/** A tensor as sessions take it for `use`, "COPY_SRC" or "COPY_DST"; errors begin with `what` it is. */
export function placed({ type, dims, gpuBuffer: buffer }, gpu, use, what) {
  const nbytes = padded(product(dims) * widthOf(type));
  const refuse = (why) => {
    throw new Error(`${what} ${why}`);
  };
  if (!gpu) refuse("lies in gpu-buffer, and this session does not run on webgpu; feed what its getData() gives");
  if (buffer.size < nbytes) refuse(`is ${type}[${dims}], ${nbytes} bytes, and its buffer has ${buffer.size}`);
  if (!(buffer.usage & GPUBufferUsage[use])) refuse(`has a buffer without GPUBufferUsage.${use}; make it with that`);
  const admit = async () => {
    if (buffer.mapState !== "unmapped") refuse("has a buffer that is mapped; unmap() it first");
    if (homes.get(buffer) !== gpu && !(await isOf(gpu, buffer, use))) {
      refuse("has a buffer of another GPUDevice than the session's, which is env.webgpu.device; make it on that");
    }
    homes.set(buffer, gpu);
  };
  const fit = (given, sizes) => {
    if (given === type && product(sizes) === product(dims)) return;
    throw new Error(`${what} is ${given}[${sizes}], for which a tensor ${type}[${dims}] has no room`);
  };
  return { type, dims, buffer, admit, fit };
}

/** Whether a buffer is of a device, which only what can be done with it tells. */
async function isOf({ device, empty }, buffer, use) {
  const encoder = device.createCommandEncoder();
  const [from, to] = use === "COPY_SRC" ? [buffer, empty] : [empty, buffer];
  device.pushErrorScope("validation");
  encoder.copyBufferToBuffer(from, 0, to, 0, 0);
  encoder.finish();
  return !(await device.popErrorScope());
}

/** A tensor that a session left on the GPU, which is the caller's to dispose of. */
export function stayed({ type, dims, buffer }, gpu) {
  homes.set(buffer, gpu);
  return Tensor.fromGpuBuffer(buffer, {
    dataType: type,
    dims,
    dispose: () => gpu.free(buffer),
    async download() {
      const bytes = await new Client(gpu).read({ chunk: { buffer }, offset: 0 }, product(dims) * widthOf(type));
      return new (arrayOf(type))(bytes.buffer);
    },
  });
}
