"""Convolutions and pools with random windows, against onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from sardonyx.ops.sliding import reach
from tests.support import eager

CASES = 60


def check(op_type: str, attributes: dict[str, Any], arrays: list[np.ndarray], outputs: int = 1) -> None:
    """Assert that eager evaluation gives what onnxruntime gives."""
    feeds = {f"x{number}": array for number, array in enumerate(arrays)}
    names = [f"y{number}" for number in range(outputs)]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    node = helper.make_node(op_type, list(feeds), names, **attributes)
    graph = helper.make_graph([node], op_type, inputs, [onnx.ValueInfoProto(name=name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    case = f"{op_type} {attributes} of {[array.shape for array in arrays]}"
    for found, wanted in zip(eager.evaluate(model, feeds), session.run(None, feeds), strict=True):
        assert found.dtype == wanted.dtype, case
        assert found.shape == wanted.shape, case
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=case)


def windows(seed: int) -> Iterator[tuple[random.Random, list[int], dict[str, Any]]]:
    """Spatial sizes and attributes of windows that fit into them.

    onnxruntime does not count dilations when it pads by SAME_UPPER or SAME_LOWER: there they are 1.
    """
    pick = random.Random(seed)
    for _ in range(CASES):
        rank = pick.choice([1, 2, 2, 3])
        sizes = [pick.randint(5, 8) for _ in range(rank)]
        kernel = [pick.randint(1, 3) for _ in range(rank)]
        known: dict[str, Any] = {"kernel_shape": kernel, "strides": [pick.randint(1, 3) for _ in range(rank)]}
        auto_pad = pick.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if auto_pad.startswith("SAME"):
            known["strides"] = [min(stride, window) for stride, window in zip(known["strides"], kernel, strict=True)]
        else:
            known["dilations"] = [pick.choice([1, 1, 2]) for _ in range(rank)]
        if auto_pad == "NOTSET":
            known["pads"] = [pick.randint(0, window - 1) for window in (*kernel, *kernel)]
        else:
            known["auto_pad"] = auto_pad
        yield pick, sizes, known


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pool(op_type: str) -> None:
    for pick, sizes, known in windows(1):
        known["ceil_mode"] = pick.choice([0, 1])
        if op_type == "MaxPool":
            known["storage_order"] = pick.choice([0, 1])
        if op_type == "AveragePool":
            known["count_include_pad"] = pick.choice([0, 1])
        if op_type == "LpPool":
            known["p"] = pick.choice([1, 2, 3])
        check(op_type, known, [noise(pick.randint(1, 2), pick.randint(1, 3), *sizes)], 1 + (op_type == "MaxPool"))


def test_conv() -> None:
    for pick, sizes, known in windows(2):
        groups, inner, outer = pick.choice([1, 1, 2, 3]), pick.randint(1, 2), pick.randint(1, 2)
        w = noise(groups * outer, inner, *known["kernel_shape"])
        arrays = [noise(pick.randint(1, 2), groups * inner, *sizes), w, noise(groups * outer)]
        check("Conv", {**known, "group": groups}, arrays[: pick.choice([2, 3])])


def test_conv_integer() -> None:
    for pick, sizes, known in windows(3):
        if len(sizes) < 3:
            x = (noise(1, 2, *sizes) * 60 + 120).astype(np.uint8)
            w = (noise(3, 2, *known["kernel_shape"]) * 60 + 120).astype(np.uint8)
            zeros = [np.array(pick.randint(0, 200), np.uint8), np.array(pick.randint(0, 200), np.uint8)]
            check("ConvInteger", known, [x, w, *zeros][: pick.randint(2, 4)])


def test_conv_transpose() -> None:
    for pick, sizes, known in windows(4):
        kernel, strides = known["kernel_shape"], known["strides"]
        dilations = known.get("dilations", [1] * len(sizes))
        extra = [pick.randint(0, stride - 1) for stride in strides]
        spans = list(map(reach, kernel, dilations))
        if known.get("auto_pad") == "VALID":
            known.pop("auto_pad")
            full = [(n - 1) * stride + span for n, stride, span in zip(sizes, strides, spans, strict=True)]
            known["output_shape"] = [size - pick.randint(0, 2) for size in full]
        elif "pads" in known:
            known["output_padding"] = extra
        groups, inner, outer = pick.choice([1, 1, 2, 3]), pick.randint(1, 2), pick.randint(1, 2)
        arrays = [noise(1, groups * inner, *sizes), noise(groups * inner, outer, *kernel), noise(groups * outer)]
        check("ConvTranspose", {**known, "group": groups}, arrays[: pick.choice([2, 3])])


@pytest.mark.parametrize(
    ("sizes", "attributes"),
    [
        ((7, 6), "kernel_shape = [2, 2], strides = [2, 2]"),
        ((9, 4), "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"),
        ((5, 5), "kernel_shape = [2, 3], strides = [1, 3]"),
    ],
)
def test_what_was_pooled_goes_back_to_its_place(sizes: tuple[int, int], attributes: str) -> None:
    """Also where the windows do not reach the end, as in SegNet."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g (float[2, 3, H, W] x) => (float[2, 3, H, W] y) {{
        most, places = MaxPool <{attributes}> (x)
        shape = Shape (x)
        y = MaxUnpool <{attributes}> (most, places, shape)
    }}"""
    model = onnx.parser.parse_model(text)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, *sizes)).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = eager.evaluate(model, feeds)
    np.testing.assert_array_equal(found, session.run(None, feeds)[0])
    assert ((found == 0) | (found == feeds["x"])).all()
