"""The routine of recurrent layers against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx import primitives as p
from sardonyx.code.layer import Layer
from sardonyx.primitives.array import Array
from sardonyx.primitives.recurrent_layer import recurrent
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support import require
from tests.support.recurrent import FUNCTIONS, USUAL, layer_of, operands, reference, rounded
from tests.webgpu.traced import evaluate, launches

ONE, TWO = (False,), (False, True)
LAYERS = [
    layer_of("rnn", (True,), operands=("h",)),
    layer_of("rnn", TWO, operands=("lengths",)),
    layer_of("gru", TWO, operands=("lengths", "h")),
    layer_of("gru", ONE),
    layer_of("gru", TWO, operands=("bias", "h"), linear_before_reset=True, clip=0.5),
    layer_of("gru", ONE, linear_before_reset=True),
    layer_of("lstm", ONE),
    layer_of("lstm", TWO, operands=("c", "lengths", "h")),
    layer_of("lstm", TWO, operands=("c", "peephole", "h"), clip=0.7),
    layer_of("lstm", TWO, operands=("h",), input_forget=True),
]

require("webgpu")


def found(layer: Layer, arrays: list[np.ndarray[Any, Any]], opened: Any = ()) -> list[Any]:
    """The results of one launch."""

    def function(inputs: Array, *others: Array) -> list[Array]:
        *given, weights = others
        return recurrent(layer, inputs, weights, dict(zip(layer.operands, given, strict=True)))

    results, plan = evaluate(function, arrays[0], *arrays[2:], weights=[arrays[1]], opened=opened)
    counts = launches(plan)
    assert counts.pop("recur") == 1
    assert set(counts) <= {"transpose"}  # of the result here, in the order of ONNX
    return results


def check(layer: Layer, steps: int, batch: int, hidden: int, opened: Any = ()) -> None:
    arrays = operands(layer, steps, batch, hidden, seed=steps)
    for one, other in zip(found(layer, arrays, opened), reference(layer, arrays), strict=True):
        assert_allclose(one, other, 1e-5, 1e-5)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.cell)
def test_cells(layer: Layer) -> None:
    check(layer, 5, 3, 5)
    check(layer, 2, 9, 12)


@pytest.mark.parametrize("cell", USUAL)
@pytest.mark.parametrize("hidden", [1, 8, 66, 130, 300])
def test_units(cell: str, hidden: int) -> None:
    check(layer_of(cell, TWO, operands=("h",)), 3, 2, hidden)


@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (1, 1), (4, 1), (11, 3), (3, 5), (2, 9)])
def test_open_sizes(steps: int, batch: int) -> None:
    check(layer_of("lstm", TWO), steps, batch, 8, [(0, 0), (0, 2)])


@pytest.mark.parametrize("layer", LAYERS[1::2], ids=lambda layer: layer.cell)
def test_steps_in_several_dispatches(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebGpuDevice, "most_trips", 70)
    check(layer, 23, 3, 5)
    check(layer, 8, 1, 12, [(0, 0)])


def test_more_steps_than_a_driver_has_turns() -> None:
    check(layer_of("gru", ONE), 9001, 1, 8)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str) -> None:
    """Each direction has its own."""
    first, second = (tuple((each, 0.3, 0.4) for each in ("sigmoid", each, "tanh")) for each in (name, "tanh"))
    check(layer_of("lstm", TWO, activations=(first, second)), 3, 2, 5)


def test_layers_follow_each_other() -> None:
    """The second one reads what the first one wrote, and states of zeros are none."""
    first, second = layer_of("gru", TWO), layer_of("lstm", TWO, operands=("h", "c"))
    (inputs, weights), (_, others, *_) = operands(first, 4, 3, 8), operands(second, 4, 3, 8)
    between = np.random.default_rng(0).normal(size=(2, 32, 16)).astype("f4")
    zeros = np.zeros((2, 1, 8), "f4")

    def function(inputs: Array, weights: Array, others: Array, between: Array, zeros: Array) -> list[Array]:
        rows, _ = recurrent(first, inputs, weights, {})
        merged = p.reshape(p.transpose(rows, [0, 2, 1, 3]), (4, rows.shape[2], 16))
        wide = p.transpose(p.dot_general(merged, between, ([2], [2])), [0, 2, 1, 3])
        zeros = p.broadcast_to(zeros, (2, rows.shape[2], 8))
        return recurrent(second, wide, others, {"h": zeros, "c": zeros})[1:]

    results, plan = evaluate(function, inputs, weights=[weights, others, between, zeros], opened=[(0, 2)])
    rows, _ = reference(first, [inputs, weights])
    wide = (rows.swapaxes(1, 2).reshape(4, 3, 16) @ between.astype(float).reshape(64, 16).T).reshape(4, 3, 2, 32)
    expected = reference(layer_of("lstm", TWO), [wide.swapaxes(1, 2), others])[1:]
    for one, other in zip(results, expected, strict=True):
        assert_allclose(one, other, 1e-5, 1e-5)
    assert launches(plan) == {"recur": 2, "matmul": 1}


def test_not_a_number_stays_in_its_sequence() -> None:
    layer = layer_of("lstm", ONE, clip=2.0)
    arrays = operands(layer, 4, 3, 8)
    expected = reference(layer, arrays)
    arrays[0][1, 0, 1, 3] = np.nan
    y, *_ = found(layer, arrays)
    assert np.isnan(y[3, 0, 1]).all()
    assert_allclose(y[:, :, [0, 2]], expected[0][:, :, [0, 2]], 1e-5, 1e-5)


def test_what_it_cannot_do_is_a_loop() -> None:
    layer = layer_of("lstm", ONE, operands=("scale",))
    arrays = operands(layer, 3, 2, 4)

    def function(inputs: Array, scale: Array, weights: Array) -> list[Array]:
        return recurrent(layer, inputs, weights, {"scale": scale})

    results, plan = evaluate(function, arrays[0], arrays[2], weights=[arrays[1]], opened=[(0, 2)])
    assert "recur" not in launches(plan)
    assert results[0].shape == (3, 1, 2, 4)


def check_rounded(layer: Layer, steps: int, batch: int, hidden: int, seed: int = 0) -> None:
    arrays = operands(layer, steps, batch, hidden, seed)
    for one, other in zip(found(layer, arrays, [(0, 0)]), rounded(layer, arrays), strict=True):
        assert_allclose(one, other, 0, 2e-2)
        assert np.mean(np.abs(one - other) > 1e-5) < 0.2


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 1), (1, 66), (1, 300), (2, 130), (3, 8), (4, 5)])
def test_states_of_8_bits(batch: int, hidden: int, seed: int) -> None:
    check_rounded(layer_of("lstm", TWO, operands=("lengths", "scale")), 4, batch, hidden, seed)
    check_rounded(layer_of("lstm", (True,), operands=("lengths", "h", "scale")), 3, batch, hidden, seed)
    check_rounded(layer_of("lstm", (True,), operands=("h", "c", "scale"), clip=0.9), 3, batch, hidden, seed)


def test_states_of_8_bits_in_several_dispatches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebGpuDevice, "most_trips", 70)
    check_rounded(layer_of("lstm", TWO, operands=("peephole", "scale")), 23, 3, 5)
    check_rounded(layer_of("lstm", TWO, operands=("lengths", "h", "scale")), 9, 4, 5)


@pytest.mark.parametrize(("batch", "hidden"), [(1, 600), (9, 300), (1, 1100)])
def test_many_weights_are_products_over_the_device(batch: int, hidden: int) -> None:
    layer = layer_of("lstm", ONE)
    arrays = operands(layer, 2, batch, hidden)

    def function(inputs: Array, weights: Array) -> list[Array]:
        return recurrent(layer, inputs, weights, {})

    results, plan = evaluate(function, arrays[0], weights=[arrays[1]])
    assert "recur" not in launches(plan)
    for one, other in zip(results, reference(layer, arrays), strict=True):
        assert_allclose(one, other, 1e-5, 1e-5)
