"""Sizes that the elements of an Array tell: known now, or read by the run as symbols."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sardonyx.common import dtypes
from sardonyx.primitives.array import PRIMITIVES, Array
from sardonyx.primitives.binding import bind
from sardonyx.primitives.evaluation import evaluate, of_sizes
from sardonyx.primitives.ratios import through_floats
from sardonyx.primitives.trace import Trace, active_trace
from sardonyx.sizes.symbolic import UNDECIDED, Size, UndecidedSizeError, product

POLYNOMIAL = {"add", "sub", "mul", "neg"}
CHOICES = {"eq", "where"}
"""What exporters write around sizes of which -1 may stand for another: guards say that none of them is."""
MOVES = {"broadcast", "cast", "concat", "reshape", "transpose"}
"""What makes polynomials of numbers that are read, and what only moves them: nothing else need be read for it."""
TOLD, TOLD_DEPTH = 8, 8
"""Elements of inputs and constants among them, and the equations between, at most."""


def read(trace: Trace, array: Array, guess: int = 1) -> list[Size]:
    """The elements of a traced integer Array, as symbols that the run reads from it.

    `guess` is assumed for an element that no earlier run has read and that cannot be computed now.
    """
    array = trace.materialise(array)
    if array in trace.reads:
        return trace.reads[array]
    number = int(product(array.shape))
    if array.dtype.kind not in ("int", "uint", "bool") or number > 64:
        raise ValueError(f"sizes cannot be read from {array}: they are integers, 64 at most")
    sizes: list[Size]
    if (of_floats := through_floats(array)) is not None:
        sizes = known_sizes(of_floats)
    elif (value := None if _is_left_to_the_run(trace, array) else evaluate(array)) is not None:
        sizes = [int(item) for item in value.reshape(-1).tolist()]
    elif array.dtype is not dtypes.bool_ and array.equation and (told := _told_by(trace, array, number)) is not None:
        sizes = known_sizes(_symbolic(trace, array, told))
    else:
        now = trace.value_in_this_call(array)
        guesses = [guess] * number if now is None else [int(item) for item in now.reshape(-1).tolist()]
        sizes = [trace.fresh_symbol(guess, "?n") for guess in guesses]
        if array.equation is None:
            trace.input_reads[array] = sizes
        else:
            trace.append(PRIMITIVES["read"], (array,), {"symbols": tuple(map(str, sizes))}, [])
    trace.reads[array] = sizes
    return sizes


def _is_left_to_the_run(trace: Trace, array: Array) -> bool:
    """Whether an Array is of sizes that guards would tie to their numbers, in a plan that is for all sizes."""
    if not trace.root.narrow:
        return False
    try:
        with UNDECIDED:
            evaluate(array)
    except UndecidedSizeError:
        return True
    return False


def _told_by(trace: Trace, array: Array, number: int, depth: int = TOLD_DEPTH) -> set[Array] | None:
    """The Arrays of whose elements those of an Array are polynomials, fewer than `number` of them unread as yet.

    None where there are no such.
    """
    if array.value is not None:
        return set() if array.value.size <= TOLD and (np.abs(array.value.astype(np.float64)) < 1 << 31).all() else None
    if array in trace.reads:
        return {array}
    equation = array.equation
    if array.dtype not in (dtypes.int32, dtypes.int64, dtypes.bool_) or not isinstance(array.size, int):
        return None
    if equation is None:
        return {array} if array.size <= TOLD and array.dtype is not dtypes.bool_ else None
    name, params = equation.primitive.name, equation.params
    if name == "sizes":
        return set()
    if depth and (name in MOVES or (name == "elementwise" and params["function"] in POLYNOMIAL | CHOICES)):
        parts = [_told_by(trace, x, number, depth - 1) for x in equation.inputs]
        told = {x for part in parts if part is not None for x in part}
        unread = [x for x in told if x not in trace.reads and x.equation is not None]
        if None not in parts and sum(int(x.size) for x in unread) < number:
            return told
    return {array} if array.size < number and array.dtype is not dtypes.bool_ else None


def _symbolic(trace: Trace, array: Array, told: Collection[Array]) -> Array:
    """An Array with its elements as sizes, which are polynomials of those of the Arrays that are `told`."""
    if array.value is not None:
        return array
    equation = array.equation
    if equation is None or array in told or equation.primitive.name == "sizes":
        elements = np.empty(int(array.size), dtype=object)
        elements[:] = known_sizes(array)
        shape = tuple(map(int, array.shape))
        return of_sizes(elements.reshape(shape), array.dtype, shape)
    return bind(equation.primitive, *(_symbolic(trace, x, told) for x in equation.inputs), **equation.params)[0]


def known_sizes(array: Array, guess: int = 1) -> list[Size]:
    """The elements of a small integer Array that shapes depend on.

    What is not known yet becomes symbols that the run reads (`read`), so asking costs the plan a halt; sizes that went
    through arithmetic which is not on integers are tied to their numbers by guards. `guess` as in `read`.
    """
    if array.value is not None:
        return [int(item) for item in array.value.reshape(-1).tolist()]
    if array.sizes is not None:
        return list(array.sizes.reshape(-1).tolist())
    if array.equation is not None and array.equation.primitive.name == "sizes":
        return list(array.equation.params["sizes"])
    trace = active_trace()
    if trace is None:
        raise TypeError("the elements of this Array are not known")
    return read(trace, array, guess)
