"""The parts of the page runtime that need no page: memory, bundles, downloads, models of one node, a GPU's queue."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Mapping
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
from onnx.reference import ReferenceEvaluator

from sardonyx.demo import assets
from sardonyx.plans.bundle.format import Bundle, Content, write
from tests.fuzz.damages import shaders
from tests.support.node import run
from tests.web.pages import RUNTIME, bundled

ALLOCATE = """
const { Memory } = await load("memory.js");
const memory = new Memory(false);
const used = [];
const found = [];
for (const [size, align, gone] of given) {
  if (gone < used.length) memory.release(used.splice(gone, 1)[0][0]);
  const at = memory.allocate(size, align);
  used.push([at, at + size]);
  found.push({ used: [...used], reach: memory.end, align });
}
for (const [at] of used) memory.release(at);
return { found, free: memory.free, reach: memory.memory.buffer.byteLength };
"""

NAMED = re.compile(r"""(?:from|import|import\(|new URL\()\s*"(\.{1,2}/[^"]+\.js)\"""")


def test_no_script_imports_or_starts_itself() -> None:
    """Not by way of others, either: Turbopack would build a worker that starts itself for ever."""
    files = {file.resolve(): file.read_text("utf-8") for file in RUNTIME.rglob("*.js")}
    named = {file: {(file.parent / path).resolve() for path in NAMED.findall(text)} for file, text in files.items()}
    assert RUNTIME.resolve() / "helper.js" in named[RUNTIME.resolve() / "crew.js"]
    TopologicalSorter(named).prepare()  # raises CycleError


def test_ranges_of_memory_never_overlap_and_all_come_back() -> None:
    rng = np.random.default_rng(0)
    sizes, aligns = rng.integers(1, 3000, 400), 1 << rng.integers(2, 9, 400)
    steps = [[int(a), int(b), int(c)] for a, b, c in zip(sizes, aligns, rng.integers(0, 24, 400), strict=True)]
    told = run(ALLOCATE, steps)
    for state in told["found"]:
        taken = sorted(state["used"])
        assert all(end <= start for (_, end), (start, _) in pairwise(taken))
        assert taken[0][0] >= 1024
        assert taken[-1][1] <= state["reach"]
        assert state["used"][-1][0] % state["align"] == 0
    assert told["free"] == [[1024, told["reach"]]]
    most = max(sum(end - start for start, end in state["used"]) for state in told["found"])
    assert told["reach"] < 3 * most + (1 << 16)


READ = """
const { Bundle } = await load("bundle.js");
const read = async (bytes) => {
  const found = {};
  try {
    const bundle = await Bundle.open(bytes);
    for await (const section of bundle) {
      const whole = new Uint8Array(section.nbytes);
      await section.into((piece, at) => whole.set(piece, at));
      found[section.title] = Buffer.from(whole).toString("base64");
    }
  } catch (error) {
    return String(error.message);
  }
  return found;
};
const bytes = Uint8Array.from(Buffer.from(given.data, "base64"));
const answers = [];
for (const place of given.places) {
  const other = bytes.slice();
  if (place >= 0) other[place] ^= 1;
  answers.push(await read(other));
}
for (const length of given.lengths) answers.push(await read(bytes.slice(0, length)));
return answers;
"""


def test_no_byte_of_a_bundle_is_changed_or_lost_unnoticed() -> None:
    rng = np.random.default_rng(0)
    weights = np.linspace(0, 1, 20_000, dtype=np.float32).tobytes()
    contents = [Content("plain", rng.bytes(300)), Content("weights", weights).deflated(4), Content("code", b"abc" * 9)]
    assert contents[1].width == 4
    data = b"".join(write({"weights": {}, "targets": {}}, contents))
    sections = Bundle(data).sections.values()
    first = next(iter(sections)).offset
    end = len(data[:first].rstrip(b"\0"))  # between sections is what nobody reads
    edges = [place for each in sections for place in (each.offset, each.offset + each.nbytes - 1)]
    inside = [int(place) for each in sections for place in rng.integers(each.offset, each.offset + each.nbytes, 20)]
    places = [*range(end), *edges, *inside]
    lengths = [0, 7, 23, 24, end - 1, len(data) - 1]
    told = run(READ, {"data": base64.b64encode(data).decode(), "places": [-1, *places], "lengths": lengths})
    whole = {"plain": contents[0].data, "weights": weights, "code": contents[2].data}
    assert told[0] == {title: base64.b64encode(bytes(content)).decode() for title, content in whole.items()}
    wrong = [(place, answer) for place, answer in zip([*places, *lengths], told[1:], strict=True) if answer == told[0]]
    assert wrong == []
    assert all(isinstance(answer, str) for answer in told[1:])


WORK = """
const { Work, limits } = await load("queue.js");
const work = new Work(null, given.map((cost) => ({ cost })));
const passes = () => work.passes.map((pass) => pass.dispatches.map(({ cost }) => cost));
const first = passes();
work.learn(1000); // in which drivers compile
const second = passes();
work.learn(10 * limits.submission);
return { first, second, third: passes(), most: limits.submission };
"""


def test_long_work_is_split() -> None:
    costs = [1, 30, 30, 10, 10, 80, 5, 45, 1]
    told = run(WORK, costs)
    assert told["first"] == [[1, 30], [30, 10, 10], [80], [5, 45], [1]]
    assert told["second"] == told["first"]
    factor = 10 * told["most"] / sum(costs)
    for parts in (told["first"], told["third"]):
        assert [cost for part in parts for cost in part] == costs
    assert all(len(part) == 1 or factor * sum(part) <= told["most"] for part in told["third"])
    assert len(told["third"]) < len(costs)


RESUME = """
const { resuming } = await load("downloads.js");
const whole = Uint8Array.from({ length: 1000 }, (_, k) => k % 251);
const wait = globalThis.setTimeout;
globalThis.setTimeout = (act, time, ...more) => wait(act, time / 1000, ...more);
const silence = new Promise(() => {});
const sent = (start, stop, etag, status, ends) => {
  let at = start;
  const body = new ReadableStream({
    pull(controller) {
      const end = Math.min(at + 64, stop);
      if (at < end) controller.enqueue(whole.slice(at, (at = end)));
      else if (stop === whole.length) controller.close();
      else if (ends) controller.error(new TypeError("cut"));
      else return silence;
    },
  });
  const response = new Response(body, { status, headers: etag ? { etag } : {} });
  return Object.defineProperty(response, "url", { value: "https://here/model.sdx" });
};
const told = [];
for (const { mark, stop, answers, ends = true } of given) {
  const asked = [];
  globalThis.fetch = async (_, { headers }) => {
    const [stop, etag, status] = answers.shift();
    asked.push(headers.get("Range"));
    if (!stop && !ends) return silence;
    if (!stop) throw new TypeError("there is no network");
    return sent(status === 206 ? Number(headers.get("Range").match(/\\d+/)[0]) : 0, stop, etag, status, ends);
  };
  const reader = resuming(sent(0, stop, mark, 200, ends), whole.length, { headers: { "X-Mine": "1" } });
  const found = [];
  try {
    for (let piece; !(piece = await reader.read()).done; ) found.push(...piece.value);
    told.push([found.length === whole.length && found.every((byte, k) => byte === whole[k]), asked]);
  } catch (error) {
    told.push([error.message, asked]);
  }
}
return told;
"""


def test_a_download_goes_on_with_the_same_file_alone() -> None:
    """Where its connection broke, or fell silent."""
    cases = [
        {"mark": '"a"', "stop": 1000, "answers": []},
        {"mark": '"a"', "stop": 300, "answers": [[500, '"a"', 206], [0], [1000, '"a"', 206]]},
        {"mark": '"a"', "stop": 300, "answers": [[1000, '"b"', 206]]},
        {"mark": '"a"', "stop": 300, "answers": [[1000, '"a"', 200]]},
        {"mark": 'W/"a"', "stop": 300, "answers": []},
        {"mark": "", "stop": 300, "answers": []},
        {"mark": '"a"', "stop": 300, "answers": [[500, '"a"', 206], [0], [1000, '"a"', 206]], "ends": False},
        {"mark": "", "stop": 300, "answers": [], "ends": False},
    ]
    assert run(RESUME, cases) == [
        [True, []],
        [True, ["bytes=300-", "bytes=500-", "bytes=500-"]],
        ["cut", ["bytes=300-"]],
        ["cut", ["bytes=300-"]],
        ["cut", []],
        ["cut", []],
        [True, ["bytes=300-", "bytes=500-", "bytes=500-"]],
        ["nothing came for 30 s", []],
    ]


SMALL = """
const { sessionOf } = await load("ort/small.js");
const told = [];
for (const { model, feeds } of given) {
  const session = sessionOf(Uint8Array.from(model));
  if (!session) {
    told.push(null);
    continue;
  }
  const array = (type, data) => (type === "int64" ? BigInt64Array.from(data, BigInt) : Float32Array.from(data));
  const tensor = ([name, [type, data, dims]]) => [name, { type, dims, data: array(type, data) }];
  const results = await session.run(Object.fromEntries(Object.entries(feeds).map(tensor)));
  told.push(session.outputs.map(({ name }) => [Array.from(results[name].data, Number), results[name].dims]));
}
return told;
"""
NODES: list[tuple[str, dict[str, Any]]] = [
    ("y = Resize <mode='linear'> (x,,, s)", {"x": (1, 2, 5, 7), "s": [1, 2, 9, 4]}),
    ("y = Resize <mode='cubic'> (x,,, s)", {"x": (1, 1, 6, 6), "s": [1, 1, 3, 9]}),
    ("y = Resize <mode='nearest'> (x,,, s)", {"x": (1, 1, 3, 8), "s": [1, 1, 7, 3]}),
    ("y = MatMul (x, w)", {"x": (3, 4), "w": (4, 5)}),
    ("y = MatMul (x, w)", {"x": (2, 1, 3, 4), "w": (5, 4, 2)}),
    ("y = MatMul (x, w)", {"x": (4,), "w": (4, 5)}),
    ("y = MatMul (x, w)", {"x": (3, 4), "w": (4,)}),
    ("y, z = TopK (x, k)", {"x": [[3, 1, 3, 2, 5], [1, 1, 1, 0, -1]], "k": [3]}),
    ("y, z = TopK <axis=-2> (x, k)", {"x": (9, 2, 3), "k": [1]}),
    ("y = Slice (x, a, b, c, d)", {"x": (4, 5, 6), "a": [1, -1], "b": [3, -9], "c": [0, 2], "d": [1, -2]}),
    ("y = Slice (x, a, b)", {"x": (4, 5), "a": [3], "b": [1]}),
    ("y = DFT <onesided=1> (x,, axis)", {"x": (2, 12, 1), "axis": 1}),
    ("y = DFT (x,, axis)", {"x": (7, 3, 2), "axis": 0}),
    ("y = STFT (x, step, w)", {"x": (2, 50, 1), "step": 5, "w": (16,)}),
]
OTHERS = ["y = Neg (x)", "y = TopK <largest=0> (x, x)", "t = Neg (x) y = Neg (t)", "y = Resize (x,, x)"]
OLD = ["y = DFT (x)", "y = DFT <onesided=1> (x)"]
"""Nodes that older operator sets have otherwise."""
WHOLE = ["y = MatMul (x, x)", "y = Slice (x, x, x)", "y = TopK (x, x)"]
"""Nodes whose operand has integers."""


def node_model(text: str, feeds: Mapping[str, Any], opset: int = 20) -> bytes:
    """The model of a line of ONNX's text, its ports without shapes unless they are scalars."""
    kinds = {name: "float" if array.dtype == np.float32 else "int64" for name, array in feeds.items()}
    taken = ", ".join(f"{kind}[] {name}" if not feeds[name].ndim else f"{kind} {name}" for name, kind in kinds.items())
    given = "float y, int64 z" if "y, z" in text else "float y"
    line = f'<ir_version: 9, opset_import: ["" : {opset}]> g ({taken}) => ({given}) {{ {text} }}'.replace("'", '"')
    model = onnx.parser.parse_model(line)
    for value in (*model.graph.input, *model.graph.output):
        if feeds.get(value.name) is None or feeds[value.name].ndim:
            value.type.tensor_type.ClearField("shape")
    return bytes(model.SerializeToString())


