"""Updates that do not meet are written side by side: no thread has to go through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sardonyx import InferenceSession
from sardonyx.plans.plan import Launch
from sardonyx_webgpu.legalization.scattering import FEWEST_UPDATES
from tests.engine.graphs import model
from tests.engine.providers import WEBGPU
from tests.webgpu.nodes import Array, on_device, run

__all__ = ["on_device"]

Shape = tuple[int, ...]


@pytest.mark.parametrize(
    ("shape", "places", "axis"),
    [
        ((60, 128), (1000, 128), 0),
        ((60, 16, 3), (1500, 16, 3), 0),
        ((16, 60, 8), (16, 600, 8), 1),
        ((128, 60), (128, 1000), -1),
        ((128, 60), (100, 1000), 1),
        ((60, 128), (1000, 100), 0),
    ],
)
def test_elements(shape: Shape, places: Shape, axis: int, rng: np.random.Generator) -> None:
    """More additions than llvmpipe lets a thread turn loops."""
    x, updates = rng.normal(size=shape).astype(np.float32), rng.normal(size=places).astype(np.float32)
    indices = rng.integers(-shape[axis], shape[axis], places)
    expected = x.astype(np.float64)
    where = [*np.indices(places)]
    where[axis] = indices
    np.add.at(expected, tuple(where), updates)
    (found,) = run("ScatterElements", x, indices, updates, axis=axis, reduction="add")
    assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "tuples"), [((50, 256), (400, 1)), ((50, 4, 64), (20, 20, 2)), ((40, 30), (900, 2)), ((5, 6), (2,))]
)
def test_slices(shape: Shape, tuples: Shape, rng: np.random.Generator) -> None:
    """Slices are overwritten in order: the last update of a place is what stays."""
    named = tuples[-1]
    indices = np.stack([rng.integers(0, size, tuples[:-1]) for size in shape[:named]], axis=-1)
    x, updates = rng.normal(size=shape), rng.normal(size=(*tuples[:-1], *shape[named:]))
    x, updates = x.astype(np.float32), updates.astype(np.float32)
    expected = x.copy()
    for place in np.ndindex(tuples[:-1]):
        expected[tuple(indices[place])] = updates[place]
    assert_array_equal(run("ScatterND", x, indices, updates)[0], expected)


def combined(x: Array, indices: Array, updates: Array, reduction: str) -> Array:
    """What ScatterND says, one update after the other, in the type of x."""
    expected = x.copy()
    combine: Any = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}.get(reduction)
    with np.errstate(all="ignore"):
        for place in np.ndindex(indices.shape[:-1]):
            index = tuple(indices[place])
            expected[index] = combine(expected[index], updates[place]) if combine else updates[place]
    return expected


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8", "int32", "int64", "uint64"])
def test_dtypes(dtype: str, reduction: str, rng: np.random.Generator) -> None:
    """Updates are combined in their order, and so exactly."""
    indices = rng.integers(0, 20, (300, 1))
    if dtype.startswith("float"):
        x, updates = rng.normal(size=20), rng.choice([*rng.normal(size=50), np.inf, np.nan], 300)
    else:
        x, updates = (rng.integers(0, np.iinfo(dtype).max, size, dtype) for size in (20, 300))
    x, updates = x.astype(dtype), updates.astype(dtype)
    for open_sizes in (False, True):
        (found,) = run("ScatterND", x, indices, updates, reduction=reduction, open_sizes=open_sizes)
        assert_array_equal(found, combined(x, indices, updates, reduction))


@pytest.mark.parametrize("reduction", ["none", "max"])
@pytest.mark.parametrize("count", [0, 1, 63, FEWEST_UPDATES, FEWEST_UPDATES + 1, 257, 100_000])
def test_counts(count: int, reduction: str, rng: np.random.Generator) -> None:
    """From one to so many updates that no thread may go through all of them."""
    x, updates = (rng.normal(size=size).astype(np.float32) for size in ((37, 2), (count, 2)))
    indices = rng.integers(-37, 37, (count, 1))
    for open_sizes in (False, True):
        (found,) = run("ScatterND", x, indices, updates, reduction=reduction, open_sizes=open_sizes)
        assert_array_equal(found, combined(x, indices, updates, reduction))


def test_all_updates_of_one_place(rng: np.random.Generator) -> None:
    indices, updates = np.zeros((100_000, 1), np.int64), rng.integers(-9, 9, 100_000).astype(np.int32)
    (found,) = run("ScatterND", np.zeros(3, np.int32), indices, updates, reduction="add")
    assert found.tolist() == [updates.sum(), 0, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slices_of_elements(axis: int, rng: np.random.Generator) -> None:
    """The last update of an element stays, whatever the axis."""
    shape, places = (6, 7, 8), (5, 6, 7)
    counts = [*places]
    counts[axis] = 90
    x, updates = (rng.normal(size=size).astype(np.float32) for size in (shape, counts))
    indices = rng.integers(0, shape[axis], counts)
    expected = x.copy()
    for place in np.ndindex(*counts):
        expected[(*place[:axis], indices[place], *place[axis + 1 :])] = updates[place]
    (found,) = run("ScatterElements", x, indices, updates, axis=axis)
    assert_array_equal(found, expected)


def test_nothing() -> None:
    x, updates = np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)
    (found,) = run("ScatterND", x, np.zeros((0, 1), np.int64), updates)
    assert found.shape == (0, 4)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_what_reads_the_result(reduction: str, rng: np.random.Generator) -> None:
    """It is in the same dispatch."""
    text = f"""g (float[30, 5] x, int64[999, 1] i, float[999, 5] u, float[5] v) => (float[5, 30] y) {{
        s = ScatterND <reduction = "{reduction}"> (x, i, u)
        m = Mul (s, v)
        t = Transpose <perm = [1, 0]> (m)
        y = Relu (t)
    }}"""
    made = InferenceSession(model(text), providers=[WEBGPU])
    x, u, v = (rng.normal(size=size).astype(np.float32) for size in ((30, 5), (999, 5), 5))
    i = rng.integers(0, 30, (999, 1))
    (found,) = made.run(None, {"x": x, "i": i, "u": u, "v": v})
    assert_array_equal(found, np.maximum(combined(x, i, u, reduction) * v, 0).T)
    (plan,) = made.plans
    assert [step.origins for step in plan.steps if isinstance(step, Launch)][-1] == [0, 1, 2, 3]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_stretched_indices(axis: int, reduction: str, rng: np.random.Generator) -> None:
    """Elements whose indices are the same along an axis are slices: few indices are sorted."""
    places = (700, 1) if axis == 0 else (1, 700)
    counts = (700, 8) if axis == 0 else (8, 700)
    shape = (30, 8) if axis == 0 else (8, 30)
    text = f"""g (float[{shape[0]}, {shape[1]}] x, int64[{places[0]}, {places[1]}] i, float[{counts[0]}, {counts[1]}] u)
        => (float[{shape[0]}, {shape[1]}] y) {{
        c = Constant <value = int64[2] {{{counts[0]}, {counts[1]}}}> ()
        e = Expand (i, c)
        y = ScatterElements <axis = {axis}, reduction = "{reduction}"> (x, e, u)
    }}"""
    made = InferenceSession(model(text), providers=[WEBGPU])
    x, u = (rng.normal(size=size).astype(np.float32) for size in (shape, counts))
    i = rng.integers(-30, 30, places)
    (found,) = made.run(None, {"x": x, "i": i, "u": u})
    if axis:
        x, i, u, found = x.T, i.T, u.T, found.T
    assert_array_equal(found, combined(x, i, u, reduction))
    keys = {buffer.elements for buffer in made.plans[0].buffers if buffer.dtype == "uint32"}
    assert keys == {700}


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "int64"])
def test_rows_in_fours(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, (40, 12)).astype(dtype)
    updates = rng.integers(-9, 9, (FEWEST_UPDATES + 44, 12)).astype(dtype)
    indices = rng.integers(0, 40, (len(updates), 1))
    (found,) = run("ScatterND", x, indices, updates, reduction="add")
    assert_array_equal(found, combined(x, indices, updates, "add"))
