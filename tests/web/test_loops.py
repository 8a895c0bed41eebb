"""Loops of bundles in JavaScript, whose turns the module takes by itself where it can, beside onnxruntime."""

from __future__ import annotations

import base64

import numpy as np
import onnxruntime
import pytest

from tests.support.node import run
from tests.web.pages import bundled, model_of

RUN = """
const { Tensor, load: open } = await load("runtime.js");
const { Turns } = await load("turns.js");
const { take } = Turns.prototype;
let taken = 0;
Turns.prototype.take = function (count, most) {
  const found = take.call(this, count, most);
  taken += found[0] - count;
  return found;
};
const session = await open(Uint8Array.from(Buffer.from(given.bundle, "base64")), { threads: 1 });
const told = [];
const ran = async (n, c) => {
  taken = 0;
  const feeds = {
    n: new Tensor("int64", BigInt64Array.of(BigInt(n)), []),
    c: new Tensor("bool", Uint8Array.of(c), []),
    x: new Tensor("float32", Float32Array.from(given.x), [given.x.length]),
  };
  const results = await session.run(Object.fromEntries(session.inputs.map(({ name }) => [name, feeds[name]])));
  const outputs = session.outputs.map(({ name }) => [Array.from(results[name].data, Number), results[name].dims]);
  return { outputs, taken };
};
for (const [n, c] of given.cases) told.push(await ran(n, c));
const before = session.memory;
for (let k = 0; k < 100; k++) await ran(...given.cases.at(-1));
return [told, session.memory - before];
"""
X = "float[N] x"
HALVED = "h = Constant<value = float {0.5}>() a2 = Mul(a, h)"
LOOPS = {
    "a carried value": ("r", "x", "float[N] a", "float[N] a2", f"k2 = Identity(k) {HALVED}", "float[N] r"),
    "a condition and slices": (
        *("r, s", "x", "float[N] a", "float[N] a2, float[N] a3"),
        f"{HALVED} a3 = Neg(a2) m = ReduceMax<keepdims = 0>(a2) l = Constant<value = float {{0.01}}>()"
        " k2 = Greater(m, l)",
        "float[N] r, float[T, N] s",
    ),
    "slices of odd bytes": (
        *("r, s", "x", "float[N] a", "float[N] a2, bool e"),
        f"k2 = Identity(k) {HALVED} m = ReduceMax<keepdims = 0>(a2) l = Constant<value = float {{0.1}}>()"
        " e = Less(m, l)",
        "float[N] r, bool[T] s",
    ),
    "values that change places": (
        *("r, s, t", "x, y, x", "float[N] a, float[N] b, float[N] d", "float[N] b2, float[N] a2, float[N] d2"),
        "k2 = Identity(k) b2 = Identity(b) a2 = Identity(a) h = Sub(a, b) d2 = Sub(d, h)",
        "float[N] r, float[N] s, float[N] t",
    ),
    "one that nobody reads": (
        *("r, s", "x, y", "float[N] a, float[N] b", "float[N] b2, float[N] a3"),
        "k2 = Identity(k) b2 = Identity(b) o = Constant<value = float {1.0}>() a3 = Add(b, o)",
        "float[N] r, float[N] s",
    ),
    "the number of the turn, and what is outside": (
        *("r, s", "x", "float[N] a", "float[N] a2, int64 j"),
        "k2 = Identity(k) f = Cast<to = 1>(i) g = Mul(f, y) a2 = Add(a, g) j = Identity(i)",
        "float[N] r, int64[T] s",
    ),
    "a value that grows": (
        *("r", "x", "float[M] a", "float[M2] a2"),
        "k2 = Identity(k) m = ReduceMax<keepdims = 1>(a) a2 = Concat<axis = 0>(a, m)",
        "float[P] r",
    ),
    "a size that the turn tells": (
        *("r, s", "x", "float[N] a", "float[N] a2, float z"),
        f"k2 = Identity(k) {HALVED} e = Constant<value = int64[1] {{-1}}>() q = Reshape(i, e) p = Expand(h, q)"
        " z = ReduceSum<keepdims = 0>(p)",
        "float[N] r, float[T] s",
    ),
    "a loop in a loop": (
        *("r", "x", "float[N] a", "float[N] a4"),
        "k2 = Identity(k) t = Constant<value = int64 {3}>() a4 = Loop <body = bb (int64 ii, bool kk, float[N] aa)"
        " => (bool kk2, float[N] aa2) { kk2 = Identity(kk) h = Constant<value = float {0.9}>()"
        " aa2 = Mul(aa, h) }> (t, k, a)",
        "float[N] r",
    ),
}
ALONE = {"a value that grows", "a size that the turn tells", "slices of odd bytes"}
"""Those whose turns are taken one by one."""
CASES = [(0, True), (1, True), (2, True), (3, False), (7, True), (200, True)]


@pytest.mark.parametrize("name", LOOPS)
def test_turns_are_onnxruntimes(name: str) -> None:
    results, taken, carried, made, body, outputs = LOOPS[name]
    node = f"{results} = Loop <body = b (int64 i, bool k, {carried}) => (bool k2, {made}) {{ {body} }}> (n, c, {taken})"
    model = model_of(f"g (int64 n, bool c, {X}) => ({outputs}) {{ y = Neg(x) {node} }}")
    x = np.float32([1, -2, 3, 0.25])
    bundle = base64.b64encode(bundled(model, {}, ["wasm"])).decode()
    told, grown = run(RUN, {"bundle": bundle, "x": x.tolist(), "cases": CASES})
    judge = onnxruntime.InferenceSession(model)
    for (n, c), found in zip(CASES, told, strict=True):
        wanted = judge.run(None, {"n": np.array(n), "c": np.array(c), "x": x})
        for (data, dims), array in zip(found["outputs"], wanted, strict=True):
            if not array.size:  # where onnxruntime knows no other sizes
                assert (dims[0], len(dims)) == (0, array.ndim)
                continue
            assert dims == list(array.shape), (n, c)
            np.testing.assert_allclose(np.reshape(data, dims), array, rtol=1e-5, err_msg=f"{n} {c}")
    assert grown == 0
    assert (told[-1]["taken"] > 0) == (name not in ALONE)
