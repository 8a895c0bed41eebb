"""Floats that NumPy lacks are made of bits (`sardonyx.primitives.formats`): here a conversion is one step again.

What rounds has the gradient of what it rounds, as a cast between types that NumPy has.
"""

from __future__ import annotations

from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.formats import narrow_of


def converted(equation: Equation) -> Array | None:
    """The floats that an equation's result has in another type, if it is the last step of such a conversion."""
    name, (output, *_) = equation.primitive.name, equation.outputs
    if name == "bitcast" and output.dtype.is_float:
        source = _source(equation.inputs[0])
        return source if source is not None and source.dtype.is_native != output.dtype.is_native else None
    if name == "gather" and narrow_of(equation.inputs[0]) is not None:
        return _source(equation.inputs[1])
    return None


def _source(bits: Array) -> Array | None:
    """The one Array of floats whose bits integers are made of."""
    found: set[Array] = set()
    stack, seen = [bits], {bits}
    while stack:
        equation = stack.pop().equation
        for x in equation.inputs if equation is not None else ():
            if x.dtype.is_float and equation is not None and equation.primitive.name == "bitcast":
                found.add(x)
            elif not x.dtype.is_float and x not in seen:
                seen.add(x)
                stack.append(x)
    return found.pop() if len(found) == 1 else None
