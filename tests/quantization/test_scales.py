"""Scales, zero points and integers, against onnxruntime's own functions: equal to the last bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime.quantization.quant_utils as theirs
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx.quantization.quant_utils as ours

TYPES = [
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT16,
    TensorProto.UINT16,
    TensorProto.INT4,
    TensorProto.UINT4,
]
RANDOM = np.random.default_rng(5)
DATA = {
    "wide": RANDOM.normal(0.3, 3, 600).astype(np.float32),
    "positive": RANDOM.random(100).astype(np.float32) + np.float32(0.1),
    "negative": -RANDOM.random(33).astype(np.float32),
    "tiny": np.full(5, 1e-42, np.float32),
    "zeros": np.zeros(4, np.float32),
    "huge": np.array([-3e38, 3e38], np.float32),
    "halves": RANDOM.normal(0, 9, 200).astype(np.float16),
    "ties": np.arange(-64, 64, 0.5, np.float32),
}


def plain(values: Any) -> list[Any]:
    return [np.asarray(each).astype(np.float64).tolist() for each in values]


@pytest.mark.parametrize("name", DATA)
def test_parameters_and_integers_are_theirs(name: str) -> None:
    for kind, symmetric, reduced, least in product(TYPES, (False, True), (False, True), (None, 0.01)):
        arguments = (DATA[name], kind, symmetric, reduced, least)
        found, expected = ours.quantize_data(*arguments), theirs.quantize_data(*arguments)
        assert plain(found) == plain(expected), (kind, symmetric, reduced, least)
        assert found[1].dtype == expected[1].dtype == DATA[name].dtype


@pytest.mark.parametrize("low", [-2.0, 0.0, 0.5])
def test_the_zero_point_of_restricted_ranges_is_theirs(low: float) -> None:
    for high, greatest, least in product((0.0, 0.5, 3.0), (127, 255), (None, 0.0001, 1.0)):
        arguments = np.float32(low), np.float32(high), 0, greatest, least
        assert plain(ours.snap_zero_point_to_uint8(*arguments)) == plain(theirs.snap_zero_point_to_uint8(*arguments))


@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_are_theirs(axis: int) -> None:
    weight = RANDOM.normal(0, 1, (10, 7)).astype(np.float32)
    weight[:4] = 0
    for kind, symmetric, size in product(TYPES, (False, True), (3, 4, 16)):
        found = ours.compute_scale_zp_blocked(weight, kind, axis, size, symmetric)
        assert plain(found) == plain(theirs.compute_scale_zp_blocked(weight, kind, axis, size, symmetric))
        made = ours.quantize_onnx_initializer(numpy_helper.from_array(weight, "w"), kind, *found, axis, block_size=size)
        other = theirs.quantize_onnx_initializer(
            numpy_helper.from_array(weight, "w"), kind, *found, axis, block_size=size
        )
        assert made == other


@pytest.mark.parametrize("axis", [None, 0, 2])
def test_messages_of_initializers_are_theirs(axis: int | None) -> None:
    weight = RANDOM.normal(0, 1, (3, 4, 5)).astype(np.float32)
    proto = numpy_helper.from_array(weight, "w")
    for kind in TYPES:
        shape = () if axis is None else (weight.shape[axis],)
        storage = ours.ONNX_TYPE_TO_NP_TYPE[kind]
        zero, scale = np.full(shape, 1, storage), np.full(shape, 0.02, np.float32)
        arguments = (proto, kind, zero, scale, axis)
        assert ours.quantize_onnx_initializer(*arguments) == theirs.quantize_onnx_initializer(*arguments)


def test_limits_are_theirs() -> None:
    for kind, reduced, symmetric in product(TYPES, (False, True), (False, True)):
        found = ours.get_qmin_qmax_for_qType(kind, reduced, symmetric)
        assert plain(found) == plain(theirs.get_qmin_qmax_for_qType(kind, reduced, symmetric))
    with pytest.raises(ValueError, match="cannot be quantized to float32"):
        ours.get_qmin_qmax_for_qType(TensorProto.FLOAT)
    with pytest.raises(NotImplementedError, match="float8e4m3fn"):
        ours.get_qmin_qmax_for_qType(TensorProto.FLOAT8E4M3FN)


def test_halves_of_bytes_are_theirs() -> None:
    for count in range(6):
        data = bytes(range(3, 3 + count))
        assert ours.pack_bytes_to_4bit(data) == theirs.pack_bytes_to_4bit(data)


def test_what_cannot_be_scaled_says_why() -> None:
    with pytest.raises(ValueError, match="integers from 1 to 5 do not hold 0"):
        ours.compute_scale_zp(np.float32(0), np.float32(1), np.int8(1), np.int8(5))
    with pytest.raises(ValueError, match="NaN"):
        ours.compute_scale_zp(np.float32(np.nan), np.float32(1), np.int8(0), np.int8(5))
    with pytest.raises(TypeError, match="array"):
        ours.quantize_data([1.0], TensorProto.INT8, False)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="matrices"):
        ours.compute_scale_zp_blocked(np.zeros((2, 2, 2), np.float32), TensorProto.INT8, 0, 2, False)


def test_attributes_and_names_are_theirs() -> None:
    node = helper.make_node("X", [], [], a=1, b=0.5, c="t", d=[1, 2], e=[0.5], f=["s"])
    for attribute in node.attribute:
        assert ours.attribute_to_kwarg(attribute) == theirs.attribute_to_kwarg(attribute)
    names = [each for each in dir(theirs) if each.startswith("add_") and each.endswith("fix")]
    assert len(names) == 6
    assert [getattr(ours, each)("x") for each in names] == [getattr(theirs, each)("x") for each in names]
    assert ours.get_elem_index("b", ["b", "a", "b"]) == theirs.get_elem_index("b", ["b", "a", "b"])
