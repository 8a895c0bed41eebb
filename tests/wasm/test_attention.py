"""The routine of attention against float64: blocks of queries and of keys, heads that share keys, masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sardonyx
from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array as Symbol
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.legalization import attention, legalize, takes
from sardonyx_wasm.primitives import ATTEND
from sardonyx_wasm.routines import tile
from tests.support import require
from tests.support.attention import NEVER, model, operands, reference
from tests.support.numbers import random
from tests.wasm.compiled import PLAIN, Array, Compiled, run

TARGETS = pytest.mark.parametrize("target", sorted(tile.SHAPES))

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def check(
    sizes: tuple[int, ...],
    target: str,
    mask: tuple[int, ...] = (),
    causal: int | None = None,
    room: int = 0,
    **more: Any,
) -> Array:
    arrays = operands(sizes)
    bias = None
    if mask:
        bias = random(*mask, sizes[4])
        bias[random(*bias.shape) > 0.7] = NEVER
        arrays.append(bias)
    expected = reference(*arrays[:3], bias, causal)
    attributes: dict[str, Any] = {"causal": causal, "keys": None}
    if room:
        attributes["keys"] = sizes[4]
        arrays[1:3] = [with_room(array, room) for array in arrays[1:3]]
    (found,) = run("attend", arrays, [("float32", expected.shape)], attributes, target=target, **more)
    assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    return found


@TARGETS
@pytest.mark.parametrize(
    ("length", "keys"),
    [
        (1, 1),
        (1, 300),
        (2, 3),
        (2, 513),
        (7, 17),
        (7, 256),
        (8, 1),
        (8, 16),
        (8, 513),
        (47, 255),
        (49, 257),
        (100, 300),
    ],
)
def test_blocks(target: str, length: int, keys: int) -> None:
    check((1, 2, 2, length, keys, 8, 16), target)


@TARGETS
@pytest.mark.parametrize(("depth", "width"), [(4, 16), (20, 32), (64, 64), (256, 256), (80, 48)])
def test_widths(target: str, depth: int, width: int) -> None:
    for length in (3, 20):
        check((2, 2, 1, length, 40, depth, width), target)


@TARGETS
@pytest.mark.parametrize("causal", [0, 5, -3, 300, -400])
def test_causal(target: str, causal: int) -> None:
    for length, keys in ((1, 9), (5, 5), (60, 60), (130, 300), (300, 280)):
        check((1, 4, 2, length, keys, 8, 16), target, causal=causal, pieces=3)


@TARGETS
@pytest.mark.parametrize("mask", [(1, 1, 1), (2, 1, 1), (1, 6, 1), (2, 6, 50), (1, 1, 50)])
def test_masks(target: str, mask: tuple[int, ...]) -> None:
    check((2, 6, 3, 50, 270, 8, 16), target, mask)
    check((2, 6, 3, 50, 270, 8, 16), target, mask, causal=100)


def test_more_rows_than_a_part_of_the_scratch_memory() -> None:
    check((1, 2, 1, 1100, 20, 4, 8), "v8", causal=-5)


@TARGETS
def test_any_split_gives_the_same_bits(target: str) -> None:
    results = [check((1, 6, 2, 40, 300, 8, 16), target, (1, 1, 40), 100, pieces=pieces) for pieces in (1, 2, 5, 40)]
    for result in results[1:]:
        assert_array_equal(result.view("u4"), results[0].view("u4"))


def with_room(array: Array, room: int) -> Array:
    """What lies in a cache of so many places, the rest of which is no number."""
    whole = np.full((*array.shape[:2], room, array.shape[3]), np.nan, array.dtype)
    whole[:, :, : array.shape[2]] = array
    return whole


@TARGETS
@pytest.mark.parametrize(("length", "keys"), [(1, 5), (1, 300), (40, 300), (9, 256)])
def test_keys_and_values_with_room_behind_them(target: str, length: int, keys: int) -> None:
    check((2, 6, 2, length, keys, 8, 16), target, (1, 1, length), keys - length, room=320, pieces=2)


def test_open_sizes() -> None:
    shapes = ["p0", 6, "p1", 8], ["p0", 3, "p2", 8], ["p0", 3, "p2", 16], ["p0", 1, "p1", "p2"]
    made = Compiled(
        "attend",
        (["float32"] * 4, ["float32"]),
        shapes,
        [["p0", 6, "p1", 16]],
        4,
        {"causal": {"size": "p3"}, "keys": None},
    )
    for batch, length, keys, causal in ((1, 1, 1, 0), (2, 5, 37, 32), (1, 9, 270, 100)):
        arrays = [*operands((batch, 6, 3, length, keys, 8, 16)), random(batch, 1, length, keys)]
        params = [batch, length, keys, causal]
        (found,) = made.run(arrays, [(batch, 6, length, 16)], params, pieces=2)
        assert_allclose(found, reference(*arrays, causal=causal), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("sizes", [(0, 2, 2, 3, 5, 8, 16), (1, 2, 2, 0, 5, 8, 16), (1, 2, 2, 3, 0, 8, 16)])
def test_nothing_to_do(sizes: tuple[int, ...]) -> None:
    check(sizes, "v8")


def test_without_fusion() -> None:
    check((1, 2, 2, 20, 300, 8, 16), "v8", features=PLAIN)


def test_no_number_stays_one() -> None:
    q, k, v = operands((1, 1, 1, 9, 20, 8, 16))
    q[0, 0, 3, 2] = np.nan
    (found,) = run("attend", [q, k, v], [("float32", (1, 1, 9, 16))], {"causal": None, "keys": None})
    assert np.isnan(found[0, 0, 3]).all()
    assert np.isfinite(np.delete(found, 3, 2)).all()


def test_large_scores() -> None:
    q, k, v = operands((1, 1, 1, 9, 300, 8, 16))
    q *= 1000
    (found,) = run("attend", [q, k, v], [("float32", (1, 1, 9, 16))], {"causal": None, "keys": None})
    assert_allclose(found, reference(q, k, v), rtol=1e-3, atol=1e-3)


# ---- legalization


def traced(
    target: str, shapes: list[list[int]], causal: int | None = None, **options: Any
) -> tuple[bool, list[Symbol]]:
    """Whether the routine takes it, and its operands then."""
    trace = Trace(Guards())
    with trace:
        inputs = [trace.input(dtypes.float32, tuple(shape)) for shape in shapes]
        given = {name: trace.input(dtype, shape) for name, (dtype, shape) in options.items()}
        trace.give([p.attention(*inputs, causal=causal, **given)])
    (equation,) = trace.equations
    if not takes(equation, target):
        return False, []
    legalize(trace, {-1}, target)
    return True, [*trace.equations[-1].inputs]


def test_what_is_taken() -> None:
    long = [[1, 4, 70, 64], [1, 2, 70, 64], [1, 2, 70, 64]]
    one = [[1, 4, 1, 64], *long[1:]]
    assert traced("v8", long)[0]
    assert not traced("wasmtime", long)[0]
    assert traced("wasmtime", one)[0]
    assert traced("wasmtime", [[1, 4, 100, 64], [1, 2, 100, 64], [1, 2, 100, 64]])[0]
    assert not traced("v8", [[1, 4, 100, 62], [1, 2, 100, 62], [1, 2, 100, 64]])[0]
    assert not traced("v8", [*long[:2], [1, 2, 70, 12]])[0]
    assert not traced("v8", [[1, 1, 9, 512], [1, 1, 9, 512], [1, 1, 9, 64]])[0]
    assert ATTEND.FEW > 2


def test_masks_become_one_bias() -> None:
    shapes = [[2, 4, 9, 64], [2, 2, 20, 64], [2, 2, 20, 64]]
    bias, allowed = (dtypes.float32, (20,)), (dtypes.bool_, (2, 1, 9, 1))
    for options, shape in (
        ({"bias": bias}, (1, 1, 1, 20)),
        ({"allowed": allowed}, (2, 1, 9, 20)),
        ({"bias": bias, "allowed": allowed, "causal": 3}, (2, 1, 9, 20)),
    ):
        taken, found = traced("v8", shapes, **options)
        assert taken
        assert len(found) == 4
        assert found[3].shape == shape


# ---- the operator


@pytest.mark.parametrize("mask", ["", "bool", "float"])
@pytest.mark.parametrize("past", [False, True])
def test_operator(past: bool, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The routine, asked for natively too, with sizes that change."""
    monkeypatch.setattr(attention, "LARGE", 0)
    session = sardonyx.InferenceSession(model(past, mask), providers=["WasmExecutionProvider"])
    rng = np.random.default_rng(0)
    for batch, length, before in ((1, 10, 0), (2, 1, 7), (2, 30, 3), (1, 9, 300)):
        keys = length + before
        count = length if past else keys
        k, v = (rng.standard_normal((batch, 2, keys, size)).astype("f4") for size in (16, 32))
        feeds = {
            "q": rng.standard_normal((batch, 4, length, 16)).astype("f4"),
            "k": k[:, :, -count:],
            "v": v[:, :, -count:],
        }
        if past:
            feeds |= {"pk": k[:, :, :before], "pv": v[:, :, :before]}
        bias = None
        if mask:
            allowed = rng.random((batch, 1, length, keys)) > 0.3
            bias = np.where(allowed, 0, NEVER if mask == "bool" else -5).astype("f4")
            feeds["m"] = allowed if mask == "bool" else bias
        expected = reference(feeds["q"] / 4, k, v, bias, None if mask else before if past else 0)
        assert_allclose(session.run(["y"], feeds)[0], expected, rtol=1e-4, atol=1e-5)
    names = {code["primitive"] for plan in session.plans for code in plan.codes if "primitive" in code}
    assert "attend" in names
