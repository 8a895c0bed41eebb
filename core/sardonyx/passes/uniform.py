"""Types inferred without expansion: operators whose result has the type of an operand."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.model.ir import Node
from sardonyx.passes.checks import words
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import same

UNIFORM = words("""
    Abs Acos Acosh Add And Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Div Elu Erf Exp Floor Gelu HardSigmoid
    HardSwish Identity LeakyRelu Log Max Min Mish Mul Neg Or PRelu Reciprocal Relu Round Selu Sigmoid Sign Sin
    Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Xor
""")
"""Operators whose result has the type of their operands, where all of these have one type or broadcast to it."""

LIKE_FIRST = words("""
    BatchNormalization Hardmax InstanceNormalization LayerNormalization LogSoftmax LpNormalization LRN
    RMSNormalization Softmax
""")
"""Operators whose only output has the type of the first input, at least where all inputs are of one dtype."""

NO_TENSORS = words("""
    Optional SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SplitToSequence ZipMap
""")
"""Operators whose outputs have no type of tensors, even if their expansions cannot tell them from their elements."""


def same_as_operand(node: Node, operands: Sequence[Array | None]) -> Array | None:
    """The operand that has the type of the result, if its elements are unknown; None where expansion must infer it."""
    first = operands[0] if operands else None
    if first is None or node.domain or len(node.outputs) > 1:
        return None
    if node.op_type in LIKE_FIRST:
        alike = all(other is None or other.dtype is first.dtype for other in operands)
        return first if alike and first.value is None and first.sizes is None else None
    if node.op_type not in UNIFORM:
        return None
    arrays = [array for array in operands if array is not None]
    rank = max(array.rank for array in arrays)
    for largest in arrays:
        has_elements = largest.value is not None or largest.sizes is not None
        if largest.rank == rank and not has_elements and all(_stretches(array, largest) for array in arrays):
            return largest
    return None


def _stretches(array: Array, largest: Array) -> bool:
    """Whether an operand has the type of another one, or broadcasts to it."""
    if array is largest:
        return True
    sizes = zip(reversed(array.shape), reversed(largest.shape))
    return array.dtype is largest.dtype and all(
        size is want or same(size, 1) or same(size, want) for size, want in sizes
    )
