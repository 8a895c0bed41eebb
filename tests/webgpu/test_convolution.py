"""Convolutions as routines, against float64: kernels, borders, groups, axes, open sizes, and what each becomes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support.numbers import random
from tests.webgpu.folds import use


@pytest.fixture(params=["threads", "groups"], autouse=True)
def _schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread has a tile of the result, as where a processor plays the GPU, or several have parts of its sums."""
    use(request, monkeypatch)


Array = np.ndarray[Any, Any]


def correlated(
    x: Array, w: Array, strides: Any = None, dilations: Any = None, pads: Any = None, group: int = 1
) -> Array:
    """Conv, in the type of x."""
    axes = w.ndim - 2
    strides, dilations, pads = strides or [1] * axes, dilations or [1] * axes, pads or [0] * (2 * axes)
    wide = np.pad(x, [(0, 0), (0, 0), *((max(0, a), max(0, b)) for a, b in zip(pads[:axes], pads[axes:]))])
    cut = [slice(max(0, -a), size - max(0, -b)) for a, b, size in zip(pads[:axes], pads[axes:], wide.shape[2:])]
    wide = wide[(slice(None), slice(None), *cut)]
    seen = [(n - 1) * step + 1 for n, step in zip(w.shape[2:], dilations)]
    sizes = [(size - n) // stride + 1 for size, n, stride in zip(wide.shape[2:], seen, strides)]
    made, channels = w.shape[:2]
    y = np.zeros((x.shape[0], group, made // group, *sizes), x.dtype)
    kernels = w.astype(x.dtype).reshape(group, made // group, channels, *w.shape[2:])
    for tap in np.ndindex(*w.shape[2:]):
        places = [
            slice(t * step, t * step + (size - 1) * stride + 1, stride)
            for t, step, size, stride in zip(tap, dilations, sizes, strides)
        ]
        part = wide[(slice(None), slice(None), *places)].reshape(x.shape[0], group, channels, *sizes)
        y += np.einsum("bgc...,gmc->bgm...", part, kernels[(..., *tap)])
    return y.reshape(x.shape[0], made, *sizes)


def scattered(
    x: Array,
    w: Array,
    strides: Any,
    dilations: Any = None,
    pads: Any = None,
    group: int = 1,
    output_padding: Any = None,
) -> Array:
    """ConvTranspose, in the type of x: each element of x adds a kernel to the result."""
    axes = w.ndim - 2
    dilations, pads = dilations or [1] * axes, pads or [0] * (2 * axes)
    extra = output_padding or [0] * axes
    sizes = [
        (size - 1) * stride + (n - 1) * step + 1 + more
        for size, stride, n, step, more in zip(x.shape[2:], strides, w.shape[2:], dilations, extra)
    ]
    made = w.shape[1]
    y = np.zeros((x.shape[0], group, made, *sizes), x.dtype)
    parts = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    kernels = w.astype(x.dtype).reshape(group, -1, *w.shape[1:])
    for tap in np.ndindex(*w.shape[2:]):
        places = [
            slice(t * step, t * step + (size - 1) * stride + 1, stride)
            for t, step, size, stride in zip(tap, dilations, x.shape[2:], strides)
        ]
        y[(..., *places)] += np.einsum("bgc...,gcm->bgm...", parts, kernels[(..., *tap)])
    cut = [slice(a, size - b) for a, b, size in zip(pads[:axes], pads[axes:], sizes)]
    return y.reshape(x.shape[0], group * made, *sizes)[(slice(None), slice(None), *cut)]


REFERENCES = {"Conv": correlated, "ConvTranspose": scattered}
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def model_of(
    w: Array, shape: Sequence[Any], operator: str = "Conv", after: Sequence[Any] = (), **attributes: Any
) -> bytes:
    """A model of a convolution and the nodes `after` it, the last of which gives z."""
    dtype = TYPES[w.dtype.name]
    given = helper.make_tensor_value_info("x", dtype, shape)
    made = helper.make_tensor_value_info("z" if after else "y", dtype, None)
    nodes = [helper.make_node(operator, ["x", "w"], ["y"], **attributes), *after]
    bias = numpy_helper.from_array(random(1, w.shape[0], *[1] * (w.ndim - 2)).astype(w.dtype), "b")
    graph = helper.make_graph(nodes, "convolution", [given], [made], [numpy_helper.from_array(w, "w"), bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    found: bytes = model.SerializeToString()
    return found


def session(w: Array, shape: Sequence[Any], *more: Any, **attributes: Any) -> sardonyx.InferenceSession:
    """A session of such a model."""
    return sardonyx.InferenceSession(model_of(w, shape, *more, **attributes), providers=["WebGpuExecutionProvider"])


def launches(session: sardonyx.InferenceSession) -> list[str]:
    """The primitives of the routines that a run launches, and the names of its kernels."""
    plan = session.plans[-1]
    codes = [plan.codes[step.code] for step in plan.steps if step.do == "launch"]
    return [code.get("primitive", code["name"]) for code in codes]


def close(found: Array, x: Array, w: Array, operator: str, tolerance: float = 2e-6, **attributes: Any) -> None:
    """The error of a sum grows with what was added; Winograd's sums are of whole tiles."""
    expected, bound = (
        REFERENCES[operator](f(x.astype(float)), f(w.astype(float)), **attributes) for f in (np.asarray, np.abs)
    )
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= tolerance * bound.max(initial=0)).all()


def check(x: Array, w: Array, operator: str = "Conv", tolerance: float = 2e-6, **attributes: Any) -> list[str]:
    """Compare a model's result with float64; gives what was launched."""
    made = session(w, x.shape, operator, **attributes)
    (found,) = made.run(None, {"x": x})
    close(found, x, w, operator, tolerance, **attributes)
    return launches(made)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "routine"),
    [
        ((2, 5, 9, 10), (7, 5, 3, 3), {}, "conv"),
        ((2, 5, 9, 10), (7, 5, 3, 3), {"strides": [2, 3], "dilations": [2, 1], "pads": [0, 2, 3, 1]}, "conv"),
        ((2, 8, 9, 10), (12, 8, 3, 3), {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 2, 1, 2]}, "conv"),
        ((1, 8, 9, 10), (6, 8, 3, 3), {"pads": [-1, -2, 1, -1], "dilations": [2, 2]}, "conv"),
        ((1, 3, 23, 25), (16, 3, 7, 7), {"strides": [2, 2], "pads": [3] * 4}, "conv"),
        ((2, 1, 9, 10), (5, 1, 3, 2), {"pads": [1, 0, 1, 1]}, "conv"),
        ((2, 8, 9, 16), (1, 8, 3, 3), {"pads": [1] * 4}, "conv"),
        ((1, 5, 9, 12), (2, 5, 3, 2), {"strides": [2, 3], "pads": [1, -2, 1, 1]}, "conv"),
        ((1, 3, 9, 12), (1, 3, 3, 5), {"pads": [1, 2, 1, 2]}, "conv"),
        ((1, 6, 1, 1), (5, 6, 3, 3), {"pads": [1] * 4}, "conv"),
        ((1, 4, 2, 3), (4, 4, 3, 3), {"pads": [4] * 4, "dilations": [3, 3]}, "conv"),
        ((2, 12, 9, 10), (20, 12, 1, 1), {}, "matmul"),
        ((2, 7, 9, 10), (5, 7, 1, 1), {}, "matmul"),
        ((2, 12, 9, 10), (20, 12, 1, 1), {"strides": [2, 2]}, "conv"),
        ((2, 12, 9, 10), (20, 12, 1, 1), {"pads": [1, 0, 0, 1]}, "conv"),
        ((2, 12, 5, 4), (20, 12, 5, 4), {}, "matmul"),
        ((2, 12, 3, 3), (20, 12, 3, 3), {"dilations": [2, 2], "pads": [0, 0, 2, 2]}, "conv"),
        ((1, 40, 20, 21), (48, 40, 3, 3), {"pads": [1] * 4}, "winograd_input"),
        ((2, 30, 21, 23), (37, 30, 3, 3), {"pads": [2, 0, 1, 3]}, "winograd_input"),
        ((1, 48, 20, 21), (48, 48, 3, 3), {"pads": [-1, 2, 1, -3]}, "winograd_input"),
        ((1, 128, 29, 30), (128, 128, 3, 3), {"strides": [2, 2], "pads": [1] * 4}, "conv"),
        ((1, 32, 20, 21), (32, 32, 5, 5), {"pads": [2] * 4}, "winograd_input"),
        ((1, 40, 40, 41), (48, 40, 3, 3), {"pads": [5, 2, 4, 3], "dilations": [5, 2]}, "winograd_input"),
        ((1, 64, 30, 31), (64, 64, 1, 5), {"pads": [0, 2, 0, 2]}, "winograd_input"),
        ((1, 64, 30, 31), (64, 64, 5, 1), {"pads": [2, 0, 2, 0], "strides": [2, 1]}, ""),
    ],
)
def test_planes(x: Any, w: Any, attributes: dict[str, Any], routine: str) -> None:
    found = check(random(*x), random(*w), **attributes)
    assert routine in found or not routine
    assert not any(name.startswith("conv_general") for name in found)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "routine"),
    [
        ((2, 8, 9, 10), (12, 4, 3, 3), {"group": 2, "pads": [1] * 4}, "conv"),
        ((1, 16, 9, 10), (32, 4, 3, 3), {"group": 4, "strides": [2, 2]}, "conv"),
        ((1, 32, 9, 10), (32, 4, 1, 1), {"group": 8}, "conv"),
        ((1, 8, 9, 10), (24, 4, 3, 3), {"group": 2}, "conv"),
        ((1, 10, 9, 10), (24, 5, 3, 3), {"group": 2}, "conv"),
        ((2, 10, 9, 10), (20, 2, 3, 3), {"group": 5, "strides": [2, 1]}, "conv"),
        ((1, 6, 9, 10), (9, 2, 3, 3), {"group": 3, "dilations": [1, 2]}, "conv"),
        ((1, 10, 9, 10), (10, 5, 1, 1), {"group": 2}, "conv"),
        ((1, 6, 9, 10), (24, 3, 2, 2), {"group": 2}, "conv"),
        ((2, 12, 9, 10), (12, 1, 3, 3), {"group": 12, "pads": [1] * 4}, "depthwise"),
        ((1, 13, 9, 10), (13, 1, 3, 3), {"group": 13, "strides": [2, 2], "pads": [0, 1, 1, 2]}, "depthwise"),
        ((1, 8, 20, 21), (8, 1, 5, 5), {"group": 8, "strides": [2, 1], "dilations": [1, 2]}, "depthwise"),
        ((1, 8, 20, 21), (8, 1, 7, 7), {"group": 8, "pads": [3] * 4}, "depthwise"),
        ((1, 8, 20, 21), (8, 1, 9, 9), {"group": 8, "pads": [4] * 4}, "depthwise"),
        ((1, 8, 40, 41), (8, 1, 19, 19), {"group": 8, "pads": [9] * 4}, "conv"),
        ((1, 8, 1, 1), (8, 1, 3, 3), {"group": 8, "pads": [1] * 4}, "depthwise"),
        ((1, 5, 4, 3), (10, 1, 3, 3), {"group": 5, "pads": [1] * 4}, "depthwise"),
        ((2, 6, 7, 9), (24, 1, 3, 3), {"group": 6, "pads": [-1, 1, 2, -1]}, "depthwise"),
        ((1, 2, 7, 9), (6, 1, 2, 2), {"group": 2}, "depthwise"),
    ],
)
def test_groups(x: Any, w: Any, attributes: dict[str, Any], routine: str) -> None:
    assert routine in check(random(*x), random(*w), **attributes)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 5, 20), (7, 5, 3), {"strides": [2], "dilations": [3], "pads": [2, 1]}),
        ((1, 8, 1), (4, 8, 1), {}),
        ((1, 64, 100), (64, 64, 3), {"pads": [1, 1]}),
        ((2, 64, 100), (64, 64, 3), {"dilations": [17]}),
        ((2, 12, 30), (12, 1, 9), {"group": 12, "pads": [4, 4]}),
        ((2, 6, 30), (12, 1, 4), {"group": 6, "strides": [3]}),
        ((2, 8, 4, 9, 10), (12, 8, 3, 3, 3), {"pads": [1] * 6, "strides": [1, 2, 2]}),
        ((1, 3, 4, 9, 10), (12, 3, 1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1], "dilations": [1, 2, 1]}),
        ((2, 8, 4, 5, 6), (12, 8, 1, 1, 1), {}),
        ((1, 40, 3, 20, 21), (40, 40, 1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((1, 8, 3, 7, 9), (8, 1, 1, 3, 3), {"group": 8, "pads": [0, 1, 1, 0, 1, 1]}),
        ((1, 8, 3, 7, 9), (8, 8, 1, 3, 3), {"pads": [0, 1, 1, 2, 1, 1]}),
        ((2, 6, 4, 5, 6), (6, 1, 3, 3, 3), {"group": 6, "pads": [1] * 6}),
        ((2, 8, 4, 5, 6), (8, 4, 3, 3, 3), {"group": 2}),
        ((1, 3, 3, 4, 3, 5), (4, 3, 2, 2, 2, 2), {}),
    ],
)
def test_other_ranks(x: Any, w: Any, attributes: dict[str, Any]) -> None:
    assert not any(name.startswith("conv_general") for name in check(random(*x), random(*w), **attributes))


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 8, 5, 6), (8, 12, 2, 2), {"strides": [2, 2]}),
        ((1, 8, 5, 6), (8, 4, 4, 4), {"strides": [2, 2], "pads": [1] * 4}),
        ((2, 9, 5, 6), (9, 1, 2, 3), {"strides": [2, 3]}),
        ((2, 9, 5, 6), (9, 1, 2, 2), {"strides": [2, 2], "pads": [0, 1, 0, 0]}),
        ((2, 5, 5, 6), (5, 3, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}),
        ((1, 8, 5, 6), (8, 4, 3, 2), {"strides": [1, 3], "pads": [2, 0, 1, 1], "output_padding": [0, 2]}),
        ((1, 8, 5, 6), (8, 4, 1, 1), {"strides": [2, 2]}),
        ((1, 8, 5, 6), (8, 4, 3, 3), {"strides": [2, 3], "dilations": [2, 3]}),
        ((1, 8, 5, 6), (8, 4, 3, 3), {"strides": [4, 2], "dilations": [2, 3], "pads": [1, 2, 3, 0]}),
        ((1, 8, 5, 6), (8, 2, 3, 3), {"strides": [2, 2], "group": 4}),
        ((1, 8, 5, 6), (8, 4, 3, 3), {"strides": [2, 2], "group": 2}),
        ((1, 8, 5, 6), (8, 1, 3, 3), {"strides": [2, 2], "group": 8}),
        ((2, 8, 9), (8, 4, 4), {"strides": [2], "pads": [1, 1]}),
        ((1, 4, 3, 4, 5), (4, 6, 2, 3, 2), {"strides": [2, 2, 1], "pads": [0, 1, 0, 1, 0, 0]}),
    ],
)
def test_transposed(x: Any, w: Any, attributes: dict[str, Any]) -> None:
    found = check(random(*x), random(*w), "ConvTranspose", **attributes)
    assert not any(name.startswith("conv_general") for name in found)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("made", [1, 3, 4, 7, 8, 10, 17])
