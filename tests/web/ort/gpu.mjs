// What the tests do on the GPU in a page that was written for onnxruntime-web. The model is y = x + before, twice = y + y.
import { InferenceSession, Tensor, env } from "onnxruntime-web";

const MODEL = "/data/sum.onnx";
const { COPY_SRC, COPY_DST, STORAGE, MAP_READ } = globalThis.GPUBufferUsage ?? {};
const ALL = COPY_SRC | COPY_DST | STORAGE;

const message = (promise) => promise.then(() => "no error", (error) => error.message);
const told = (act) => {
  try {
    act();
    return "no error";
  } catch (error) {
    return error.message;
  }
};
const tensor = (...values) => new Tensor("float32", values, [values.length]);
const create = (more = {}, provider = {}) =>
  InferenceSession.create(MODEL, { executionProviders: [{ name: "webgpu", ...provider }], ...more });
const STAYING = { preferredOutputLocation: { y: "gpu-buffer", twice: "cpu" } };

/** Count what is asked for from now on: `log` has calls, `live` the sizes of buffers that were not destroyed. */
function metered() {
  const log = [];
  const live = new Map();
  const on = (prototype, name, note) => {
    const real = prototype[name];
    prototype[name] = function (...given) {
      log.push(name);
      const made = real.apply(this, given);
      note(this, made, given);
      return made;
    };
  };
  on(GPUAdapter.prototype, "requestDevice", () => {});
  on(GPUBuffer.prototype, "mapAsync", () => {});
  on(GPUDevice.prototype, "createBuffer", (_, buffer) => live.set(buffer, buffer.size));
  on(GPUBuffer.prototype, "destroy", (buffer) => live.delete(buffer));
  const held = () => [live.size, [...live.values()].reduce((a, b) => a + b, 0)];
  return { log, live, held };
}

/** A buffer of the page's, with these floats. */
function owned(device, values, usage = ALL) {
  const buffer = device.createBuffer({ size: 16 * Math.ceil(values.length / 4), usage });
  device.queue.writeBuffer(buffer, 0, new Float32Array(values));
  return buffer;
}

const placed = (buffer, count) => Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims: [count] });

/** The floats of a buffer, which the page reads. */
async function floats(device, buffer, count) {
  const staging = device.createBuffer({ size: 4 * count, usage: MAP_READ | COPY_DST });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, 0, staging, 0, 4 * count);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  return [...new Float32Array(staging.getMappedRange())];
}

/** A running sum, whose tensors stay on the GPU. */
export async function staying() {
  const session = await create(STAYING);
  const x = tensor(1, 2, 3);
  let { y } = await session.run({ x, before: tensor(0, 0, 0) });
  const places = [y.location];
  for (let k = 0; k < 3; k++) {
    const next = await session.run({ x, before: y });
    places.push(next.y.location, next.twice.location);
    y.dispose();
    y = next.y;
  }
  const sum = [...(await y.getData())];
  const again = await session.run({ x, before: tensor(...sum) }, { y: tensor(0, 0, 0) });
  return { places, sum, again: [...again.y.data] };
}

