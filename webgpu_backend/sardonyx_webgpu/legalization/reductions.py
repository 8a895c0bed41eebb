"""Reductions to few elements of much: in two steps, the first of which many threads share."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.primitives.array import Equation
from sardonyx.primitives.reduction import reduce as reduced
from sardonyx.sizes.symbolic import Dim, hint, product

FEW = 64
"""Results of which there must be more for each to be made in one step."""
LONG = 16384
"""Elements of a result from which two steps are faster than one."""
PLACES = 128
"""The same for the places of an image, which lie apart: a thread has all of a channel."""
MOST_PIECES = 256


def reduce(legalizer: ChannelsLast, equation: Equation) -> bool:
    """reduce of long lines -> reduce of reduce of pieces; of large images, and of many axes whose extent is open, of
    reduce along their last axis
    """
    (x,) = equation.inputs
    (output,) = equation.outputs
    function, axes = equation.params["function"], equation.params["axes"]
    parts: tuple[int | Dim, ...]
    outer = x.shape[: x.rank - len(axes)]
    length = product([x.shape[axis] for axis in axes])
    if function in ("argmax", "argmin") or sorted(axes) != [*range(len(outer), x.rank)]:
        return False
    is_narrow = x.dtype.is_float and x.dtype.bits == 16 and function in ("sum", "prod")
    if legalizer.is_image(x):
        if len(outer) != 2 or len(axes) < 2 or hint(length) < PLACES:
            return False
        last = p.transpose(p.widen(x) if is_narrow else x, [0, *axes, 1])
        lines = reduced(last, function, [x.rank - 2])
        legalizer.define_reshaped(output, p.cast(reduced(lines, function, [*range(1, x.rank - 2)]), x.dtype))
        return True
    if hint(product(outer)) > FEW:
        return False
    if isinstance(length, int):
        pieces = _pieces(length) if length >= LONG else None
        parts = () if pieces is None else (pieces, length // pieces)
    else:  # a plan is for any extent
        parts = (product([x.shape[axis] for axis in sorted(axes)[:-1]]), x.shape[-1]) if len(axes) > 1 else ()
    if not parts:
        return False
    wide = p.reshape(p.widen(x) if is_narrow else x, [*outer, *parts])
    for _ in range(2):
        wide = reduced(wide, function, [wide.rank - 1])
    legalizer.define_reshaped(output, p.cast(wide, x.dtype))
    return True


def _pieces(length: int) -> int | None:
    """How many pieces a line has: as many as may be, of whole fours if that can be.

    >>> _pieces(1 << 20), _pieces(3 * 99991)
    (256, 3)
    """
    counts = [count for count in range(MOST_PIECES, 1, -1) if length % count == 0]
    return next((count for count in counts if length // count % 4 == 0), counts[0] if counts else None)
