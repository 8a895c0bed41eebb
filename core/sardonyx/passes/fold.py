"""Constant folding: what depends on nothing but constants and known sizes is computed once, by the expansions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from sardonyx import dtypes
from sardonyx.array import Array
from sardonyx.compiler.interpret import expand
from sardonyx.ir import Node, Tensor, TensorType, Value
from sardonyx.passes.infer import Inference
from sardonyx.passes.intern import is_pure
from sardonyx.strings import StringTable

LIMIT = 16 << 20
"""Bytes up to which a result becomes a constant."""

GROWTH = 4
"""How many times larger than its operands a result may be: filled and repeated tensors stay computed."""

KEPT_SMALL = frozenset({"DequantizeLinear"})
"""Operators whose operands are better kept than their results: kernels read quantized weights as they are."""

FREE = 4 << 10
"""Bytes that a result may always have: shapes and the like."""


def constant_value(tensor: Tensor, name: str = "") -> Value:
    """A Value that holds a tensor."""
    return Value(name, TensorType(tensor.dtype, tensor.shape), constant=tensor)


def fold(node: Node, uses: Mapping[Value, int], facts: Inference) -> Sequence[Value | None] | None:
    """Constants that replace the outputs of a node which are in use, or None where it cannot or should not be folded.

    Control flow and random numbers never are, nor is what grows beyond the limits.
    """
    if node.op_type == "Constant" and not node.domain and isinstance(tensor := node.attribute("value"), Tensor):
        return [constant_value(tensor, node.outputs[0].name)]
    if next(node.subgraphs(), None) or not is_pure(node):
        return None
    wanted = [value for value in node.outputs if uses.get(value)]
    arrays = [facts.array(value) for value in wanted]
    tensors = [value.constant for value in node.inputs if value is not None]
    fed = None in tensors
    if not arrays or any(array is None or (fed and array.value is None) for array in arrays):
        return None
    given = 0 if node.op_type in KEPT_SMALL else sum(_bytes(tensor) for tensor in tensors if tensor is not None)
    if not all(array is not None and _fits(array, given) for array in arrays):
        return None
    if any(array is not None and array.value is None for array in arrays):
        with facts.strings:
            arrays = _evaluate(node, wanted)
    made = {
        value: _constant(value, array, facts.strings)
        for value, array in zip(wanted, arrays, strict=False)
        if array is not None
    }
    return [made.get(value) for value in node.outputs] if len(made) == len(wanted) else None


def _bytes(array: Tensor | Array) -> int:
    return prod(map(int, array.shape)) * array.dtype.itemsize


def _fits(array: Array, given: int) -> bool:
    """Whether a result is of known size, small, and not much larger than the constants that it comes from."""
    if not all(isinstance(size, int) for size in array.shape):
        return False
    return _bytes(array) <= min(LIMIT, max(FREE, GROWTH * given))


def _evaluate(node: Node, wanted: Sequence[Value]) -> list[Array | None]:
    environment: dict[int, Array | None] = {}
    try:
        with np.errstate(all="ignore"):
            expand(node, environment)
    except Exception:  # the run will raise it again, and name the place
        return []
    return [array if isinstance(array := environment.get(id(value)), Array) else None for value in wanted]


def _constant(value: Value, array: Array, strings: StringTable) -> Value:
    assert array.value is not None
    kept = array.value if array.value.flags.c_contiguous else array.value.copy(order="C")
    if array.dtype is dtypes.string:
        kept = strings.decode(kept)
    return constant_value(Tensor.of(np.asarray(kept), array.dtype, value.name), value.name)
