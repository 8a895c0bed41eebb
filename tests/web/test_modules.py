"""The parts of the page runtime that need no page: memory, bundles, and what waits for a GPU."""

from __future__ import annotations

import base64
from itertools import pairwise

import numpy as np

from sardonyx.plans.bundle.format import Bundle, Content, write
from tests.support.node import run

ALLOCATE = """
const { Allocator } = await load("memory.js");
let reach = 64;
const memory = new Allocator(64, (end) => (reach = Math.ceil(end / 4096) * 4096));
const used = [];
const found = [];
for (const [size, align, gone] of given) {
  if (gone < used.length) memory.release(used.splice(gone, 1)[0][0]);
  const at = memory.allocate(size, align);
  used.push([at, at + size]);
  found.push({ used: [...used], reach, align });
}
for (const [at] of used) memory.release(at);
return { found, free: memory.free, reach };
"""


def test_ranges_of_memory_never_overlap_and_all_come_back() -> None:
    rng = np.random.default_rng(0)
    sizes, aligns = rng.integers(1, 3000, 400), 1 << rng.integers(2, 9, 400)
    steps = [[int(a), int(b), int(c)] for a, b, c in zip(sizes, aligns, rng.integers(0, 24, 400), strict=True)]
    told = run(ALLOCATE, steps)
    for state in told["found"]:
        taken = sorted(state["used"])
        assert all(end <= start for (_, end), (start, _) in pairwise(taken))
        assert taken[0][0] >= 64
        assert taken[-1][1] <= state["reach"]
        assert state["used"][-1][0] % state["align"] == 0
    assert told["free"] == [[64, told["reach"]]]
    assert told["reach"] < 3 * max(sum(end - start for start, end in state["used"]) for state in told["found"])


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
