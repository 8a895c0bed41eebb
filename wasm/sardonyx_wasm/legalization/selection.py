"""What orders and selects elements on its way to routines, which go along the last axis."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array, Equation, Primitive, Shape
from sardonyx.sizes.symbolic import Size, hint

from .. import primitives as own
from ..abi import SCRATCH
from ..routines import selection, sorting, suppression
from .legalizer import Legalizer


def takes(equation: Equation, target: str) -> bool:
    """Whether a routine selects rather than sorts: few elements, whose number is known."""
    if equation.primitive.name != "top_k":
        return True
    k, x = equation.params["k"], equation.inputs[0]
    if not isinstance(k, int) or x.dtype.kind == "complex" or x.dtype in (dtypes.bool_, dtypes.string):
        return False
    return 0 < k <= selection.MOST[max(32, 8 * x.dtype.itemsize)] and 4 * k <= hint(x.shape[equation.params["axis"]])


def top_k(legalizer: Legalizer, equation: Equation) -> bool:
    """Any axis -> the last one."""
    params = {"largest": equation.params["largest"]}
    _on_lines(legalizer, equation, own.SELECT, params, None)
    return True


def sort(legalizer: Legalizer, equation: Equation) -> bool:
    """Any axis -> the last one, and memory for lines that are long."""
    (x,) = equation.inputs
    length = x.shape[equation.params["axis"]]
    work = sorting.work(x.dtype.name, length)
    room = None if isinstance(work, int) and work <= SCRATCH else work
    _on_lines(legalizer, equation, own.SORT_LINES, {"descending": equation.params["descending"]}, room)
    return True


def suppress(legalizer: Legalizer, equation: Equation) -> bool:
    """Memory where there are many boxes."""
    sides, scores, *limits = equation.inputs
    (chosen,) = equation.outputs
    work = suppression.work(scores.shape[2], chosen.shape[2])
    memory = [] if isinstance(work, int) and work <= SCRATCH else [(dtypes.uint8, (*scores.shape[:2], work))]
    _define(legalizer, equation, own.SUPPRESS, [sides, scores, *limits], {}, memory)
    return True


def _on_lines(
    legalizer: Legalizer, equation: Equation, primitive: Primitive, params: dict[str, bool], work: Size | None
) -> None:
    """Have both results come from a routine for lines, which takes so many bytes for each."""
    (x,) = equation.inputs
    axis = equation.params["axis"]
    last = [*range(axis), *range(axis + 1, x.rank), axis]
    back = [*range(axis), x.rank - 1, *range(axis, x.rank - 1)]
    lines = p.transpose(x, last)
    memory = [] if work is None else [(dtypes.uint8, (*lines.shape[:-1], work))]
    if axis == x.rank - 1:
        _define(legalizer, equation, primitive, [x], params, memory)
        return
    types = [(array.dtype, tuple(array.shape[k] for k in last)) for array in equation.outputs]
    results = legalizer.trace.append(primitive, (lines,), params, [*types, *memory])
    for output, source in zip(equation.outputs, results, strict=False):
        legalizer.define_transposed(output, source, back)


def _define(
    legalizer: Legalizer,
    equation: Equation,
    primitive: Primitive,
    inputs: Sequence[Array],
    params: dict[str, bool],
    memory: Sequence[tuple[DType, Shape]],
) -> None:
    """Have the results be the first ones of a routine, whose other ones are memory that it takes."""
    types = [(array.dtype, array.shape) for array in equation.outputs]
    routine = legalizer.trace.append(primitive, tuple(inputs), params, [*types, *memory])[0].equation
    assert routine is not None
    for array in equation.outputs:
        array.equation = routine
    routine.outputs = (*equation.outputs, *routine.outputs[len(types) :])