def test_models_of_one_node_run_in_javascript() -> None:
    rng = np.random.default_rng(0)

    def filled(each: Any, name: str) -> np.ndarray:
        if isinstance(each, tuple):
            return rng.normal(size=each).astype(np.float32)
        return np.array(each, np.float32 if name == "x" else np.int64)

    cases, wanted = [], []
    for text, given in NODES:
        feeds = {name: filled(each, name) for name, each in given.items()}
        model = node_model(text, feeds)
        judge = ReferenceEvaluator(model) if "FT" in text else onnxruntime.InferenceSession(model)
        wanted.append(judge.run(None, feeds))
        told = {name: [array.dtype.name, array.ravel().tolist(), list(array.shape)] for name, array in feeds.items()}
        cases.append({"model": [*model], "feeds": told})
    cases += [{"model": [*node_model(text, {"x": np.float32([1])})], "feeds": {}} for text in OTHERS]
    cases += [{"model": [*node_model(text, {"x": np.array([1])})], "feeds": {}} for text in WHOLE]
    cases += [{"model": [*node_model(text, {"x": np.float32([1])}, opset=19)], "feeds": {}} for text in OLD]
    found = run(SMALL, cases)
    assert found[len(NODES) :] == [None] * len(OTHERS + WHOLE + OLD)
    for (text, _), answer, right in zip(NODES, found, wanted):
        for (data, dims), array in zip(answer, right, strict=True):
            assert dims == list(array.shape), text
            np.testing.assert_allclose(np.reshape(data, dims), array, atol=2e-5, err_msg=text)