def test_channels(channels: int, made: int) -> None:
    check(random(1, channels, 5, 7), random(made, channels, 3, 3), pads=[1] * 4)


@pytest.mark.parametrize("group", [1, 8])
def test_float16(group: int) -> None:
    x, w = random(2, 8, 9, 10).astype("f2"), random(8, 8 // group, 3, 3).astype("f2")
    check(x, w, tolerance=1e-3, group=group, pads=[1] * 4)


def test_float16_by_winograd() -> None:
    x, w = random(1, 48, 20, 21).astype("f2"), random(48, 48, 3, 3).astype("f2")
    assert "winograd_output" in check(x, w, tolerance=1e-3, pads=[1] * 4)


@pytest.mark.parametrize("shape", [(3, 3, 3), (40, 40, 3), (12, 1, 3), (8, 8, 1)], ids=str)
@pytest.mark.parametrize("strides", [1, 2])
def test_open_sizes(shape: Any, strides: int) -> None:
    made, channels, taps = shape
    w = random(made, channels, taps, taps)
    attributes = {"strides": [strides] * 2, "pads": [1, 0, 1, 2], "group": made // channels}
    model = session(w, ["b", made, "h", "w"], **attributes)
    for batch, high, wide in ((1, 20, 20), (2, 9, 12), (1, 3, 3), (3, 7, 30)):
        x = random(batch, made, high, wide)
        close(model.run(None, {"x": x})[0], x, w, "Conv", **attributes)


def test_borders_of_open_sizes() -> None:
    w = random(8, 8, 3, 3)
    model = session(w, [1, 8, "h", "w"], auto_pad="SAME_UPPER", strides=[2, 2])
    for high, wide in ((20, 20), (9, 12), (7, 7)):
        pads = [max(0, (-(-size // 2) - 1) * 2 + 3 - size) for size in (high, wide)]
        x = random(1, 8, high, wide)
        both = [pad // 2 for pad in pads] + [pad - pad // 2 for pad in pads]
        close(model.run(None, {"x": x})[0], x, w, "Conv", strides=[2, 2], pads=both)


def test_nothing_to_do() -> None:
    model = session(random(4, 8, 3, 3), ["b", 8, 9, 9])
    assert model.run(None, {"x": np.zeros((0, 8, 9, 9), "f4")})[0].shape == (0, 4, 7, 7)


@pytest.mark.parametrize("kernel", [(16, 16, 1, 1), (16, 16, 2, 2), (16, 1, 3, 3), (40, 40, 3, 3)], ids=str)
def test_what_follows_is_in_the_same_launch(kernel: Any, native: WebGpuDevice) -> None:
    made, channels, *taps = kernel
    nodes = [helper.make_node("Add", ["y", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    nodes += [helper.make_node("Conv", ["d", "w"], ["e"], group=made // channels, auto_pad="SAME_UPPER")]
    nodes += [helper.make_node("Add", ["e", "d"], ["f"]), helper.make_node("Relu", ["f"], ["z"])]
    w = random(*kernel)
    model = session(w, (1, made, 20, 20), after=nodes, group=made // channels, auto_pad="SAME_UPPER")
    x = random(1, made, 20, 20)
    (found,) = model.run(None, {"x": x})
    high = [taps[0] // 2, taps[1] // 2]
    low = [taps[0] - 1 - high[0], taps[1] - 1 - high[1]]
    attributes = {"group": made // channels, "pads": [*low, *high]}
    bias = random(1, made, 1, 1).astype(float)
    first = np.maximum(correlated(x.astype(float), w, **attributes) + bias, 0)
    expected = np.maximum(correlated(first, w, **attributes) + first, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * expected.max())
    assert len(launches(model)) == (7 if kernel[0] == 40 else 3), launches(model)


@pytest.mark.parametrize(("function", "dims"), list(product(["MaxPool", "AveragePool"], [1, 2])))
def test_pooling_between(function: str, dims: int) -> None:
    w, x = random(8, 8, *[3] * dims), random(1, 8, *[15] * dims)
    window = {"kernel_shape": [3] * dims, "strides": [2] * dims}
    nodes = [helper.make_node(function, ["y"], ["p"], **window), helper.make_node("Conv", ["p", "w"], ["z"])]
    (found,) = session(w, x.shape, after=nodes).run(None, {"x": x})
    first = correlated(x.astype(float), w)
    seen = np.lib.stride_tricks.sliding_window_view(first, [3] * dims, tuple(range(2, 2 + dims)))
    seen = seen[(slice(None), slice(None), *[slice(None, None, 2)] * dims)]
    axes = tuple(range(-dims, 0))
    expected = correlated(seen.max(axes) if function == "MaxPool" else seen.mean(axes), w)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("kernel", "routine"), [((6, 8, 1, 1), "matmul"), ((8, 1, 3, 3), "depthwise")], ids=str)
def test_images_with_their_channels_last_are_not_moved(kernel: Any, routine: str) -> None:
    w, x = random(*kernel), random(1, 9, 10, 8)
    attributes = {"group": 8 // kernel[1], "pads": [kernel[2] // 2] * 4}
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["t", "w"], ["y"], **attributes),
        helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 3, 1]),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    made = helper.make_empty_tensor_value_info("z")
    graph = helper.make_graph(nodes, "last", [given], [made], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = sardonyx.InferenceSession(model.SerializeToString(), providers=["WebGpuExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    close(found.transpose(0, 3, 1, 2), x.transpose(0, 3, 1, 2), w, "Conv", **attributes)
    assert launches(session) == [routine]
