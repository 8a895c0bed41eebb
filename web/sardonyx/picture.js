/**
 * Pictures on the GPU: of what shows something becomes a tensor, and tensors are drawn, with no way over the CPU.
 *
 *     import { draw, picture } from "./sardonyx/picture.js";
 *     const image = await picture(video, { width: 224, height: 224, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225] });
 *     const { y } = await session.run({ image }, ["y"], { y: true });
 *     await draw(y, canvas);
 *     for (const { buffer } of [image, y]) buffer.destroy();
 */

import { Client } from "./client.js";
import { Gpu } from "./gpu.js";

const WORKGROUP = 8;
const TOLD = `
struct Told { size: vec2u, channels: u32, planar: u32, mean: vec4f, deviation: vec4f }

fn place(at: vec2u, channel: u32) -> u32 {
  let pixel = at.y * told.size.x + at.x;
  return select(pixel * told.channels + channel, channel * told.size.x * told.size.y + pixel, told.planar == 1);
}
`;
const TAKE = `${TOLD}
@group(0) @binding(0) var<uniform> told: Told;
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
@group(0) @binding(2) var shown: texture_2d<f32>;

@compute @workgroup_size(${WORKGROUP}, ${WORKGROUP})
fn main(@builtin(global_invocation_id) id: vec3u) {
  if (any(id.xy >= told.size)) { return; }
  let whole = vec2f(textureDimensions(shown));
  let scale = whole / vec2f(told.size);
  let reach = max(scale, vec2f(1));
  let centre = (vec2f(id.xy) + 0.5) * scale;
  let first = vec2i(max(centre - reach, vec2f(0)));
  let end = vec2i(min(ceil(centre + reach), whole));
  var sum = vec4f(0);
  var weights = 0.0;
  for (var y = first.y; y < end.y; y++) {
    for (var x = first.x; x < end.x; x++) {
      let near = max(1 - abs(vec2f(vec2i(x, y)) + 0.5 - centre) / reach, vec2f(0));
      sum += near.x * near.y * textureLoad(shown, vec2i(x, y), 0);
      weights += near.x * near.y;
    }
  }
  let colour = (sum / weights - told.mean) / told.deviation;
  for (var c = 0u; c < told.channels; c++) { values[place(id.xy, c)] = colour[c]; }
}
`;
const BYTES = `
@group(0) @binding(0) var<storage, read_write> bytes: array<u32>;
@group(0) @binding(1) var shown: texture_2d<f32>;

@compute @workgroup_size(${WORKGROUP}, ${WORKGROUP})
fn main(@builtin(global_invocation_id) id: vec3u) {
  let size = textureDimensions(shown);
  if (any(id.xy >= size)) { return; }
  bytes[id.y * size.x + id.x] = pack4x8unorm(textureLoad(shown, id.xy, 0));
}
`;
const DRAW = `${TOLD}
@group(0) @binding(0) var<uniform> told: Told;
@group(0) @binding(1) var<storage, read> values: array<f32>;

@vertex
fn corner(@builtin(vertex_index) k: u32) -> @builtin(position) vec4f {
  return vec4f(select(-1.0, 3.0, k == 1), select(-1.0, 3.0, k == 2), 0, 1); // one triangle covers all
}

@fragment
fn main(@builtin(position) at: vec4f) -> @location(0) vec4f {
  var colour = vec4f(0, 0, 0, 1);
  for (var c = 0u; c < 4; c++) {
    if (c < told.channels) { colour[c] = values[place(vec2u(at.xy), c)] * told.deviation[c] + told.mean[c]; }
    else if (c < 3) { colour[c] = colour[0]; }
  }
  return vec4f(colour.rgb * colour.a, colour.a);
}
`;

/**
 * The tensor `{ type, dims, buffer }` of an image, a canvas, a video or a frame of it, or of a GPUTexture: (colour - mean) /
 * std for red, green and blue from 0 to 1. It has the picture's own size, or `width` and `height`; what shrinks is
 * averaged by triangles, as Pillow does. `layout` is "NCHW" or "NHWC"; `device`, if not that of the sessions, is the page's.
 * The buffer is the caller's to destroy.
 */
export async function picture(source, options = {}) {
  const { width, height, mean = 0, std = 1, layout = "NCHW", device } = options;
  const size = sizeOf(source);
  const [w, h] = [width ?? size[0], height ?? size[1]];
  const dims = layout === "NCHW" ? [1, 3, h, w] : [1, h, w, 3];
  const buffer = await taken(source, device, "compute", TAKE, [w, h], 12, (client) => [uniform(client, told(w, h, 3, layout, mean, std))]);
  return { type: "float32", dims, buffer };
}

/**
 * The bytes `{ type: "uint8", dims: [height, width, 4], buffer }` of the same sources, red, green, blue and opacity: what
 * a bundle takes that was compiled with `--image`, `--detect`, `--classify` or `--segment`.
 */
export async function pixels(source, { device } = {}) {
  const [width, height] = sizeOf(source);
  const buffer = await taken(source, device, "bytes", BYTES, [width, height], 4, () => []);
  return { type: "uint8", dims: [height, width, 4], buffer };
}

