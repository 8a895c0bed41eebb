"""Recurrent layers by NumPy, and spelled with loops, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sardonyx.code.layer import Layer
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.recurrent_layer import RECURRENT, recurrent
from tests.support.recurrent import FUNCTIONS, USUAL, layer_of, operands, reference

LAYERS = [
    layer_of("rnn", (True,), operands=("h",)),
    layer_of("gru", (False, True), operands=("lengths", "h")),
    layer_of("gru", (False, True), operands=("bias", "h"), linear_before_reset=True, clip=0.5),
    layer_of("lstm", (False,)),
    layer_of("lstm", (False, True), operands=("c", "lengths", "peephole", "h"), clip=0.7),
    layer_of("lstm", (False, True), operands=("h",), input_forget=True),
]


def by_numpy(layer: Layer, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return list(RECURRENT.numpy(*arrays, **vars(layer)))


def by_loops(layer: Layer, arrays: list[np.ndarray]) -> list[np.ndarray]:
    results = RECURRENT.expand(*map(constant, arrays), **vars(layer))
    return [array.value for array in results if array.value is not None]


@pytest.mark.parametrize("way", [by_numpy, by_loops])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.cell)
def test_steps(layer: Layer, way: Any) -> None:
    for steps, batch in ((0, 2), (1, 1), (4, 2), (11, 3)):
        arrays = operands(layer, steps, batch, 5, seed=steps)
        for one, other in zip(way(layer, arrays), reference(layer, arrays), strict=True):
            assert_allclose(one, other, 1e-5, 1e-5)


@pytest.mark.parametrize("way", [by_numpy, by_loops])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name: str, way: Any) -> None:
    """Each direction has its own."""
    for cell, usual in USUAL.items():
        first, second = (tuple((each, 0.3, 0.4) for each in (*usual[:-1], last)) for last in (name, usual[-1]))
        layer = layer_of(cell, (False, True), activations=(first, second))
        arrays = operands(layer, 4, 2, 5)
        for one, other in zip(way(layer, arrays), reference(layer, arrays), strict=True):
            assert_allclose(one, other, 1e-5, 1e-5)


def test_both_ways_round_states_alike() -> None:
    layer = layer_of("lstm", (False, True), operands=("scale", "h"))
    arrays = operands(layer, 9, 3, 5)
    for one, other in zip(by_numpy(layer, arrays), by_loops(layer, arrays), strict=True):
        assert_allclose(one, other, 1e-6, 1e-6)


def test_what_is_not_given_is_left_out() -> None:
    layer = layer_of("lstm", (False,))
    arrays = operands(layer_of("lstm", (False,), operands=("c",)), 3, 2, 4)
    x, weights, c = map(constant, arrays)
    results: list[Array] = recurrent(layer, x, weights, {"h": None, "c": c})
    wanted = reference(layer_of("lstm", (False,), operands=("c",)), arrays)
    for one, other in zip(results, wanted, strict=True):
        assert one.value is not None
        assert_allclose(one.value, other, 1e-5, 1e-5)
