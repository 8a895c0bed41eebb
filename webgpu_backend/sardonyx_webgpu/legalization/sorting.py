"""What orders the elements of lines: unsigned keys in the same order, sorted in runs, which are merged."""

from __future__ import annotations

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Dim, Size, hint, poly
from sardonyx_webgpu import primitives as own

GROUP = 64
"""Elements in whose order a thread finds the place of one by looking at all."""
MERGED = 4
"""Runs that become one at a time."""
FEW = 16
"""The first elements up to which they are chosen again and again, rather than all sorted."""


def keys(x: Array, descending: bool = False) -> Array:
    """Integers without signs in the order of elements: zeros are equal, NaN is the largest; of 64 bits, or of 32.

    >>> from sardonyx.primitives.binding import constant
    >>> keys(constant([-1, 0, 1])).value.tolist()[:2]
    [9223372036854775807, 9223372036854775808]
    """
    if x.dtype.is_float:
        unsigned = _of_float(p.bitcast(p.cast(x, dtypes.float32), dtypes.uint32))
    elif x.dtype.bits == 64:
        unsigned = x if x.dtype is dtypes.uint64 else p.bitcast(x, dtypes.uint64) ^ (1 << 63)
    elif x.dtype.kind == "int":
        unsigned = p.bitcast(p.cast(x, dtypes.int32), dtypes.uint32) ^ (1 << 31)
    else:
        unsigned = p.cast(x, dtypes.uint32)
    return ~unsigned if descending else unsigned


def _of_float(bits: Array) -> Array:
    magnitude = bits & 0x7FFFFFFF
    number = p.where(bits > 0x7FFFFFFF, ~bits, bits ^ (1 << 31))
    number = p.where(p.equal(magnitude, 0), 1 << 31, number)
    return p.where(magnitude > 0x7F800000, 0xFFFFFFFF, number)


def order(rewriter: Rewriter, lines: Array, few: Size | None = None) -> tuple[Array, Array]:
    """The keys [lines, n] in order, and where they come from, int32; of the first `few` ones, if that is given.

    Equal keys keep their order.
    """
    if isinstance(few, int) and 0 < few <= FEW:
        return _first(rewriter, lines, few)
    n = lines.shape[1]
    lines, places = _sort_runs(rewriter, lines, None, GROUP, n)
    run = GROUP
    while run < hint(n):
        # A Dim, so that the run is a parameter of the code.
        params = {"run": Dim(poly(run))}
        types = [(lines.dtype, lines.shape), (dtypes.int32, lines.shape)]
        lines, places = rewriter.trace.append(own.MERGE_RUNS, (lines, places), params, types)
        run *= MERGED
    _hold(n, run)
    if few is None:
        return lines, places
    return p.slice_axis(lines, 1, 0, few), p.slice_axis(places, 1, 0, few)


def _first(rewriter: Rewriter, lines: Array, few: int) -> tuple[Array, Array]:
    """The first ones of groups, and of those, until one group is left."""
    n, most, passes, places = lines.shape[1], GROUP, 1, None
    while most < hint(n):
        most, passes = most // few * GROUP, passes + 1
    _hold(n, most)
    for later in reversed(range(passes)):
        length = -(-lines.shape[1] // GROUP) * few if later else few
        lines, places = _sort_runs(rewriter, lines, places, few, length)
    assert places is not None
    return lines, places


def _hold(n: Size, most: int) -> None:
    """Make another plan where there are more elements than this one is for."""
    if n > most:
        raise AssertionError(f"{n} exceeds {most}")


def _sort_runs(rewriter: Rewriter, lines: Array, places: Array | None, keep: int, length: Size) -> tuple[Array, Array]:
    shape = (lines.shape[0], length)
    inputs = (lines,) if places is None else (lines, places)
    params = {"group": GROUP, "keep": keep}
    types = [(lines.dtype, shape), (dtypes.int32, shape)]
    lines, places = rewriter.trace.append(own.SORT_RUNS, inputs, params, types)
    return lines, places


def take(x: Array, places: Array) -> Array:
    """The elements of lines [lines, n] at places [lines, k]."""
    return p.gather(x, [p.iota((x.shape[0], 1), 0), places], [0, 1])
