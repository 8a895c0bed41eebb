// What tests ask of vision.js in a worker: {task, ...} -> what the task tells.
import { load } from "/sardonyx/runtime.js";
import { pixels } from "/sardonyx/picture.js";
import { labelsOf, see, watch } from "/sardonyx/vision.js";
import { serve } from "/support/worker.mjs";

/** A canvas with the bytes at an address. */
async function canvasOf(address, width, height) {
  const bytes = new Uint8ClampedArray(await (await fetch(address)).arrayBuffer());
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(new ImageData(bytes, width, height), 0, 0);
  return canvas;
}

const TASKS = {
  // What is in a canvas, an ImageBitmap, a video's frame.
  see: async ({ target, width, height }) => {
    const session = await load("/data/model.sdx", { target });
    const canvas = await canvasOf("/data/pixels", width, height);
    const frame = new VideoFrame(canvas, { timestamp: 0 });
    const told = [];
    for (const source of [canvas, await createImageBitmap(canvas), frame]) {
      const { found, mask, milliseconds, ...size } = await see(session, source);
      told.push({ found, mask: mask && [...mask], ...size, isTimed: milliseconds > 0 });
    }
    frame.close();
    const { found } = await see(session, canvas, { labels: [] });
    const reduced = await see(session, canvas, { side: width / 2 });
    const empty = await see(session, { width: 0, height: 0 }).then(() => "", (error) => error.message);
    await session.release();
    return { told, reduced: { ...reduced, mask: reduced.mask?.length }, labels: labelsOf(session), unnamed: found.map(({ label }) => label), empty };
  },

  // What `watch` finds in a frame that the canvas reduces, what there is in all of its pixels, and how many the bundle had.
  enough: async ({ width, height }) => {
    const session = await load("/data/model.sdx", { target: "wasm" });
    const canvas = await canvasOf("/data/pixels", width, height);
    const sizes = [];
    const run = session.run.bind(session);
    session.run = (feeds) => {
      sizes.push(Object.values(feeds)[0].dims);
      return run(feeds);
    };
    const told = [await see(session, canvas)];
    for (const options of [{}, { side: Infinity }]) {
      for await (const seen of watch(session, canvas, options)) {
        told.push(seen);
        break;
      }
    }
    await session.release();
    return { sizes, found: told.map(({ found }) => found), framed: told.map(({ width, height }) => [width, height]) };
  },

  // The bytes on the GPU, as a session there has them.
  bytes: async ({ width, height }) => {
    const canvas = await canvasOf("/data/pixels", width, height);
    const adapter = await navigator.gpu.requestAdapter();
    const device = await adapter.requestDevice();
    const { type, dims, buffer } = await pixels(canvas, { device });
    const size = 4 * width * height;
    const staging = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
    device.queue.submit([encoder.finish()]);
    await staging.mapAsync(GPUMapMode.READ);
    return { type, dims, bytes: [...new Uint8Array(staging.getMappedRange())] };
  },

  // How many frames were looked at and left out while a canvas showed so many, by one who takes his time.
  watch: async ({ frames, pause }) => {
    const session = await load("/data/model.sdx", { target: "wasm" });
    const canvas = new OffscreenCanvas(32, 24);
    canvas.getContext("2d").fillRect(0, 0, 32, 24);
    let shown = 0;
    let most = 0; // looked at, and not yet dealt with
    const ending = new AbortController();
    const tick = () => (++shown < frames ? requestAnimationFrame(tick) : ending.abort());
    requestAnimationFrame(tick);
    let [seen, dropped, open] = [0, 0, 0];
    for await (const told of watch(session, canvas, { signal: ending.signal })) {
      most = Math.max(most, ++open);
      seen++;
      dropped += told.dropped;
      await new Promise((resolve) => setTimeout(resolve, pause));
      open--;
    }
    const over = [];
    for await (const told of watch(session, canvas, { signal: ending.signal })) over.push(told);
    let first = 0;
    for await (const _ of watch(session, canvas)) if (++first === 2) break;
    return { shown, seen, dropped, most, over: over.length, first };
  },
};

serve(({ task, ...given }) => TASKS[task](given));
