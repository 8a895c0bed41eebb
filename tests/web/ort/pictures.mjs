// Pictures on the GPU: what the tests ask of sardonyx/picture.js.
import { InferenceSession, Tensor, env } from "onnxruntime-web";
import { draw, picture } from "/sardonyx/picture.js";

const message = (promise) => promise.then(() => "no error", (error) => error.message);

/** A canvas with these bytes. */
function canvasOf(pixels, width, height) {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  canvas.getContext("2d").putImageData(new ImageData(Uint8ClampedArray.from(pixels), width, height), 0, 0);
  return canvas;
}

const tensorOf = ({ type, dims, buffer }) => Tensor.fromGpuBuffer(buffer, { dataType: type, dims });

/** What stands for a canvas: Chromium loses a device of SwiftShader that draws on a real one. */
class Canvas {
  getContext(kind) {
    if (kind !== "webgpu") throw new Error(kind);
    return {
      configure: ({ device, format }) => {
        this.device = device;
        const usage = GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.COPY_SRC;
        this.texture = device.createTexture({ size: [this.width, this.height], format, usage });
      },
      getCurrentTexture: () => this.texture,
    };
  }

  /** Its width, height and bytes of red, green, blue and opacity. */
  async read() {
    const { device, width, height, texture } = this;
    const bytesPerRow = 256 * Math.ceil(width / 64);
    const buffer = device.createBuffer({ size: bytesPerRow * height, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = device.createCommandEncoder();
    encoder.copyTextureToBuffer({ texture }, { buffer, bytesPerRow }, [width, height]);
    device.queue.submit([encoder.finish()]);
    await buffer.mapAsync(GPUMapMode.READ);
    const bytes = new Uint8Array(buffer.getMappedRange());
    const order = texture.format === "bgra8unorm" ? [2, 1, 0, 3] : [0, 1, 2, 3];
    const start = (k) => bytesPerRow * Math.floor(k / width) + 4 * (k % width);
    const pixels = Array.from({ length: width * height }, (_, k) => order.map((c) => bytes[start(k) + c]));
    return [width, height, pixels.flat()];
  }
}

/** Tensors of a picture, read by a session that negates them; and what is drawn of them. */
export async function pictures(pixels, width, height, options) {
  const session = await InferenceSession.create("/data/negative.onnx", { executionProviders: ["webgpu"] });
  const canvas = canvasOf(pixels, width, height);
  const read = async (image) => [image.dims, [...(await session.run({ x: tensorOf(image) })).y.data]];
  const device = await env.webgpu.device;
  const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST;
  const texture = device.createTexture({ size: [width, height], format: "rgba8unorm", usage });
  device.queue.writeTexture({ texture }, Uint8Array.from(pixels), { bytesPerRow: 4 * width }, [width, height]);
  const frame = new VideoFrame(canvas, { timestamp: 0 });
  const sources = [canvas, await createImageBitmap(canvas), new ImageData(Uint8ClampedArray.from(pixels), width, height), frame, texture];
  const found = [];
  for (const source of sources) found.push(await read(await picture(source)));
  frame.close();
  const made = [];
  for (const each of options) made.push(await read(await picture(canvas, each)));
  const drawn = [];
  for (const layout of ["NCHW", "NHWC"]) {
    const [mean, std] = [[0.5, 0.25, 0.125], [0.5, 0.25, 2]];
    const target = new Canvas();
    await draw(await picture(canvas, { mean, std, layout }), target, { mean, std, layout });
    drawn.push(await target.read());
  }
  const grey = device.createBuffer({ size: 16, usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST });
  device.queue.writeBuffer(grey, 0, Float32Array.of(0, 1, 0.2, 0.6));
  const target = new Canvas();
  await draw({ dims: [1, 1, 2, 2], buffer: grey }, target);
  const glass = new Canvas();
  await draw({ dims: [1, 4, 1, 1], buffer: grey }, glass);
  return {
    found,
    made,
    drawn,
    grey: (await target.read())[2],
    glass: (await glass.read())[2],
    refusals: [
      await message(picture(new Image())),
      await message(draw({ dims: [1, 2, 2, 1], buffer: grey }, target)),
      (await message(draw({ dims: [1, 3, 2, 2], buffer: device.createBuffer({ size: 48, usage: GPUBufferUsage.COPY_DST }) }, target))).slice(0, 8),
      await message(session.run({ x: Tensor.fromTexture({}, { width: 1, height: 1 }) })),
    ],
  };
}
