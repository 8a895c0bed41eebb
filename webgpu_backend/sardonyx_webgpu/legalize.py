"""What becomes of a trace before it is fused: products become routines, and so does what sorts or scatters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import TypeAlias

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, Trace
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.legalization.channels_last import ChannelsLast, are_floats
from sardonyx.symbolic import hint, product
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu import scanning, scattering, selection

Rule: TypeAlias = Callable[[Rewriter, Equation], bool]

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def legalize(trace: Trace, origins: Collection[int]) -> None:
    """Rewrite the equations of these ONNX nodes."""
    for rules in (selection.RULES | scattering.RULES, scanning.RULES):
        _apply(trace, origins, rules)
    legalizer = ChannelsLast(trace)

    def rewrite(equation: Equation) -> bool:
        return (
            equation.origin in origins and equation.primitive.name == "dot_general" and dot_general(legalizer, equation)
        )

    legalizer.run(rewrite)


def _apply(trace: Trace, origins: Collection[int], rules: Mapping[str, Rule]) -> None:
    """Rewrite the equations that there is a rule for."""
    if any(equation.primitive.name in rules for equation in trace.equations):
        rewriter = Rewriter(trace)

        def rewrite(equation: Equation) -> bool:
            rule = rules.get(equation.primitive.name)
            return equation.origin in origins and rule is not None and rule(rewriter, equation)

        rewriter.run(rewrite)


def dot_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """dot_general of floats -> matmul"""
    a, b = equation.inputs
    (output,) = equation.outputs
    if not (are_floats(a, b) and equation.params["dtype"].is_float):
        return False
    left, right = ([*sides] for sides in equation.params["batch"])
    contract = equation.params["contract"]
    rows = [axis for axis in range(a.rank) if axis not in (*left, *contract[0])]
    columns = [axis for axis in range(b.rank) if axis not in (*right, *contract[1])]
    depth = [a.shape[axis] for axis in contract[0]]
    sizes = [hint(product([x.shape[k] for k in axes])) for x, axes in ((a, left), (a, rows), (b, columns))]
    if prod(sizes) * hint(product(depth)) < FEWEST or 0 in sizes:
        return False
    batch = [a.shape[axis] for axis in left]
    m, n = (product([x.shape[axis] for axis in axes]) for x, axes in ((a, rows), (b, columns)))
    if isinstance(n, int) and n == 1 and contract[0] == (a.rank - 1,):
        return False  # sums along lines, which fusion joins with what surrounds them
    k = product(depth)
    first = p.reshape(p.transpose(a, [*left, *rows, *contract[0]]), [*batch, m, k])
    second = p.reshape(p.transpose(b, [*right, *contract[1], *columns]), [*batch, k, n])
    legalizer.define_reshaped(output, matmul(legalizer, first, second, output.dtype))
    return True


def matmul(legalizer: ChannelsLast, a: Array, b: Array, dtype: dtypes.DType) -> Array:
    """The product of two matrices, or of stacks of them."""
    shape = (*a.shape[:-1], b.shape[-1])
    rows, columns = hint(a.shape[-2]), hint(b.shape[-1])
    tile = (min(8, 1 << (rows - 1).bit_length()), 2 if columns > 4 else 1)
    made = legalizer.record(own.MATMUL, [a, b], {"tile": tile}, dtypes.float32, shape)
    return p.cast(made, dtype)
