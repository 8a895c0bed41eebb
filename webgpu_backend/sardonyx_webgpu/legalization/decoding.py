"""The values of floats of 8 bits or fewer, computed from their bits: without a buffer for a table."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Equation
from sardonyx.primitives.formats import narrow_of, value_of_bits


def gather(rewriter: Rewriter, equation: Equation) -> bool:
    """gather of all values of a narrow float by its bits -> arithmetic on the bits"""
    table, *indices = equation.inputs
    dtype = narrow_of(table)
    if dtype is None or len(indices) != 1:
        return False
    bits = p.cast(indices[0], dtypes.uint32)
    rewriter.define_reshaped(equation.outputs[0], value_of_bits(bits, dtype))
    return True