/** Several sessions at once, each with several runs at once; what is left when all are released, and by a load that failed. */
export async function sharing() {
  const { log, held } = metered();
  const sessions = await Promise.all([create(), create(), create()]);
  const device = await env.webgpu.device;
  const runs = sessions.flatMap((session, k) => [1, 2].map((n) => session.run({ x: tensor(k), before: tensor(n) }, ["twice"])));
  const answers = (await Promise.all(runs)).map(({ twice }) => twice.data[0]);
  const [first, ...others] = sessions;
  const running = first.run({ x: tensor(20), before: tensor(1) });
  const released = first.release();
  const last = (await running).y.data[0];
  await released;
  const after = (await others[0].run({ x: tensor(5), before: tensor(6) })).y.data[0];
  const kept = await others[0].run({ x: tensor(7), before: tensor(8) });
  const { y } = await (await create(STAYING)).run({ x: tensor(1), before: tensor(1) });
  const beside = held();
  for (const session of others) await session.release();
  const without = held();
  const { createShaderModule } = GPUDevice.prototype;
  GPUDevice.prototype.createShaderModule = function (told) {
    return createShaderModule.call(this, { ...told, code: "none" });
  };
  const broken = await message(create());
  return {
    devices: log.filter((name) => name === "requestDevice").length,
    answers,
    last,
    after,
    kept: kept.y.data[0],
    stays: [...(await y.getData())],
    broken,
    isTold: env.webgpu.adapter instanceof GPUAdapter,
    isOne: device === (await env.webgpu.device),
    isAlive: (await Promise.race([device.lost, "alive"])) === "alive",
    shrinks: without[1] < beside[1],
    isSame: String(held()) === String(without),
  };
}

/** What is left after sessions were released and tensors disposed of. */
export async function leaving() {
  const { live, held } = metered();
  await (await create()).release();
  const before = held();
  const sizes = [];
  for (let k = 1; k < 4; k++) {
    const [one, other] = [await create(STAYING), await create(STAYING)];
    const { y } = await one.run({ x: tensor(1, 2), before: tensor(3, 4) });
    const next = await other.run({ x: tensor(1, 2), before: y });
    await one.release();
    await other.release();
    const sum = [...(await next.y.getData())];
    y.dispose();
    next.y.dispose();
    await Promise.resolve();
    sizes.push([held(), sum]);
  }
  const left = live.size;
  const session = await create(STAYING);
  const small = placed(owned(await env.webgpu.device, [1]), 1);
  const run = async (twice) => (await session.run({ x: tensor(1, 2), before: tensor(3, 4) }, { y: null, twice })).y.dispose();
  await run(null);
  const whole = held();
  const refused = await message(run(small));
  await run(null);
  return { before, sizes, left, refused, isWhole: String(held()) === String(whole) };
}

/** Tensors of one session fed to another, those of the page, and outputs into them. */
export async function crossing() {
  const [one, other] = [await create({ preferredOutputLocation: "gpu-buffer" }), await create(STAYING)];
  const device = await env.webgpu.device;
  const { log, live } = metered();
  const { y, twice } = await one.run({ x: tensor(1, 2, 3), before: tensor(1, 1, 1) });
  const next = await other.run({ x: y, before: twice }, ["y"]);
  const reads = log.filter((name) => name === "mapAsync").length;
  const sum = [...(await next.y.getData())];
  await one.release();
  const own = owned(device, [10, 20, 30]);
  const fed = await other.run({ x: placed(own, 3), before: y }, ["twice"]);
  const into = owned(device, [0, 0, 0]);
  const places = { y: placed(into, 3), twice: placed(owned(device, []), 0) };
  const filled = await other.run({ x: placed(own, 3), before: tensor(1, 1, 1) }, { y: places.y });
  const isSame = filled.y === places.y;
  const read = await floats(device, into, 3);
  for (let k = 0; k < 3; k++) await other.run({ x: tensor(1, 1, 1), before: places.y }, { y: places.y });
  const inPlace = await floats(device, into, 3);
  filled.y.dispose();
  placed(own, 3).dispose();
  await other.release();
  return { reads, sum, fed: [...fed.twice.data], isSame, read, inPlace, isKept: [own, into].every((each) => live.has(each)) };
}