/** The buffer that a shader fills, so many bytes for each of w x h places, from what a source shows. */
async function taken(source, device, kind, code, [w, h], width, uniforms) {
  const size = sizeOf(source);
  const buffer = await asked(device, (client) => {
    const { device } = client;
    const usage = GPUTextureUsage.TEXTURE_BINDING | GPUTextureUsage.COPY_DST | GPUTextureUsage.RENDER_ATTACHMENT;
    const isThere = source instanceof GPUTexture;
    const texture = isThere ? source : device.createTexture({ size, format: "rgba8unorm", usage });
    try {
      if (!isThere) device.queue.copyExternalImageToTexture({ source }, { texture }, size);
    } catch (error) {
      texture.destroy();
      if (source instanceof ImageBitmap) throw error;
      return null; // some browsers take no video, or no array
    }
    const pipeline = made(device, kind, () => {
      const module = device.createShaderModule({ code });
      return device.createComputePipeline({ layout: "auto", compute: { module } });
    });
    const buffer = client.given(width * w * h);
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group(client, pipeline, [...uniforms(client), { buffer }, texture.createView()]));
    pass.dispatchWorkgroups(Math.ceil(w / WORKGROUP), Math.ceil(h / WORKGROUP));
    pass.end();
    device.queue.submit([encoder.finish()]);
    if (!isThere) texture.destroy();
    return buffer;
  });
  if (buffer) return buffer;
  const bitmap = await createImageBitmap(source);
  return taken(bitmap, device, kind, code, [w, h], width, uniforms).finally(() => bitmap.close());
}

/**
 * Draw a tensor of floats `{ dims, buffer }` on a canvas, which gets its size: value * std + mean are grey, red, green and
 * blue, or these and opacity, from 0 to 1. The other options are those of `picture`.
 */
export async function draw({ dims, buffer }, canvas, { mean = 0, std = 1, layout = "NCHW", device } = {}) {
  const [c, h, w] = layout === "NCHW" ? dims.slice(-3) : [dims.at(-1), ...dims.slice(-3, -1)];
  if (![1, 3, 4].includes(c)) throw new Error(`a picture has 1, 3 or 4 channels, not the ${c} of [${dims}] in ${layout}`);
  await asked(device, (client) => {
    const { device } = client;
    const format = navigator.gpu.getPreferredCanvasFormat();
    Object.assign(canvas, { width: w, height: h });
    const context = canvas.getContext("webgpu");
    context.configure({ device, format, alphaMode: "premultiplied" });
    const pipeline = made(device, format, () => {
      const module = device.createShaderModule({ code: DRAW });
      return device.createRenderPipeline({ layout: "auto", vertex: { module }, fragment: { module, targets: [{ format }] } });
    });
    const encoder = device.createCommandEncoder();
    const view = context.getCurrentTexture().createView();
    const pass = encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: "clear", storeOp: "store" }] });
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group(client, pipeline, [uniform(client, told(w, h, c, layout, mean, std)), { buffer }]));
    pass.draw(3);
    pass.end();
    device.queue.submit([encoder.finish()]);
  });
}

/** The buffer that a client of the GPU makes, if any, once it is known that nothing failed. */
async function asked(device, act) {
  const client = new Client(device ? Gpu.of(device) : await Gpu.take());
  client.gpu.flush(); // what is drawn may wait
  const buffer = client.watch(() => act(client));
  client.close();
  try {
    await client.settle();
  } catch (error) {
    buffer?.destroy();
    throw error;
  }
  return buffer;
}

const pipelines = new WeakMap(); // by device, and kind

function made(device, kind, make) {
  if (!pipelines.has(device)) pipelines.set(device, new Map());
  const known = pipelines.get(device);
  if (!known.has(kind)) known.set(kind, make());
  return known.get(kind);
}

/** What shaders are told. */
function told(width, height, channels, layout, mean, std) {
  const words = new Uint32Array([width, height, channels, Number(layout === "NCHW"), ...Array(8)]);
  new Float32Array(words.buffer, 16).set([...four(mean, 0), ...four(std, 1)]);
  return words;
}

const four = (given, rest) => (Array.isArray(given) ? [0, 1, 2, 3].map((k) => given[k] ?? rest) : [given, given, given, rest]);

function uniform(client, words) {
  const buffer = client.buffer(words.byteLength, GPUBufferUsage.UNIFORM);
  client.put(buffer, 0, words);
  return { buffer };
}

function group({ device }, pipeline, resources) {
  const entries = resources.map((resource, binding) => ({ binding, resource }));
  return device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
}

/** Width and height of what shows something; an error where it shows nothing yet. */
export function sizeOf(source) {
  const wide = ["displayWidth", "videoWidth", "naturalWidth", "width"].find((name) => name in source);
  const high = wide?.replace("Width", "Height").replace("width", "height");
  const size = [source[wide], source[high]];
  if (!size.every((each) => each > 0)) throw new Error(`a picture of ${size.join(" x ")} has no pixels yet; wait until it is loaded`);
  return size;
}
