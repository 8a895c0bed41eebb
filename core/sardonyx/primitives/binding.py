"""Primitives are bound to Arrays: evaluated now where all is known, else recorded. And Arrays of what is known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np

from sardonyx.common import dtypes, memory
from sardonyx.common.dtypes import DType
from sardonyx.common.record import replace
from sardonyx.common.spill import spilled
from sardonyx.common.strings import active_strings
from sardonyx.model.ir.model import SparseTensor, Tensor
from sardonyx.primitives.array import Array, Primitive, Shape
from sardonyx.primitives.evaluation import as_objects, is_small, of_sizes
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import UNDECIDED, Size, UndecidedSizeError, count

NARROW = 1 << 10
"""Elements from which on a constant may stay as it is in the model."""


def bind(prim: Primitive, *inputs: Array, **params: Any) -> tuple[Array, ...]:
    """Evaluate a primitive now if all that it needs is known, else record it in the active trace."""
    trace = active_trace()
    if not prim.on_strings and any(array.dtype is dtypes.string for array in inputs):
        raise TypeError(f"{prim.name} does not take strings")
    if all(array.value is not None for array in inputs) and (trace is None or (inputs and prim.pure)):
        types = prim.infer(*inputs, **params)
        if trace is None:
            for dtype, shape in types:
                memory.refuse(f"{prim.name} of {list(shape)}", count(shape) * dtype.itemsize, memory.EAGER)
        is_kept = trace is not None and trace.narrow and _is_large(inputs, types)
        if trace is None or (not is_kept and all(is_small(shape) for _, shape in types)):
            values = prim.numpy(*(array.value for array in inputs if array.value is not None), **params)
            arrays = map(spilled, map(np.asarray, values))
            return tuple(Array(dtype, tuple(v.shape), v) for (dtype, _), v in zip(types, arrays, strict=True))
    elif prim.takes_sizes(params) and all(array.value is not None or array.sizes is not None for array in inputs):
        types = prim.infer(*inputs, **params)
        if all(dtype.kind in ("int", "uint", "bool") and is_small(shape) for dtype, shape in types):
            if trace is None or not trace.compares or types[0][0] is not dtypes.bool_:
                return _on_sizes(prim, inputs, params, types)
            with suppress(UndecidedSizeError), UNDECIDED:
                return _on_sizes(prim, inputs, params, types)
    if trace is None:
        raise TypeError(f"primitive {prim.name} needs a trace: some of its inputs are not known")
    return trace.record(prim, inputs, params)


def _is_large(inputs: Sequence[Array], types: Sequence[tuple[DType, Shape]]) -> bool:
    """Whether a constant of some size would become another one of some size, of numbers that any device computes."""
    if any(dtype is dtypes.float64 for dtype in (*(array.dtype for array in inputs), *(dtype for dtype, _ in types))):
        return False
    given = any(array.value is not None and array.value.size >= NARROW for array in inputs)
    return given and any(is_small(shape) and count(shape) >= NARROW for _, shape in types)


def _on_sizes(
    prim: Primitive, inputs: tuple[Array, ...], params: dict[str, Any], types: Sequence[tuple[DType, Shape]]
) -> tuple[Array, ...]:
    objects = [array.sizes if array.sizes is not None else as_objects(array) for array in inputs]
    outputs = []
    for (dtype, shape), result in zip(types, prim.numpy(*objects, **params), strict=True):
        elements = np.asarray(result)
        outputs.append(of_sizes(elements if elements.dtype == object else elements.astype(object), dtype, shape))
    return tuple(outputs)


def constant(value: Any, dtype: DType | None = None) -> Array:
    """The Array that holds this NumPy array, number or string."""
    array = np.asarray(value)
    dtype = dtype or dtypes.of(array.dtype)
    if dtype is dtypes.string:
        strings = active_strings()
        if strings is None:
            raise TypeError("strings are numbered in a trace, or inside `with StringTable():`")
        return Array(dtype, array.shape, strings.encode(array))
    return Array(dtype, array.shape, array.astype(dtype.storage, copy=False))


def of_tensor(tensor: Tensor) -> Array:
    """The Array of a constant of the model, a view of the model's bytes unless it holds strings or is computed."""
    if tensor.dtype is dtypes.string:
        return replace(constant(tensor.array(), tensor.dtype), name=tensor.name)
    if tensor.product is not None and active_trace() is not None:
        base, factors = tensor.product
        return of_tensor(base) * constant(factors, tensor.dtype)
    return Array(tensor.dtype, tensor.shape, tensor.array(), name=tensor.name)


def of_sparse(sparse: SparseTensor) -> Array:
    """The Array of a sparse constant of the model, with its zeros."""
    dtype = sparse.values.dtype
    memory.refuse(f"sparse tensor {sparse.values.name!r}", prod(sparse.shape) * dtype.itemsize, memory.EAGER)
    filled = np.zeros(sparse.shape, dtype.storage)
    places = sparse.indices.array()
    if places.ndim == 2:
        places = np.ravel_multi_index(tuple(places.T), sparse.shape)
    if places.size and places.min() < 0:
        raise ValueError(f"the index {places.min()} of a sparse tensor is out of bounds: indices count from 0")
    filled.reshape(-1)[places] = sparse.values.array()
    return Array(sparse.values.dtype, tuple(sparse.shape), filled)


def sizes(items: Sequence[Size], dtype: DType = dtypes.int64) -> Array:
    """A vector of sizes, as ONNX's Shape gives it."""
    elements = np.empty(len(items), dtype=object)
    elements[:] = items
    return of_sizes(elements, dtype, (len(items),))
