"""Updates that do not meet are written side by side: no thread has to go through all of them."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import InferenceSession
from tests.engine.graphs import model
from tests.engine.providers import WEBGPU
from tests.support.needs import require

Shape = tuple[int, ...]


def scatter(operator: str, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, attributes: str) -> np.ndarray:
    """What an operator makes of its inputs, on WebGPU."""
    require("webgpu")
    shapes = [", ".join(map(str, array.shape)) for array in (x, indices, updates)]
    inputs = "float[{}] x, int64[{}] i, float[{}] u".format(*shapes)
    text = f"g ({inputs}) => (float[{shapes[0]}] y) {{ y = {operator} <{attributes}> (x, i, u) }}"
    session = InferenceSession(model(text), providers=[WEBGPU])
    (found,) = session.run(None, {"x": x, "i": indices, "u": updates})
    return np.asarray(found)


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
    found = scatter("ScatterElements", x, indices, updates, f'axis = {axis}, reduction = "add"')
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


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
    np.testing.assert_array_equal(scatter("ScatterND", x, indices, updates, 'reduction = "none"'), expected)