SHADERS = """
globalThis.GPUShaderStage = { COMPUTE: 4 };
globalThis.GPUBufferUsage = {};
const { WebGpuDevice } = await load("webgpu.js");
const gpu = {
  pushErrorScope() {},
  popErrorScope: async () => null,
  createBindGroupLayout() { throw new Error("used"); },
};
const found = [];
for (const { codes, section } of given) {
  const device = new WebGpuDevice({ device: gpu }, { section: "wgsl" });
  device.listed = codes;
  const text = Uint8Array.from(Buffer.from(section, "base64"));
  found.push(await device.load(text).catch((error) => `${error.name}: ${error.message}`));
}
return found;
"""


def test_what_is_said_of_shaders_is_checked_before_a_gpu_sees_it() -> None:
    rng = random.Random(0)
    bundle = Bundle(bundled(assets() / "digits.onnx", {}, ["webgpu"]))
    codes, section = bundle.manifest["targets"]["webgpu"]["codes"], bytes(bundle.section("wgsl"))
    changes = [("nothing", section), *(shaders(rng, section) for _ in range(300))]
    told = [{"codes": codes, "section": base64.b64encode(data).decode()} for _, data in changes]
    first, *others = run(SHADERS, told)
    assert first == "Error: used"
    raw = [(change, answer) for (change, _), answer in zip(changes[1:], others, strict=True) if not _own(answer)]
    assert not raw
    assert sum(answer != first for answer in others) > 100


def _own(answer: str) -> bool:
    return answer == "Error: used" or bool(
        re.fullmatch(r"Error: wgsl is damaged: .*; compile the model anew", answer, re.S)
    )
