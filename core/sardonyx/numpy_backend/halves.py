"""Products of float16 as those of float32, which BLAS has.

NumPy sums them so anyway, and takes longer to widen a weight in each run than to multiply by it. Constants are widened
once.
"""

from __future__ import annotations

from collections.abc import Collection

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace


def rewrite(trace: Trace, origins: Collection[int]) -> None:
    """Rewrite the products of these ONNX nodes."""
    rewriter = Rewriter(trace)

    def rule(equation: Equation) -> bool:
        """dot_general or conv_general of float16 -> of float32, and a cast"""
        name = equation.primitive.name
        if equation.origin not in origins or name not in ("dot_general", "conv_general"):
            return False
        (output,) = equation.outputs
        if any(x.dtype is not dtypes.float16 for x in (*equation.inputs, output)):
            return False
        wide = [p.cast(x, dtypes.float32) for x in equation.inputs]
        params = {**equation.params, "dtype": dtypes.float32} if name == "dot_general" else equation.params
        result = rewriter.record(equation.primitive, wide, params, dtypes.float32, output.shape)
        rewriter.define_reshaped(output, p.cast(result, dtypes.float16))
        return True

    rewriter.run(rule)
