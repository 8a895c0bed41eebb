"""Sizes that exporters send through floats, `int(n * 0.5)` and `int(n ** 0.5)`: bundles take them whatever they are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.plans.bundle import Bundle
from tests.engine.graphs import model
from tests.engine.providers import require_provider

TARGETS = {"wasm": "WasmExecutionProvider", "webgpu": "WebGpuExecutionProvider"}
THROUGH_FLOATS = """g (float[N, 3] x) => (float[A] y) {
    shape = Shape (x)
    zero = Constant <value_int = 0> ()
    axis = Constant <value_ints = [0]> ()
    count = Gather (shape, zero)
    n = Cast <to = 1> (count)
    half = Constant <value_float = 0.5> ()
    four = Constant <value_float = 4.0> ()
    three = Constant <value_float = 3.0> ()
    part = Constant <value_float = 0.3> ()
    %s
    whole = Cast <to = 7> (r)
    size = Unsqueeze (whole, axis)
    y = Expand (half, size)
}"""
RATIOS = {
    "product": "r = Mul (n, half)",
    "floor": "h = Mul (n, half)  r = Floor (h)",
    "ceil": "h = Div (n, four)  r = Ceil (h)",
    "third": "h = Div (n, three)  r = Floor (h)",
    "ceil-third": "h = Div (n, three)  r = Ceil (h)",
    "sum": "h = Mul (n, half)  i = Add (h, four)  r = Add (i, n)",
    "square": "s = Mul (n, n)  r = Sqrt (s)",
}
READ = {
    "root": "r = Pow (n, half)",
    "inexact": "r = Mul (n, part)",
    "round": "h = Mul (n, half)  r = Round (h)",
    "third-and-back": "h = Div (n, three)  i = Mul (h, part)  r = Add (i, n)",
}
SQUARE = """g (float[1, 1, H, W] x, float[4, 1, 8, 8] w) => (float[1, A, B, 4] y) {
    patches = Conv <strides = [8, 8]> (x, w)
    flat = Constant <value_ints = [1, 4, -1]> ()
    rows = Reshape (patches, flat)
    tokens = Transpose <perm = [0, 2, 1]> (rows)
    shape = Shape (tokens)
    one = Constant <value_ints = [1]> ()
    count = Gather (shape, one)
    n = Cast <to = 1> (count)
    half = Constant <value_float = 0.5> ()
    root = Pow (n, half)
    side = Cast <to = 7> (root)
    four = Constant <value_ints = [4]> ()
    image = Concat <axis = 0> (one, side, side, four)
    y = Reshape (tokens, image)
}"""
LEFT_OUT = """g (float[N, 2] x) => (float[K, 4] y) {
    shape = Shape (x)
    zero = Constant <value_ints = [0]> ()
    two = Constant <value_ints = [2]> ()
    four = Constant <value_ints = [4]> ()
    eight = Constant <value_ints = [8]> ()
    count = Gather (shape, zero)
    parts = Div (count, eight)
    pairs = Div (parts, two)
    some = Slice (x, zero, parts)
    rows = Concat <axis = 0> (pairs, four)
    paired = Reshape (some, rows)
    same = Equal (parts, four)
    y = If (same) <
        then_branch = t () => (float[L, 4] a) { a = Neg (paired) },
        else_branch = e () => (float[M, 4] b) { b = Exp (paired) }>
}"""


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def bundle(data: bytes, target: str) -> tuple[sardonyx.InferenceSession, dict[str, Any]]:
    require_provider(TARGETS[target])
    raw = sardonyx.compile(data, target)
    session = sardonyx.InferenceSession(raw, providers=[TARGETS[target]])
    return session, Bundle(raw).manifest["targets"][target]


def assert_alike(data: bytes, session: sardonyx.InferenceSession, feeds: dict[str, np.ndarray]) -> None:
    wanted = onnxruntime.InferenceSession(data).run(None, feeds)
    for found, expected in zip(session.run(None, feeds), wanted, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", [*RATIOS, *READ])
def test_a_size_through_floats_is_open(name: str) -> None:
    data = model(THROUGH_FLOATS % {**RATIOS, **READ}[name])
    session, told = bundle(data, "wasm")
    assert told["refuses"] == []
    assert {plan["accepts"] for plan in told["plans"]} == {"x float32[N, 3]; any N"}
    assert ('"do": "read"' in json.dumps(told["plans"])) == (name in READ)
    for n in (0, 1, 2, 3, 16, 23, 25, 99, 4097):
        assert_alike(data, session, {"x": floats(n, 3)})


def test_a_session_knows_it_for_all_sizes() -> None:
    data = model(THROUGH_FLOATS % RATIOS["ceil"])
    session = sardonyx.InferenceSession(data, providers=[TARGETS["wasm"]])
    for n in (5, 8, 1, 0, 999):
        assert_alike(data, session, {"x": floats(n, 3)})


@pytest.mark.parametrize("target", TARGETS)
def test_a_root_asks_whether_the_picture_is_square(target: str) -> None:
    data = model(SQUARE)
    session, told = bundle(data, target)
    assert "w = h" in told["plans"][0]["accepts"].lower()
    assert '"do": "read"' not in json.dumps(told["plans"][0])
    for side in (8, 15, 32, 47):
        assert_alike(data, session, {"x": floats(1, 1, side, side), "w": floats(4, 1, 8, 8)})


def test_a_few_sizes_that_a_plan_leaves_out_have_their_own() -> None:
    """Among many gaps, those of odd numbers of parts."""
    data = model(LEFT_OUT)
    session, _ = bundle(data, "wasm")
    for n in (16, 32, 39, 48, 512):
        assert_alike(data, session, {"x": floats(n, 2)})


@pytest.mark.parametrize("target", TARGETS)
def test_places_of_many_pixels_are_known_beforehand(target: str) -> None:
    """They are computed in float64, which GPUs lack, and 512 of them are more than a bundle folds otherwise."""
    data = model("""g (float[1, 1, H, 256] x) => (float[1, 1, G, 512] y)
        <float[4] twice = {1, 1, 2, 2}> {
        y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , twice)
    }""")
    session, _ = bundle(data, target)
    for height in (1, 2, 7):
        x = floats(1, 1, height, 256)
        rows = np.linspace(0, height - 1, 2 * height)
        along = np.array([np.interp(np.linspace(0, 255, 512), np.arange(256), row) for row in x[0, 0]])
        expected = np.array([np.interp(rows, np.arange(height), column) for column in along.T]).T
        np.testing.assert_allclose(session.run(None, {"x": x})[0][0, 0], expected, atol=1e-5)
