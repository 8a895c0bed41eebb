"""Convolutions as products by BLAS: of the columns that windows see (im2col), or put in place afterwards (col2im)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from sardonyx.host import products
from sardonyx.host.products import narrowed, work_type
from sardonyx.host.windows import bordered

COLUMN_BYTES = 1 << 21
"""Bytes of columns that a convolution makes at a time: what stays in the cache until it is multiplied."""
MOST_BANDS = 8
"""Ranges of rows that are made for the sake of threads,"""
FEW_PLACES, LEAST_BAND = 768, 1 << 23
"""and the places and multiplications of one at least: BLAS puts the weights into its order for each."""
FEW_SUMS = 48
"""Results of a group up to which its columns take about as long to copy as to multiply."""
Room: TypeAlias = Callable[[int, Sequence[int], "np.dtype[Any]"], np.ndarray]
"""Gives memory for one purpose (a number) and an array's shape and type, until the next step with that purpose."""


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    dilations: Sequence[int],
    spread: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    groups: int,
    out: np.ndarray | None = None,
    bands: int = 0,
) -> np.ndarray:
    """The primitive `conv_general` on arrays.

    The result is written to `out`, if given, in so many `bands`, as `correlation` has it.
    """
    work = work_type(x, w, prod(w.shape[1:]), x.dtype)
    wide, kernel = x.astype(work, copy=False), w.astype(work, copy=False)
    if any(step != 1 for step in spread):
        if all(step == 1 for step in strides):
            return _into(out, narrowed(_scattered(wide, kernel, dilations, spread, low, high, groups), x.dtype))
        wide = _spread(wide, spread)
    sizes = [
        (size + below + above - (taps - 1) * step - 1) // stride + 1
        for size, taps, stride, step, below, above in zip(
            wide.shape[2:], w.shape[2:], strides, dilations, low, high, strict=True
        )
    ]
    direct = out is not None and out.dtype == work
    result = out if out is not None and direct else np.empty((len(x), len(w), *(max(0, n) for n in sizes)), work)
    with np.errstate(all="ignore"):
        for step in correlation(wide, kernel, strides, dilations, low, groups, result, _room, bands):
            step()
    return result if direct else _into(out, narrowed(result, x.dtype))


def _into(out: np.ndarray | None, result: np.ndarray) -> np.ndarray:
    if out is None:
        return result
    np.copyto(out, result)
    return out


