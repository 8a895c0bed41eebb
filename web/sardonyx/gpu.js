/** The GPU: one device, which sessions share, made for the first or by the page. */

const ALIGNMENT = 256;

const known = new WeakMap(); // by device

export class Gpu {
  static shared = null;
  static wishes = {}; // `adapter`, `powerPreference`, `forceFallbackAdapter`

  /** What sessions share, until it is lost. */
  static take() {
    Gpu.shared ??= Gpu.made();
    Gpu.shared.catch(() => (Gpu.shared = null));
    return Gpu.shared;
  }

  static async made() {
    const { gpu } = globalThis.navigator ?? {};
    if (!gpu) throw new Error("this browser has no WebGPU, or the page is not served by https or from localhost");
    const { powerPreference = "high-performance", forceFallbackAdapter } = Gpu.wishes;
    const adapter = (Gpu.wishes.adapter ??= await gpu.requestAdapter({ powerPreference, forceFallbackAdapter }));
    if (!adapter) throw new Error("WebGPU finds no graphics processor here");
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    return Gpu.of(await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } }), true);
  }

  static of(device, isShared) {
    const gpu = known.get(device) ?? new Gpu(device);
    known.set(device, gpu);
    gpu.isShared ||= isShared;
    return gpu;
  }

  constructor(device) {
    const { isFallbackAdapter, vendor, architecture, description } = device.adapterInfo ?? Gpu.wishes.adapter?.info ?? {};
    this.isSoftware = isFallbackAdapter || /swiftshader|llvmpipe|warp/i.test([vendor, architecture, description]);
    this.device = device;
    this.waiting = null; // the queue with commands
    const size = ALIGNMENT * device.limits.maxStorageBuffersPerShaderStage;
    const { STORAGE, COPY_SRC, COPY_DST } = GPUBufferUsage;
    this.empty = device.createBuffer({ size, usage: STORAGE | COPY_SRC | COPY_DST }); // for empty tensors
    device.lost.then(({ message, reason }) => {
      this.trouble = `the GPU was lost (${message || reason}); load the model again`;
      if (this.isShared) Gpu.shared = Gpu.wishes.adapter = null;
    });
  }

  flush() {
    const { waiting } = this;
    this.waiting = null;
    waiting?.submit();
  }

  free(buffer) {
    this.flush(); // what waits may use it
    buffer.destroy();
  }
}
