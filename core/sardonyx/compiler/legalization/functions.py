"""Functions of tensors of 8 bits: whatever depends on one such tensor and on numbers alone, element by element.

Such a function, as an activation between dequantization and quantization, has 256 results at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import same_shape

Values: TypeAlias = np.ndarray

TARGETS = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.float32)
"""The types that results may have."""
_ONE_BY_ONE = frozenset({"elementwise", "cast"})
_PRODUCTS = frozenset({"conv_general", "dot_general"})


class Functions:
    """Which Arrays of a trace are functions of bytes, of the equations of these ONNX nodes."""

    def __init__(self, trace: Trace, origins: Collection[int]) -> None:
        self._roots: dict[Array, Array] = {}
        self._cones: dict[Array, list[Equation]] = {}
        self.asked: dict[Array, list[Array]] = {}
        """What others read that depends on such a tensor alone, by that tensor, which may be among them."""
        if not any(is_bytes(x) for equation in trace.equations for x in equation.inputs):
            return
        for equation in trace.equations:
            if equation.origin in origins and (root := self._root_of(equation)) is not None:
                self._roots[equation.outputs[0]] = root
                self._cones.setdefault(root, []).append(equation)
        asked: dict[Array, dict[Array, None]] = {}
        for array in self._read(trace):
            asked.setdefault(self._roots.get(array, array), {})[array] = None
        self.asked = {root: [*arrays] for root, arrays in asked.items() if is_bytes(root) and root.rank}

    def _root_of(self, equation: Equation) -> Array | None:
        """The tensor of 8 bits on which alone a result depends, element by element."""
        if equation.primitive.name not in _ONE_BY_ONE or equation.outputs[0].dtype not in (*TARGETS, dtypes.bool_):
            return None
        only: Array | None = None
        for x in equation.inputs:
            if _is_number(x):
                continue
            root = self._roots.get(x, x if is_bytes(x) else None)
            if root is None or not same_shape(x.shape, equation.outputs[0].shape) or only not in (None, root):
                return None
            only = root
        return only

    def _read(self, trace: Trace) -> Iterator[Array]:
        """The tensors that others read than such functions."""
        for equation in trace.equations:
            if not any(y in self._roots for y in equation.outputs):
                for x in equation.inputs:
                    yield x if equation.primitive.name in _PRODUCTS else self._narrowest(x)
        yield from trace.outputs

    def _narrowest(self, x: Array) -> Array:
        """The last tensor of 8 bits on the way to x, if x depends on it alone: whoever reads x does the rest."""
        y = x
        while y in self._roots and not is_bytes(y):
            assert y.equation is not None
            others = {operand for operand in y.equation.inputs if not _is_number(operand)}
            if len(others) > 1:
                return x
            (y,) = others
        return y

    def cost(self, array: Array, root: Array) -> int:
        """How many equations there are between the two."""
        seen, stack = {root}, [array]
        while stack:
            top = stack.pop()
            if top not in seen and top.equation is not None:
                seen.add(top)
                stack += top.equation.inputs
        return len(seen) - 1

    def values(self, root: Array, domain: Values, arrays: Sequence[Array]) -> list[Values]:
        """What arrays are where the root is each of these numbers, or has each of these bytes."""
        storage = root.dtype.storage
        numbers = {root: domain.view(storage) if domain.dtype == np.uint8 else domain.astype(storage)}
        for equation in self._cones.get(root, []) if arrays else []:
            operands = [numbers[x] if x.value is None else x.value.reshape(()) for x in equation.inputs]
            (numbers[equation.outputs[0]],) = equation.primitive.numpy(*operands, **equation.params)
        return [numbers[array] for array in arrays]


def is_bytes(x: Array) -> bool:
    """Whether this is a tensor of 8 bits that is not known."""
    return (x.dtype is dtypes.uint8 or x.dtype is dtypes.int8) and x.value is None


def _is_number(x: Array) -> bool:
    return x.value is not None and x.value.size == 1
