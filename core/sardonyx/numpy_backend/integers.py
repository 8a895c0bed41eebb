"""What is computed with integers of 8 bits, as NumPy does it fastest.

BLAS has floats alone, and NumPy takes an array from one type to another in a pass over memory. So products whose sums
float32 holds are products of floats, whose operands are floats as soon as they stop being bytes, and whose sums stay
floats as long as they are added to and scaled. Functions of bytes are tables of 256.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.functions import Functions, Values
from sardonyx.compiler.legalization.ranges import bounds, largest_sum, uncast
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.primitives.evaluation import columns_of, evaluate
from sardonyx.primitives.trace import Trace

EXACT = 1 << 24
"""Integers up to here are numbers of float32."""
MOST = 1 << 24
"""Elements of constants up to which they are looked at."""
FEWEST = 8
"""Equations from which on a table is faster than what they compute."""

_MOVES = frozenset({"reshape", "transpose", "broadcast", "slice", "flip"})
_SIGNS = frozenset({"add", "sub"})


def rewrite(trace: Trace, origins: Collection[int]) -> None:
    """Rewrite the equations of these ONNX nodes."""
    functions = Functions(trace, origins)
    tables: dict[Array, tuple[Array, Values]] = {}
    for root, asked in functions.asked.items():
        wanted = [y for y in asked if y is not root and functions.cost(y, root) >= FEWEST]
        for y, values in zip(wanted, functions.values(root, np.arange(256, dtype=np.uint8), wanted), strict=True):
            tables[y] = root, values
    rewriter = Rewriter(trace)
    floats = _Floats(rewriter)

    def rule(equation: Equation) -> bool:
        if equation.origin not in origins or not equation.outputs:
            return False
        if equation.outputs[0] in tables:
            root, values = tables[equation.outputs[0]]
            index = p.bitcast(root, dtypes.uint8)
            table = constant(values, equation.outputs[0].dtype)
            rewriter.define_reshaped(equation.outputs[0], p.gather(table, [index], [0]))
            return True
        return floats.write(equation)

    rewriter.run(rule)


def _size(x: Array) -> int:
    """How large the integers of a constant are."""
    found = max(map(abs, bounds(x)))
    value = evaluate(x) if found > EXACT and isinstance(x.size, int) and x.size <= MOST else None
    return found if value is None else int(np.abs(value, dtype=np.int64).max(initial=0))


class _Sum(NamedTuple):
    """Whole numbers of float32, exact each: one Array, or two, whose sum is rounded as int32 is to float32."""

    parts: tuple[Array, ...]
    largest: int
    """How large the numbers of the last part can be."""

    @property
    def total(self) -> Array:
        """The sum, as float32."""
        return self.parts[0] if len(self.parts) == 1 else self.parts[0] + self.parts[1]

    @property
    def exact(self) -> Array:
        """The sum, as int32."""
        one, *more = (p.cast(part, dtypes.int32) for part in self.parts)
        return one + more[0] if more else one


class _Floats:
    """Integers as floats that hold them."""

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._sums: dict[Array, _Sum] = {}
        """The floats of which an Array of int32 was made."""

    def write(self, equation: Equation) -> bool:
        """dot_general or conv_general of integers -> of floats; cast of such to float32 -> these"""
        name = equation.primitive.name
        if name in ("dot_general", "conv_general"):
            return self._product(equation)
        if name == "cast" and equation.outputs[0].dtype is dtypes.float32:
            known = self._known(equation.inputs[0])
            if known is not None:
                self._rewriter.define_reshaped(equation.outputs[0], known.total)
            return known is not None
        return False

    def _product(self, equation: Equation) -> bool:
        x, w = equation.inputs
        (output,) = equation.outputs
        if output.dtype is not dtypes.int32 or not (x.dtype.is_int and w.dtype.is_int):
            return False
        is_product = equation.primitive.name == "dot_general"
        axes = equation.params["contract"][1] if is_product else range(1, w.rank)
        if not all(isinstance(w.shape[axis], int) for axis in axes):
            return False
        largest = largest_sum(x, w, axes)
        if largest > EXACT:
            return not is_product and self._halves(equation)
        params = {**equation.params, "dtype": dtypes.float32} if is_product else equation.params
        operands = [self._of(x), self._of(w)]
        result = self._rewriter.record(equation.primitive, operands, params, dtypes.float32, output.shape)
        self._define(output, _Sum((result,), largest))
        return True

    def _define(self, output: Array, found: _Sum) -> None:
        self._sums[output] = found
        self._rewriter.define_reshaped(output, found.exact)

    def _halves(self, equation: Equation) -> bool:
        """conv_general of integers -> the sum of two of floats, each over half of the channels"""
        x, w = equation.inputs
        (output,) = equation.outputs
        channels = w.shape[1]
        read = columns_of(uncast(w)) if w.size <= MOST else None
        if read is None or not isinstance(channels, int) or channels < 2 or x.shape[1] != channels:
            return False
        half = channels // 2
        sizes = np.abs(read(0, int(w.shape[-1])), dtype=np.int64)
        most = max(map(abs, bounds(x)))
        sums = [int(part.reshape(len(part), -1).sum(axis=1).max()) for part in (sizes[:, :half], sizes[:, half:])]
        if most * max(sums) > EXACT:
            return False
        parts = [
            self._rewriter.record(
                equation.primitive,
                [p.slice_axis(self._of(operand), 1, start, count) for operand in (x, w)],
                equation.params,
                dtypes.float32,
                output.shape,
            )
            for start, count in ((0, half), (half, channels - half))
        ]
        self._define(output, _Sum(tuple(parts), most * sums[1]))
        return True

    def _known(self, x: Array) -> _Sum | None:
        """What an Array of int32 was made of, moved or with constants added."""
        if x in self._sums:
            return self._sums[x]
        equation = x.equation
        if equation is None:
            return None
        if equation.primitive.name in _MOVES:
            known = self._known(equation.inputs[0])
            if known is None:
                return None
            return known._replace(parts=tuple(self._again(equation, [part]) for part in known.parts))
        if equation.params.get("function") not in _SIGNS:
            return None
        one, other = equation.inputs
        known = self._known(one)
        if known is None or not self._rewriter.is_constant(other):
            return None
        size = _size(other)
        *before, last = known.parts
        if known.largest + size <= EXACT:
            moved = self._again(equation, [last, p.cast(other, dtypes.float32)])
            return _Sum((*before, moved), known.largest + size)
        if before or size > EXACT:
            return None
        number = p.cast(other, dtypes.float32)
        number = -number if equation.params["function"] == "sub" else number
        return _Sum((last, p.broadcast_to(number, equation.outputs[0].shape)), size)

    def _of(self, x: Array) -> Array:
        """Integers of few bits as floats: the bytes are those, and what is done to them before is done to floats."""
        equation = x.equation
        if equation is None or x.value is not None or self._rewriter.is_constant(x) or x.dtype.bits <= 8:
            return p.cast(x, dtypes.float32)
        name = equation.primitive.name
        if name == "cast" and equation.inputs[0].dtype.is_int and max(map(abs, bounds(equation.inputs[0]))) <= EXACT:
            return self._of(equation.inputs[0])
        signs = equation.params.get("function") in _SIGNS
        if name in _MOVES or (signs and all(max(map(abs, bounds(y))) <= EXACT for y in equation.inputs)):
            return self._again(equation, [self._of(y) for y in equation.inputs])
        return p.cast(x, dtypes.float32)

    def _again(self, equation: Equation, inputs: list[Array]) -> Array:
        """What an equation gives, of floats."""
        return self._rewriter.record(
            equation.primitive, inputs, equation.params, dtypes.float32, equation.outputs[0].shape
        )
