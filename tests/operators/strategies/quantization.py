"""Linear quantization: of tensors, axes and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.common import dtypes

from .conversion import element_type
from .draw import Draw, draws, types
from .matrices import shapes_of_products
from .windows import steps

SPATIAL = (3, 2, 1, 4, 0, 5)


def granular(d: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of scales, for the tensor, for an axis or for blocks, and the attributes that say so."""
    kind = d.of("tensor", "axis", "blocks") if shape and np.prod(shape) else "tensor"
    if kind == "tensor":
        return d.of((), (), (1,)) if shape[1:2] != (0,) else (), {}
    axis = d.axis(len(shape))
    place = axis % len(shape)
    if kind == "axis":
        return (shape[place],), {"axis": axis}
    block = d.between(1, shape[place])
    return (*shape[:place], -(-shape[place] // block), *shape[place + 1 :]), {"axis": axis, "block_size": block}


@draws("QuantizeLinear")
def quantize(d: Draw) -> dict[str, Any]:
    shape = d.shape(0, 4, SPATIAL)
    scales, attributes = granular(d, shape)
    dtype = d.dtype("T1")
    of_scale = dtype if dtype != np.int32 and d.flag() else np.dtype(np.float32)
    target = d.of(*types(d.schema, "T3"))
    x = d.dyadic(shape, dtype)
    if d.flag():
        x = (x.astype(np.float32) * 40).astype(dtype)
    if dtype.kind == "f" and dtypes.of(target).is_int and d.flag():
        x = np.where(d.rng.random(shape) < 0.2, d.of(np.inf, -np.inf), x).astype(dtype)
    scale = np.asarray(2.0 ** d.rng.integers(-3, 2, size=scales)).astype(of_scale)
    zero = d.values(scales, target, edges=False) if dtypes.of(target).is_int else np.zeros(scales, target)
    if d.flag() or target == np.uint8:
        zero = zero if d.flag() or target != np.uint8 else None
    else:
        attributes["output_dtype"], zero = element_type(target), None
    if zero is None and "output_dtype" not in attributes and target != np.uint8:
        attributes["output_dtype"] = element_type(target)
    return {"inputs": [x, scale, zero], "attributes": attributes, "constant": d.settled(1, 2)}


@draws("DequantizeLinear")
def dequantize(d: Draw) -> dict[str, Any]:
    shape = d.shape(0, 4, SPATIAL)
    scales, attributes = granular(d, shape)
    dtype = d.dtype("T1")
    x = d.values(shape, dtype, edges=None if dtype.kind in "iu" and dtype.itemsize < 4 else False)
    zero = d.values(scales, dtype, edges=False) if dtypes.of(dtype).is_int else np.zeros(scales, dtype)
    if dtype == np.int32:
        zero = np.zeros(scales, dtype)
    scale = steps(d, scales, d.of(np.float32, np.float16))
    return {
        "inputs": [x, scale, d.maybe(zero)],
        "attributes": attributes,
        "constant": d.settled(1, 2),
        "like": {0: 1},
    }


@draws("DynamicQuantizeLinear")
def dynamic(d: Draw) -> dict[str, Any]:
    x = d.noise(*d.shape(0, 4, (2, 1, 3, 5)))
    x = {"both": x, "above": np.abs(x), "below": -np.abs(x), "none": x * 0}[d.of("both", "above", "below", "none")]
    return {"inputs": [np.asarray(x)], "outputs": 3, "steps": 1}


@draws("QLinearMatMul")
def qlinear_matmul(d: Draw) -> dict[str, Any]:
    one, two = shapes_of_products(d)
    types_of = [np.dtype(d.of(np.uint8, np.int8)) for _ in range(2)]
    result = types_of[0]
    inputs: list[Any] = []
    for shape, dtype in zip((one, two), types_of, strict=True):
        inputs += [d.values(shape, dtype), steps(d, ()), d.values((), dtype, edges=False)]
    inputs += [steps(d, ()), d.values((), result, edges=False)]
    return {"inputs": inputs, "steps": 1, "constant": d.settled(1, 2, 3, 4, 5, 6, 7)}