export async function refusing(name) {
  const session = await create();
  const device = await env.webgpu.device;
  const stranger = await (await navigator.gpu.requestAdapter()).requestDevice();
  const run = (buffer, count = 3) => message(session.run({ x: tensor(...Array(count).fill(1)), before: placed(buffer, count) }));
  const into = (place) => message(session.run({ x: tensor(1, 2, 3), before: tensor(1, 2, 3) }, { y: place }));
  const mapped = device.createBuffer({ size: 16, usage: ALL, mappedAtCreation: true });
  const gone = owned(device, [1, 2, 3]);
  gone.destroy();
  const wasm = await InferenceSession.create(name, { executionProviders: ["wasm"] });
  const image = (buffer) => Tensor.fromGpuBuffer(buffer, { dataType: "float32", dims: [1, 1, 28, 28] });
  const refusals = [
    await run(owned(stranger, [1, 2, 3])),
    await run(owned(device, [1, 2, 3]), 5),
    await run(owned(device, [1, 2, 3], COPY_DST | STORAGE)),
    await run(mapped),
    await into(placed(owned(stranger, [1, 2, 3]), 3)),
    await into(placed(owned(device, [1, 2, 3], COPY_SRC | STORAGE | COPY_DST), 2)),
    await into(placed(device.createBuffer({ size: 16, usage: COPY_SRC }), 3)),
    await message(wasm.run({ image: image(owned(device, Array(784).fill(0))) })),
    (await run(gone)).slice(0, 8),
  ];
  mapped.unmap();
  const after = await session.run({ x: tensor(1), before: placed(mapped, 1) });
  return { refusals, after: [...after.y.data] };
}

/** Runs of one session that fail, beside those of another: in both orders, by either input. */
export async function failing() {
  const sessions = [await create(), await create()];
  const device = await env.webgpu.device;
  const uncaptured = [];
  device.onuncapturederror = (event) => uncaptured.push(event.error.message);
  const outcomes = [];
  for (let k = 0; k < 16; k++) {
    const gone = owned(device, [1, 2, 3]);
    gone.destroy();
    const [wrong, right] = k & 1 ? sessions : [...sessions].reverse();
    const [first, second] = k & 2 ? ["x", "before"] : ["before", "x"];
    const isFed = k & 8; // from the GPU, so that nothing is written, which would part the runs
    const on = (...values) => (isFed ? placed(owned(device, values), values.length) : tensor(...values));
    const asked = [
      () => wrong.run({ [first]: on(1, 2, 3), [second]: placed(gone, 3) }),
      () => right.run({ x: on(k), before: on(1) }),
    ];
    if (k & 4) asked.reverse();
    const found = await Promise.allSettled(asked.map((each) => each()));
    if (k & 4) found.reverse();
    outcomes.push([found[0].status, found[1].value?.y.data[0] ?? String(found[1].reason)]);
  }
  return { outcomes, uncaptured };
}

/** What the page may set before there is a session, and what it is told then. */
export async function environment() {
  const asked = [];
  const { requestAdapter } = GPU.prototype;
  GPU.prototype.requestAdapter = function (options = {}) {
    asked.push([options.powerPreference, options.forceFallbackAdapter]);
    return requestAdapter.call(this, { ...options, forceFallbackAdapter: false });
  };
  const isQuiet = !Object.keys(env.webgpu).includes("device");
  const wrong = told(() => (env.webgpu.device = {}));
  Object.assign(env.webgpu, { powerPreference: "low-power", forceFallbackAdapter: true });
  const device = await env.webgpu.device;
  const session = await create();
  const { adapter } = env.webgpu;
  const other = await (await navigator.gpu.requestAdapter()).requestDevice();
  const late = told(() => (env.webgpu.device = other));
  const { y } = await session.run({ x: placed(owned(device, [1]), 1), before: tensor(1) });
  const beside = await create(STAYING, { device: other });
  const own = await beside.run({ x: placed(owned(other, [2]), 1), before: tensor(2) });
  return {
    wrong,
    late,
    asked: asked.filter(([preference]) => preference),
    isQuiet,
    isAdapter: adapter instanceof GPUAdapter,
    y: [...y.data],
    beside: await floats(other, own.y.gpuBuffer, 1),
  };
}

