"""Constant folding: what depends on nothing but constants and known sizes is computed once, by the expansions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.strings import StringTable
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.ops.interpret import Environment, expand
from sardonyx.passes.checks import words
from sardonyx.passes.infer import Inference
from sardonyx.passes.intern import is_pure
from sardonyx.primitives.array import Array

LIMIT = 16 << 20
"""Bytes up to which a result becomes a constant."""

GROWTH = 4
"""How many times larger than its operands a result may be: filled and repeated tensors stay computed."""

WORK = 1 << 30
"""Products up to which products of matrices and convolutions are computed."""

HEAVY = words("""
    Attention Conv ConvInteger ConvTranspose DeformConv Det DFT Einsum GRU Gemm LSTM MatMul MatMulInteger
    NonMaxSuppression QLinearConv QLinearMatMul RNN STFT
""")
"""Operators that multiply more often than they have results."""

TABLES = words("BlackmanWindow HammingWindow HannWindow MelWeightMatrix")
"""Operators whose result is no repetition, and takes float64, which GPUs lack: it may be as large as a constant is."""

TOTAL = 1 << 30
"""Bytes up to which results of one model become constants, all together."""

FREE = 4 << 10
"""Bytes that a result may always have: shapes and the like."""


def constant_value(tensor: Tensor, name: str = "") -> Value:
    """A Value that holds a tensor."""
    return Value(name, TensorType(tensor.dtype, tensor.shape), constant=tensor)


def absorb_constants(graph: Graph) -> None:
    """Turn the outputs of Constant nodes into constants, in this graph and in those inside it."""
    for each in [graph, *(inner for node in graph.all_nodes() for inner in node.subgraphs())]:
        nodes = []
        for node in each.nodes:
            tensor = node.attribute("value") if node.op_type == "Constant" and not node.domain else None
            if isinstance(tensor, Tensor):
                (value,) = node.outputs
                value.constant, value.producer = tensor, None
                value.type = TensorType(tensor.dtype, tensor.shape)
            else:
                nodes.append(node)
        each.nodes = nodes


def fold(node: Node, uses: Mapping[Value, int], facts: Inference, room: int = TOTAL) -> Sequence[Value | None] | None:
    """Constants that replace the outputs of a node which are in use, or None where it cannot or should not be folded.

    Control flow and random numbers never are, nor is what grows beyond the limits, or beyond the `room` in bytes.
    """
    wanted = [value for value in node.outputs if uses.get(value)]
    if is_rearranged(node):
        arrays = _evaluate(node, wanted, facts.strings)
        return [_constant(node.outputs[0], arrays[0], facts.strings)] if arrays and arrays[0] is not None else None
    arrays = [facts.array(value) for value in wanted]
    tensors = [value.constant for value in node.inputs if value is not None]
    fed = None in tensors
    if not arrays or any(array is None or (fed and array.value is None) for array in arrays):
        return None
    if next(node.subgraphs(), None) or not is_pure(node):
        return None
    if _is_weights(node):
        return None
    nbytes = 0 if _is_dequantized(node) else sum(_bytes(tensor) for tensor in tensors if tensor is not None)
    if node.op_type in TABLES:
        nbytes = LIMIT
    if not all(array is not None and _fits(array, nbytes, room) for array in arrays) or _work(node, wanted) > WORK:
        return None
    if any(array is not None and array.value is None for array in arrays):
        arrays = _evaluate(node, wanted, facts.strings)
    constants = {
        value: _constant(value, array, facts.strings)
        for value, array in zip(wanted, arrays, strict=False)
        if array is not None
    }
    return [constants.get(value) for value in node.outputs] if len(constants) == len(wanted) else None


def is_rearranged(node: Node) -> bool:
    """Whether a node only reshapes a small constant: computing that is cheaper than inferring its type."""
    if node.op_type not in ("Reshape", "Squeeze", "Unsqueeze") or node.domain:
        return False
    tensors = [value.constant for value in node.inputs if value is not None]
    return all(tensor is not None and _bytes(tensor) <= FREE for tensor in tensors)


def _is_dequantized(node: Node) -> bool:
    """Whether a node only widens quantized weights: folding it makes them larger, and kernels read them as they are."""
    source = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    narrow = source is not None and source.bits <= 8 and source is not dtypes.bool_
    return node.op_type == "DequantizeLinear" or (node.op_type == "Cast" and narrow)


def _is_weights(node: Node) -> bool:
    """Whether a node dequantizes a matrix or filters: rules make products of integers of those that multiply them."""
    source = node.inputs[0] if node.op_type == "DequantizeLinear" and not node.domain else None
    tensor = None if source is None else source.constant
    return tensor is not None and tensor.dtype.bits <= 8 and len(tensor.shape) > 1 and tensor.size > 1


def _bytes(array: Tensor | Array) -> int:
    return prod(map(int, array.shape)) * array.dtype.itemsize


def _fits(array: Array, nbytes: int, room: int) -> bool:
    """Whether a result is of known size, small, and not much larger than the constants that it comes from."""
    if not all(isinstance(size, int) for size in array.shape):
        return False
    return _bytes(array) <= max(FREE, min(LIMIT, GROWTH * nbytes, room))


def _work(node: Node, wanted: Sequence[Value]) -> int:
    """How often an operator in HEAVY multiplies, for rare ones an upper bound; 0 for any other operator."""
    if node.op_type not in HEAVY:
        return 0
    shapes = [value.constant.shape for value in node.inputs if value is not None and value.constant is not None]
    results = sum(prod(size for size in value.shape or () if isinstance(size, int)) for value in wanted)
    inner = max(map(prod, shapes), default=1)
    if node.op_type in ("MatMul", "Gemm") and shapes[0]:
        inner = shapes[0][-1] if not node.attribute("transA", 0) else shapes[0][0]
    elif node.op_type == "Conv":
        inner = prod(shapes[1][1:])
    return results * inner


def _evaluate(node: Node, wanted: Sequence[Value], strings: StringTable) -> list[Array | None]:
    environment: Environment = {}
    try:
        with strings, np.errstate(all="ignore"):
            expand(node, environment)
    except Exception:  # the run will raise it again, and name the place
        return []
    return [array if isinstance(array := environment.get(value), Array) else None for value in wanted]


def _constant(value: Value, array: Array, strings: StringTable) -> Value:
    assert array.value is not None
    elements = array.value if array.value.flags.c_contiguous else array.value.copy(order="C")
    if array.dtype is dtypes.string:
        elements = strings.decode(elements)
    return constant_value(Tensor.of(np.asarray(elements), array.dtype, value.name), value.name)
