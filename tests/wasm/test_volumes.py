"""Models with convolutions over three axes, and in groups, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.testing import assert_allclose
from onnx import helper, numpy_helper

import sardonyx
from tests.support import require

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")

Array = np.ndarray[Any, Any]


def correlated(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, groups: int) -> Array:
    axes = w.ndim - 2
    around = [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:])]
    extents = [(taps - 1) * step + 1 for taps, step in zip(w.shape[2:], dilations)]
    views = sliding_window_view(np.pad(x.astype(float), around), extents, tuple(range(2, 2 + axes)))
    views = views[(..., *(slice(None, None, step) for step in (*strides, *dilations)))]
    parts = [
        np.tensordot(seen, kernel.astype(float), ([1, *range(2 + axes, 2 + 2 * axes)], [*range(1, 2 + axes)]))
        for seen, kernel in zip(np.split(views, groups, 1), np.split(w, groups))
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1)


def check(x: Array, w: Array, expected: Array, operator: str = "Conv", **attributes: Any) -> None:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    given = helper.make_tensor_value_info("x", kind, ["b", x.shape[1], *"hwd"[: x.ndim - 2]])
    made = helper.make_tensor_value_info("y", kind, None)
    node = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
    graph = helper.make_graph([node], "convolution", [given], [made], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = sardonyx.InferenceSession(model.SerializeToString(), providers=["WasmExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    near = 1e-4 if x.dtype == np.float32 else 1e-13
    assert_allclose(found, expected, rtol=near, atol=near * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 8, 5, 9, 10), (12, 8, 3, 3, 3), {}),
        ((1, 32, 6, 12, 12), (32, 32, 3, 3, 3), {}),
        ((1, 8, 7, 9, 10), (12, 8, 3, 3, 3), {"strides": [2, 2, 2]}),
        ((1, 3, 6, 17, 18), (16, 3, 3, 7, 7), {"strides": [1, 2, 2], "pads": [1, 3, 3, 1, 3, 3]}),
        ((1, 16, 5, 9, 10), (16, 16, 1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((1, 16, 5, 9, 10), (24, 16, 3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
        ((1, 16, 5, 9, 10), (24, 16, 1, 1, 1), {"pads": [0] * 6}),
        ((1, 8, 7, 9, 10), (12, 8, 3, 3, 3), {"dilations": [1, 2, 2], "pads": [1, 2, 2, 0, 1, 2]}),
        ((2, 12, 5, 9, 10), (12, 1, 3, 3, 3), {"group": 12}),
        ((1, 64, 5, 9, 10), (64, 1, 5, 3, 3), {"group": 64, "pads": [2, 1, 1, 2, 1, 1]}),
        ((1, 32, 5, 9, 10), (32, 4, 3, 3, 3), {"group": 8}),
        ((1, 128, 20, 20), (128, 4, 3, 3), {"group": 32}),
        ((1, 64, 15, 16), (96, 16, 3, 3), {"group": 4, "strides": [2, 2]}),
        ((2, 60, 15, 16), (30, 20, 3, 5), {"group": 3, "pads": [1, 2, 1, 2]}),
        ((1, 96, 15, 16), (216, 32, 1, 1), {"group": 3, "pads": [0] * 4}),
        ((1, 512, 9, 9), (256, 256, 3, 3), {"group": 2}),
        ((1, 64, 200), (128, 16, 5), {"group": 4, "pads": [2, 2]}),
        ((1, 40, 12, 12), (20, 8, 3, 3), {"group": 5}),
        ((1, 16, 30, 28), (32, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 3, 33, 30), (5, 3, 5, 4), {"strides": [2, 1]}),
        ((1, 32, 20, 20), (64, 32, 1, 1), {"strides": [2, 2], "pads": [0] * 4}),
    ],
)
def test_convolutions(x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(0)
    image, kernel = (rng.standard_normal(shape).astype(dtype) for shape in (x, w))
    axes = len(w) - 2
    pads, strides, dilations = (
        options.get(name, [1] * count) for name, count in (("pads", 2 * axes), ("strides", axes), ("dilations", axes))
    )
    groups = options.get("group", 1)
    expected = correlated(image, kernel, strides, pads, dilations, groups)
    check(image, kernel, expected, strides=strides, pads=pads, dilations=dilations, group=groups)


@pytest.mark.parametrize("kernel", [(2, 2, 2), (3, 3, 3), (1, 2, 4)])
@pytest.mark.parametrize("strides", [(2, 2, 2), (1, 2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transposed(kernel: tuple[int, int, int], strides: tuple[int, int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 3, 4, 5)).astype(dtype)
    w = rng.standard_normal((6, 8, *kernel)).astype(dtype)
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[2:], strides)]
    spread = np.zeros((2, 6, *sizes), dtype)
    spread[(..., *(slice(None, None, step) for step in strides))] = x
    flipped = np.flip(w, (2, 3, 4)).swapaxes(0, 1)
    pads = [taps - 1 for taps in kernel] * 2
    expected = correlated(spread, flipped, (1, 1, 1), pads, (1, 1, 1), 1)
    check(x, w, expected, "ConvTranspose", strides=list(strides))
