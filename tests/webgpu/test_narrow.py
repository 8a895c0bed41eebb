"""Floats of 8 bits or fewer, and integers of 4 and 2: wholly on the GPU, against ml_dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from sardonyx import InferenceSession
from sardonyx.common.dtypes import ML_NAMES, by_name
from sardonyx.primitives.binding import constant
from sardonyx.primitives.formats import FORMATS, decode, value_of_bits
from tests.support import require

require("webgpu")
FLOATS = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float8e8m0", "float4e2m1"]
INTEGERS = ["int4", "uint4", "int2", "uint2"]


def run(nodes: Sequence[Any], feeds: dict[str, np.ndarray], target: int) -> np.ndarray:
    """The output y of a graph that runs on the GPU alone."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    graph = helper.make_graph(nodes, "narrow", inputs, [helper.make_tensor_value_info("y", target, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    session = InferenceSession(model.SerializeToString(), providers=["WebGpuExecutionProvider"])
    (found,) = session.run(None, feeds)
    assert set(session.plans[0].placement) <= {0, -1}
    return np.asarray(found)


def every(name: str) -> np.ndarray:
    """All codes of a type."""
    dtype = by_name(name)
    if dtype.is_float:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(ML_NAMES[name])
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    return np.arange(low, low + (1 << dtype.bits)).astype(ML_NAMES[name])


def values() -> np.ndarray:
    """Values of float32 around all those that 8 bits can hold, ties among them."""
    held = np.concatenate([every(name).astype(np.float32) for name in FLOATS])
    held = np.unique(np.abs(held[np.isfinite(held) & (np.abs(held) > 1e-30) & (np.abs(held) < 1e30)]))
    middle = (held[1:] + held[:-1]) / 2
    near = np.concatenate([held, middle, np.nextafter(middle, 0), np.nextafter(middle, np.float32(np.inf))])
    special = np.array([0, 447, 449, 463, 464, 465, 1e5, 1e30, np.inf], np.float32)
    known = np.concatenate([near, special]).astype(np.float32)
    return np.concatenate([known, -known, np.array([np.nan], np.float32)])


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
@pytest.mark.parametrize("wide", ["float32", "float16", "bfloat16"])
def test_to_wide(name: str, wide: str) -> None:
    codes = every(name)
    found = run([helper.make_node("Cast", ["x"], ["y"], to=by_name(wide).number)], {"x": codes}, by_name(wide).number)
    with np.errstate(over="ignore"):
        expected = codes.astype(np.float32).astype(ML_NAMES[wide])
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"])
def test_to_narrow(name: str) -> None:
    number, x = by_name(name).number, values()
    limit = ml_dtypes.finfo(ML_NAMES[name]).max
    found = run([helper.make_node("Cast", ["x"], ["y"], to=number)], {"x": x}, number)
    kept = np.isfinite(x) if name == "float4e2m1" else np.ones(x.shape, bool)
    expected = np.clip(x, -float(limit), float(limit))[kept].astype(ML_NAMES[name])
    np.testing.assert_array_equal(found[kept].astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_integers_wrap(name: str) -> None:
    number = by_name(name).number
    x = np.arange(-40, 40, dtype=np.int32)
    found = run([helper.make_node("Cast", ["x"], ["y"], to=number)], {"x": x}, number)
    np.testing.assert_array_equal(found.astype(np.int32), x.astype(ML_NAMES[name]).astype(np.int32))


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_moves(name: str) -> None:
    """Transposed, cut, joined, gathered and chosen, in sizes that are no multiples of four: the bits stay."""
    codes = np.resize(every(name), (7, 5))
    index, chosen = np.array([4, 0, 3]), np.resize([True, False, False], (5, 10))
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Slice", ["t", "from", "to", "axes"], ["s"]),
        helper.make_node("Gather", ["t", "index"], ["g"], axis=1),
        helper.make_node("Concat", ["s", "t", "g"], ["j"], axis=1),
        helper.make_node("Slice", ["j", "from", "ten", "axes"], ["k"]),
        helper.make_node("Slice", ["j", "two", "twelve", "axes"], ["l"]),
        helper.make_node("Where", ["chosen", "k", "l"], ["y"]),
    ]
    numbers = {"from": [1], "to": [4], "axes": [1], "ten": [11], "two": [2], "twelve": [12]}
    nodes = [helper.make_node("Constant", [], [key], value_ints=item) for key, item in numbers.items()] + nodes
    found = run(nodes, {"x": codes, "index": index, "chosen": chosen}, by_name(name).number)
    turned = codes.T
    joined = np.concatenate([turned[:, 1:4], turned, turned[:, index]], 1)
    expected = np.where(chosen, joined[:, 1:11], joined[:, 2:12])
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["float8e4m3fn", "float8e5m2", "int4", "uint4"])
def test_quantized_weights(rng: np.random.Generator, name: str) -> None:
    dtype = by_name(name)
    x, scale = rng.standard_normal((6, 9), np.float32), np.linspace(0.1, 0.9, 9, dtype=np.float32)
    zero = np.zeros(9, ML_NAMES[name])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], axis=1),
    ]
    found = run(nodes, {"x": x, "scale": scale, "zero": zero}, TensorProto.FLOAT)
    quotient = x / scale
    if dtype.is_int:
        low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
        quotient = np.clip(np.round(quotient), low, low + (1 << dtype.bits) - 1)
    expected = quotient.astype(ML_NAMES[name]).astype(np.float32) * scale
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [by_name("float8e8m0"), *(known for known in FORMATS if known.bits <= 8)], ids=str)
def test_values_of_bits(dtype: Any) -> None:
    """Arithmetic on bits gives what the table has, floats of 6 bits too."""
    codes = np.arange(1 << dtype.bits, dtype=np.uint8)
    computed = value_of_bits(constant(codes.astype(np.uint32)), dtype).value
    np.testing.assert_array_equal(computed, decode(constant(codes, dtype)).value)