def _room(purpose: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    return np.empty(shape, dtype)


def correlation(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[int],
    groups: int,
    result: np.ndarray,
    room: Room,
    number: int = 0,
) -> Iterator[Callable[[], Any]]:
    """Steps to the product of the kernel and the columns that its windows see (im2col), by blocks of groups and rows.

    Rows are in `number` bands, in as many as there should be where that is 0. Steps can be called any number of times,
    in their order, if x and w are C-contiguous but for one axis, and `room` gives the same memory for a purpose.
    """
    spatial, kernel = result.shape[2:], w.shape[2:]
    if not result.size:
        return
    channels, filters = w.shape[1], w.shape[0] // groups
    number = number or bands(spatial, w.shape, strides, groups, x.itemsize)
    lines = rows_of_taps(w.shape, strides, groups)
    seen = (kernel[0] // lines, *kernel[1:])
    taps = prod(seen)
    weights = w.reshape(groups, filters, channels, lines, taps).transpose(3, 0, 1, 2, 4)
    if lines > 1:
        ordered = room(0, weights.shape, w.dtype)
        yield partial(np.copyto, ordered, weights)
        weights = ordered
    weights = weights.reshape(lines, groups, filters, channels * taps)
    if groups == 1:  # then the images are worked on together, as groups of equal weights
        weights = np.broadcast_to(weights, (lines, len(x), filters, channels * taps))
        groups, count = len(x), len(x) * filters
        x, result = x.reshape(1, len(x) * channels, *x.shape[2:]), result.reshape(1, count, *spatial)
    plain = lines == taps == 1 and all(s == 1 for s in strides) and not any(low) and x.shape[2:] == spatial
    line = prod(spatial[1:])
    for source, target in zip(x, result, strict=True):
        planes, sums = source.reshape(groups, channels, *x.shape[2:]), target.reshape(groups, filters, *spatial)
        if plain:
            places = prod(spatial)
            flat = planes.reshape(groups, channels, places)
            yield partial(products.matmul, weights[0], flat, sums.reshape(groups, filters, places))
            continue
        for part, rows in _blocks(groups, spatial, channels * taps * x.itemsize, number):
            span = rows.stop - rows.start
            block = sums[part, :, rows]
            count = span + (lines - 1) * dilations[0]
            windows = [(count, strides[0], dilations[0], low[0] - rows.start * strides[0])]
            windows += list(zip(spatial[1:], strides[1:], dilations[1:], low[1:], strict=True))
            view = yield from _seen(planes[part], seen, windows, room)
            columns = room(2, view.shape, x.dtype)
            # In one go: threads that come back to Python often are in each other's way.
            yield partial(np.copyto, columns, view)
            columns = columns.reshape(len(block), channels * taps, count * line)
            joined = _joined(block, (len(block), filters, span * line))
            total = room(3, (len(block), filters, span * line), x.dtype) if joined is None else joined
            yield partial(products.matmul, weights[0, part], columns[..., : span * line], total)
            for k in range(1, lines):
                start = k * dilations[0] * line
                product = room(4, total.shape, x.dtype)
                yield partial(products.matmul, weights[k, part], columns[..., start : start + span * line], product)
                yield partial(np.add, total, product, total)
            if joined is None:
                yield partial(np.copyto, block, total.reshape(block.shape))


def _joined(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The same memory with neighbouring axes joined; None where a copy would be needed."""
    joined = array.reshape(shape)
    return joined if np.may_share_memory(joined, array) else None


def rows_of_taps(w: Sequence[int], strides: Sequence[int], groups: int) -> int:
    """How many products are added up for each result.

    With few sums the copying of columns takes long: they have one row of taps, and others see them from further on.
    """
    is_shared = strides[0] == 1 and len(w) > 3 and w[0] // groups <= min(w[1], FEW_SUMS)
    return w[2] if is_shared else 1


def bands(spatial: Sequence[int], w: Sequence[int], strides: Sequence[int], groups: int, itemsize: int) -> int:
    """The ranges of rows in which a convolution with weights of such a shape is computed, however many threads do so.

    Their columns fit into the cache. Where sums depend on where a product ends, ranges are more, which threads divide.
    """
    rows, places = spatial[0], prod(spatial)
    line = prod(w[1:]) // rows_of_taps(w, strides, groups) * itemsize * prod(spatial[1:])
    together = max(1, COLUMN_BYTES // max(1, line))
    number = -(-rows // together) if rows > together else 1
    if groups > 1 or products.grain().is_free:
        return number
    least = max(FEW_PLACES, LEAST_BAND // max(1, prod(w)))
    while 2 * number <= min(rows, MOST_BANDS) and places >= 2 * number * least:
        number *= 2
    return number


def _blocks(groups: int, spatial: Sequence[int], nbytes: int, number: int) -> Iterator[tuple[slice, slice]]:
    """Ranges of groups and of rows, so many of these, with columns that have as many bytes for each place."""
    together = max(1, COLUMN_BYTES // max(1, nbytes * prod(spatial))) if number == 1 else 1
    for group in range(0, groups, together):
        part = slice(group, min(groups, group + together))
        for k in range(number):
            yield part, slice(spatial[0] * k // number, spatial[0] * (k + 1) // number)


def _seen(
    x: np.ndarray, kernel: Sequence[int], windows: Sequence[tuple[int, int, int, int]], room: Room
) -> Generator[Callable[[], Any], None, np.ndarray]:
    """What each tap sees, [groups, channels, *kernel, *places] of x [groups, channels, *spatial], as a view.

    Each of `windows` is a number of places, the stride and dilation along an axis, and the width of zeros before it.
    """
    below, above = [], []
    for taps, size, (count, stride, dilation, low) in zip(kernel, x.shape[2:], windows, strict=True):
        below.append(low)
        above.append((count - 1) * stride + (taps - 1) * dilation + 1 - low - size)
    sides = zip(x.shape[2:], below, above, strict=True)
    kept: list[Any] = [slice(max(0, -a), size - max(0, -b)) for size, a, b in sides]
    inside = x[(..., *kept)]
    before, after = ([max(0, width) for width in side] for side in (below, above))
    if any(before) or any(after):
        sizes = inside.shape[2:]
        wide = room(
            1, (*x.shape[:2], *(a + size + b for a, size, b in zip(before, sizes, after, strict=True))), x.dtype
        )
        yield partial(wide.fill, 0)
        places: list[Any] = [slice(a, a + size) for a, size in zip(before, sizes, strict=True)]
        yield partial(np.copyto, wide[(..., *places)], inside)
        inside = wide
    inner = [step * dilation for step, (_, _, dilation, _) in zip(inside.strides[2:], windows, strict=True)]
    outer = [step * stride for step, (_, stride, _, _) in zip(inside.strides[2:], windows, strict=True)]
    shape = (*x.shape[:2], *kernel, *(window[0] for window in windows))
    return np.lib.stride_tricks.as_strided(inside, shape, (*inside.strides[:2], *inner, *outer), writeable=False)


def _scattered(
    x: np.ndarray, w: np.ndarray, dilations: Any, spread: Any, low: Any, high: Any, groups: int
) -> np.ndarray:
    """What each element of x adds to the result, put in place (col2im): no work on the zeros between elements."""
    n, rank, kernel = len(x), x.ndim - 2, w.shape[2:]
    reach = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
    taps = w.reshape(groups, w.shape[0] // groups, w.shape[1], prod(kernel)).transpose(0, 3, 1, 2)
    with np.errstate(all="ignore"):
        flat = x.reshape(n, groups, w.shape[1], prod(x.shape[2:]))
        parts = products.matmul(taps.reshape(groups, -1, w.shape[1]), flat)
    parts = parts.reshape(n, groups, prod(kernel), w.shape[0] // groups, *x.shape[2:])
    wide = [max(0, (size - 1) * step + 1) for size, step in zip(x.shape[2:], spread, strict=True)]
    apart = tuple(kernel) == tuple(spread) and all(step == 1 for step in dilations)
    full = (np.empty if apart else np.zeros)((n, groups, w.shape[0] // groups, *map(sum, zip(wide, reach))), x.dtype)
    for number, tap in enumerate(np.ndindex(*kernel)):
        starts = [span - k * step for span, k, step in zip(reach, tap, dilations, strict=True)]
        places: list[Any] = [slice(a, a + size, step) for a, size, step in zip(starts, wide, spread, strict=True)]
        if apart:
            full[(..., *places)] = parts[:, :, number]
        else:
            full[(..., *places)] += parts[:, :, number]
    below, above = ([int(width) - span for width, span in zip(side, reach, strict=True)] for side in (low, high))
    return bordered(full.reshape(n, w.shape[0], *full.shape[-rank:]), below, above)


def _spread(x: np.ndarray, spread: Any) -> np.ndarray:
    """x with zeros between neighbours along the spatial axes."""
    sizes = (max(0, (size - 1) * step + 1) for size, step in zip(x.shape[2:], spread, strict=True))
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, step) for step in spread))] = x
    return wide
