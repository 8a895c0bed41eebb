"""Operators that take elements one by one, broadcast either way."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws, types

PLAIN = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Cos Cosh Erf Exp Floor HardSwish Identity IsNaN "
    "Log Mish Neg Not Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh"
)
"""Functions of one operand without attributes."""
UNARY: dict[str, dict[str, tuple[Any, ...]]] = {
    "Celu": {"alpha": (1.0, 0.5, 2.0)},
    "Elu": {"alpha": (1.0, 0.5, 0.0)},
    "Gelu": {"approximate": ("none", "tanh")},
    "HardSigmoid": {"alpha": (0.2, 0.5), "beta": (0.5, -1.0)},
    "IsInf": {"detect_negative": (1, 0), "detect_positive": (1, 0)},
    "LeakyRelu": {"alpha": (0.01, 0.0, 2.0, -0.5)},
    "Selu": {"alpha": (1.67, 0.5), "gamma": (1.05, 2.0)},
    "Shrink": {"bias": (0.0, 0.25, -1.0), "lambd": (0.5, 1.5)},
    "Swish": {"alpha": (1.0, 0.5, -1.0)},
    "ThresholdedRelu": {"alpha": (1.0, 0.0, -0.5)},
}
EXACT = {"Identity"}
"""Operators that move elements without computing."""
LIMITED = dict.fromkeys(("Cos", "Sin", "Tan"), 1e4)
"""The largest arguments whose results float32 can tell."""


@draws(PLAIN, *UNARY)
def unary(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(0, 5), d.dtype(d.schema.inputs[0].type_str) if d.name != "Identity" else d.dtype("V"))
    if d.name in LIMITED:
        x = np.where(np.isfinite(x) & (np.abs(x) > LIMITED[d.name]), np.asarray(0.5, x.dtype), x)
    return {"inputs": [x], "attributes": d.attributes(**UNARY.get(d.name, {})), "wide": d.name not in EXACT}


@draws("Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Mul Or Sub Xor")
def binary(d: Draw) -> dict[str, Any]:
    dtype = d.dtype(d.schema.inputs[0].type_str)
    return {"inputs": [d.values(shape, dtype) for shape in d.broadcast(2)]}


@draws("Mod")
def mod(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    fmod = 1 if d.flag() or dtype.kind not in "iu" else 0
    return {"inputs": [d.values(shape, dtype) for shape in d.broadcast(2)], "attributes": {"fmod": fmod}}


@draws("PRelu")
def prelu(d: Draw) -> dict[str, Any]:
    dtype, whole = d.dtype("T"), d.shape()
    return {"inputs": [d.values(whole, dtype), d.values(d.part(whole), dtype)]}


@draws("BitShift")
def shift(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    one, other = d.broadcast(2)
    amounts = d.rng.integers(0, 8 * dtype.itemsize, size=other)
    return {
        "inputs": [d.values(one, dtype), np.asarray(amounts).astype(dtype)],
        "attributes": {"direction": d.of("LEFT", "RIGHT")},
    }


@draws("Pow")
def power(d: Draw) -> dict[str, Any]:
    dtype, other = d.dtype("T"), d.dtype("T1")
    one, two = d.broadcast(2)
    if dtype.kind in "iu":
        x, y = d.dyadic(one, dtype), np.abs(d.dyadic(two, other)).astype(other)
        y = np.minimum(y, np.asarray(5, other))
    else:
        x, y = d.values(one, dtype), d.values(two, other)
    return {"inputs": [x, y], "constant": d.settled(1)}


@draws("Where")
def where(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    condition, one, other = d.broadcast(3)
    return {"inputs": [d.noise(*condition, dtype=bool), d.values(one, dtype), d.values(other, dtype)], "wide": False}


@draws("Max", "Mean", "Min", "Sum")
def variadic(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    inputs = [d.values(shape, dtype) for shape in d.broadcast(d.between(1, 4))]
    return {"inputs": inputs, "magnitude": magnitude(*inputs)}


def magnitude(*arrays: np.ndarray) -> float:
    """The largest finite magnitude of floats."""
    found = [np.abs(x.astype(np.float64)) for x in arrays if types_of_floats(x)]
    return max((float(x[np.isfinite(x)].max(initial=0)) for x in found), default=0.0)


def types_of_floats(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" or x.dtype.name.startswith("bfloat")


@draws("Clip")
def clip(d: Draw) -> dict[str, Any]:
    dtype = d.dtype("T")
    bounds = [d.maybe(d.values((), dtype)) for _ in range(2)]
    return {"inputs": [d.values(d.shape(), dtype), *bounds], "constant": d.settled(1, 2)}


@draws("Dropout")
def dropout(d: Draw) -> dict[str, Any]:
    x = d.values(d.shape(), d.dtype("T"))
    ratio = d.maybe(np.asarray(d.of(0.5, 0.0), d.of(*types(d.schema, "T1"))))
    training = d.maybe(np.asarray(False))
    return {"inputs": [x, ratio, training], "outputs": d.between(1, 2), "constant": d.settled(1, 2), "wide": False}
