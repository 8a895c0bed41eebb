"""A trace whose images have their channels last.

Convolutions read and write [batch, height, width, channels]. What lies between them is computed in that order too: an
Array of the model's order [batch, channels, ...] that such a kernel writes is a mere view of it, and views cost
nothing, because movement is index arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.movement import TRANSPOSE
from sardonyx.primitives.trace import Trace


class ChannelsLast(Rewriter):
    """Rewrites a trace, and remembers what its images are with their channels last."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._last: dict[Array, Array] = {}
        self._kept: list[Array] = []

    def last(self, x: Array) -> Array:
        """The Array with its channels last."""
        if x not in self._last:
            self._remember(x, _transposed(x, _last_order(x.rank)))
        return self._last[x]

    def _remember(self, x: Array, last: Array) -> None:
        self._last[x] = last
        self._kept += (x, last)
        if last.equation is not None:
            self.trace.laid.add(last)

    def define_last(self, x: Array, last: Array) -> None:
        """Say what an Array is by what it is with its channels last."""
        self.define_transposed(x, last, _first_order(x.rank))
        self._remember(x, last)

    def is_image(self, x: Array) -> bool:
        """Whether an Array was made with its channels last."""
        return x in self._last and x.equation is not None

    def follow(self, equation: Equation) -> bool:
        """Compute in the order in which the operands lie."""
        (output,) = equation.outputs
        if output.rank < 3 or not any(x.rank == output.rank and self.is_image(x) for x in equation.inputs):
            return False
        renamed = self.renamed(equation)
        self.define_last(output, p.transpose(renamed, _last_order(output.rank)))
        return True

    def concat(self, equation: Equation) -> bool:
        """Concatenate images with their channels last."""
        (output,) = equation.outputs
        if output.rank < 3 or not any(map(self.is_image, equation.inputs)):
            return False
        axis = _last_order(output.rank).index(equation.params["axis"])
        self.define_last(output, p.concat([self.last(x) for x in equation.inputs], axis))
        return True


def are_floats(*arrays: Array) -> bool:
    """Whether float32 holds all their elements."""
    return all(x.dtype in (dtypes.float32, dtypes.float16, dtypes.bfloat16) for x in arrays)


def _transposed(x: Array, perm: Sequence[int]) -> Array:
    """The transposition of an Array; of one that it undoes, what that was made of."""
    if x.equation is not None and x.equation.primitive is TRANSPOSE:
        before = x.equation.params["perm"]
        if [before[axis] for axis in perm] == [*range(x.rank)]:
            return x.equation.inputs[0]
    return p.transpose(x, perm)


def _last_order(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _first_order(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]
