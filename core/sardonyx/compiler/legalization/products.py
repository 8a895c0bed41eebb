"""Sums of products as products of matrices."""

from __future__ import annotations

from math import prod

from sardonyx import primitives as p
from sardonyx.common.record import record
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, hint, product


@record(frozen=True)
class Contraction:
    """What a dot_general is: the axes of both operands in the order [batch, rows, depth] and [batch, depth, columns],
    the sizes of its batch, the axes of `a` that it sums `over`, and the sizes of the matrices."""

    a: Array
    b: Array
    left: list[int]
    right: list[int]
    batch: list[Size]
    over: tuple[int, ...]
    m: Size
    k: Size
    n: Size

    @property
    def work(self) -> int:
        """The multiplications, in the call at hand."""
        return prod(map(hint, (*self.batch, self.m, self.k, self.n)))

    @property
    def is_sums(self) -> bool:
        """Whether there are sums along the lines of the left operand, and no more."""
        return isinstance(self.n, int) and self.n == 1 and self.over == (self.a.rank - 1,)

    def operands(self, batch: list[Size]) -> tuple[Array, Array]:
        """The matrices [*batch, m, k] and [*batch, k, n]."""
        first = p.reshape(p.transpose(self.a, self.left), [*batch, self.m, self.k])
        return first, p.reshape(p.transpose(self.b, self.right), [*batch, self.k, self.n])


def contraction(equation: Equation) -> Contraction | None:
    """The contraction of a dot_general of floats, if float32 holds them and the results."""
    return contracted(equation) if are_floats(*equation.inputs, *equation.outputs) else None


def contracted(equation: Equation) -> Contraction:
    """What a dot_general is."""
    a, b = equation.inputs
    left, right = ([*sides] for sides in equation.params["batch"])
    over, along = equation.params["contract"]
    rows = [axis for axis in range(a.rank) if axis not in (*left, *over)]
    columns = [axis for axis in range(b.rank) if axis not in (*right, *along)]
    m, k = (product([a.shape[axis] for axis in axes]) for axes in (rows, over))
    n = product([b.shape[axis] for axis in columns])
    batch = [a.shape[axis] for axis in left]
    return Contraction(a, b, [*left, *rows, *over], [*right, *along, *columns], batch, over, m, k, n)