/** A device of the page's, which sessions then share; and its adapter. */
export async function own(what) {
  const adapter = await navigator.gpu.requestAdapter();
  const { log } = metered();
  const device = what === "device" ? await adapter.requestDevice() : null;
  env.webgpu[what] = device ?? adapter;
  if (device) env.webgpu.device = device; // once more, which changes nothing
  const [one, other] = [await create(STAYING), await create()];
  const shared = await env.webgpu.device;
  const { y } = await one.run({ x: placed(owned(shared, [4]), 1), before: tensor(5) });
  const { twice } = await other.run({ x: y, before: tensor(1) });
  await one.release();
  await other.release();
  return {
    twice: [...twice.data],
    devices: log.filter((name) => name === "requestDevice").length,
    isOwn: device ? shared === device : env.webgpu.adapter === adapter,
    isAlive: (await Promise.race([shared.lost, "alive"])) === "alive",
  };
}

/** A device that is lost while a run is under way. */
export async function losing() {
  const [session, other] = [await create(STAYING), await create({ preferredOutputLocation: "gpu-buffer" })];
  const device = await env.webgpu.device;
  const { y } = await session.run({ x: tensor(1), before: tensor(2) });
  const running = [session.run({ x: tensor(1), before: y }), session.run({ x: tensor(1), before: tensor(2) })];
  const loading = create({}, { device });
  device.destroy();
  const refusals = await Promise.all([...running, loading].map(message));
  refusals.push(await message(session.run({ x: tensor(1), before: tensor(2) })));
  refusals.push(await message(other.run({ x: tensor(1), before: tensor(2) })));
  refusals.push(await message(y.getData()));
  await session.release();
  const next = await create();
  const found = await next.run({ x: tensor(1), before: tensor(2) });
  return { refusals, isNew: device !== (await env.webgpu.device), y: [...found.y.data] };
}

/** A page that draws on the device, and has scopes of errors of its own. */
export async function drawing() {
  const session = await create(STAYING);
  const device = await env.webgpu.device;
  const uncaptured = [];
  device.onuncapturederror = (event) => uncaptured.push(event.error.message);
  const texture = device.createTexture({ size: [64, 4], format: "rgba8unorm", usage: GPUTextureUsage.RENDER_ATTACHMENT | GPUTextureUsage.COPY_SRC });
  const pixels = device.createBuffer({ size: 256 * 4, usage: COPY_DST | COPY_SRC });
  const draw = (r) => {
    const encoder = device.createCommandEncoder();
    const colour = { view: texture.createView(), loadOp: "clear", storeOp: "store", clearValue: { r, g: 0, b: 0, a: 1 } };
    encoder.beginRenderPass({ colorAttachments: [colour] }).end();
    encoder.copyTextureToBuffer({ texture }, { buffer: pixels, bytesPerRow: 256 }, [64, 4]);
    device.queue.submit([encoder.finish()]);
  };
  let sum = tensor(0);
  const drawn = [];
  for (let k = 0; k < 3; k++) {
    const running = session.run({ x: tensor(1), before: sum });
    draw(k / 2);
    ({ y: sum } = await running);
    drawn.push(new Uint8Array(new Float32Array(await floats(device, pixels, 1)).buffer)[0]);
  }
  const faulty = () => device.createBuffer({ size: 4, usage: MAP_READ | STORAGE });
  device.pushErrorScope("validation");
  const running = session.run({ x: tensor(1), before: sum });
  faulty();
  const { y } = await running;
  const other = session.run({ x: tensor(1), before: y });
  const heard = await device.popErrorScope();
  device.pushErrorScope("validation");
  const gone = owned(device, [1]);
  gone.destroy();
  const failed = (await message(session.run({ x: tensor(1), before: placed(gone, 1) }))).slice(0, 8);
  const mute = await device.popErrorScope();
  const last = await (await other).y.getData();
  return { drawn, sum: [...last], heard: heard?.constructor.name, failed, mute, uncaptured };
}
