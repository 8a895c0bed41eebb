"""Legalization of convolutions of floats, of images with their channels last.

Routines leave out what is beyond the border of an image, so that nothing writes zeros around it. Weights are put into
the order that routines read by movement: what depends on weights alone runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.beside import beside
from sardonyx.compiler.legalization.channels_last import ChannelsLast, are_floats
from sardonyx.compiler.legalization.phases import interleaved
from sardonyx.compiler.legalization.ranges import largest_sum
from sardonyx.compiler.legalization.volumes import is_plane
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, hint, product, same, same_shape
from sardonyx_webgpu import primitives as own
from sardonyx_webgpu.legalization import integers
from sardonyx_webgpu.legalization.products import matmul
from sardonyx_webgpu.legalization.window import Window, filled, parameters
from sardonyx_webgpu.legalization.winograd import by_winograd, fastest
from sardonyx_webgpu.routines.windows import hardware, places, software

_EXACT = 1 << 24
"""Integers up to here are numbers of float32."""
_UNROLLED = 256
"""Most multiplications of fours that are written out in a shader, for each row of places."""


def conv_general(legalizer: ChannelsLast, equation: Equation) -> bool:
    """conv_general of floats, bytes, integers that floats hold -> conv, depthwise, Winograd's algorithm, a product"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    window = Window(*(params[name] for name in Window._fields))
    if not all(isinstance(size, int) for size in w.shape) or hint(output.size) == 0:
        return False
    if integers.pointwise(legalizer, equation):
        return True
    whole = output.dtype is dtypes.int32 and largest_sum(x, w, range(1, w.rank)) <= _EXACT
    if not (whole or are_floats(x, w)):
        return False
    if prod(window.strides) > 1 and prod(window.spread) > 1:
        return False
    is_new = not legalizer.is_image(x)
    image = legalizer.last(x)
    if is_new and int(w.shape[1]) % 4 == 3 and params["groups"] == 1:  # whoever writes the image writes whole fours
        image, w = filled(image, x.rank - 1), filled(w, 1)
    if whole:
        image, w = p.cast(image, dtypes.float32), p.cast(w, dtypes.float32)
    shape = [output.shape[0], *output.shape[2:], output.shape[1]]
    result = _convolved(legalizer, image, w, shape, params["groups"], window, whole)
    legalizer.define_last(output, p.cast(result, output.dtype))
    return True


def _convolved(
    legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], groups: int, window: Window, exact: bool
) -> Array:
    """The convolution of an image [B, *size, C] with w [M, C / groups, *taps] to this shape [B, *out, M]; an `exact`
    one is of integers."""
    maps, channels, *taps = map(int, w.shape)
    if groups == 1 and (result := _as_product(legalizer, image, w, shape, window)) is not None:
        return result
    if len(taps) == 3 and is_plane(taps, window.strides, window.low) and same(image.shape[1], shape[1]):
        planes = p.reshape(image, [product(image.shape[:2]), *image.shape[2:]])
        kernels = p.reshape(w, [maps, channels, *taps[1:]])
        flat, inner = [product(shape[:2]), *shape[2:]], window.inner
        return p.reshape(_convolved(legalizer, planes, kernels, flat, groups, inner, exact), shape)
    if groups == 1 and maps < 4 and (result := _as_phases(legalizer, image, w, shape, window)) is not None:
        return result
    if groups > 1 and channels == 1 and (result := _depthwise(legalizer, image, w, shape, window)) is not None:
        return result
    lines = None if exact or groups > 1 or len(taps) > 2 else fastest(legalizer, w, shape, window)
    if lines is not None:
        return by_winograd(legalizer, image, w, shape, window, lines)
    if groups == 1 and (widened := _beside(w, shape, window)) is not None:
        w, wide, window = widened
        return p.reshape(_convolved(legalizer, image, w, wide, 1, window, exact), shape)
    kind = "one" if groups == 1 else "whole" if maps // groups % 4 == 0 else "mixed"
    seen = product([shape[0], *((size + step - 1) // step for size, step in zip(shape[1:-1], window.spread))])
    params: dict[str, Any] = {name: parameters(sizes) for name, sizes in window._asdict().items()}
    columns = (maps + 3) // 4 if kind == "mixed" else groups * ((maps // groups + 3) // 4)
    params |= {"spread": window.spread, "groups": kind}
    params |= {"software": software(hint(seen), maps // groups, kind == "mixed")}
    params |= {"hardware": hardware(hint(seen), columns, channels, taps, prod(window.spread))}
    weights = filled(p.transpose(w, [*range(2, w.rank), 1, 0]), w.rank - 1)
    return legalizer.record(own.CONV, [image, weights], params, dtypes.float32, tuple(shape))


def _beside(w: Array, shape: Sequence[Size], window: Window) -> tuple[Array, list[Size], Window] | None:
    """Weights, shape and window for some outputs side by side, where that fills fours of channels."""
    maps, _, *taps = map(int, w.shape)
    axis, size = len(taps) - 1, shape[-2]
    if maps > 2 or taps[axis] == 1 or window.dilations[axis] > 1 or prod(window.spread) > 1:
        return None
    counts = [count for count in (8 // maps, 4 // maps) if isinstance(size, int) and size % count == 0]
    if not counts:
        return None
    step, count = window.strides[axis], counts[0]
    strides = [*window.strides[:-1], step * count]
    sizes = [*shape[:-2], size // count, maps * count]
    return beside(w, axis, count, step), sizes, window._replace(strides=strides)


def _as_product(legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], window: Window) -> Array | None:
    """A product of matrices, where windows are places, or each is the whole image."""
    maps, _, *taps = map(int, w.shape)
    if prod(window.spread) > 1 or any(not same(border, 0) for border in window.low):
        return None
    if prod(taps) == prod(window.strides) == 1 and same_shape(image.shape[:-1], shape[:-1]):
        rows = product(shape[:-1])
    elif same_shape(image.shape[1:-1], taps) and prod(window.dilations) == 1 and all(same(n, 1) for n in shape[1:-1]):
        rows = shape[0]
    else:
        return None
    depth = prod(map(int, w.shape[1:]))
    matrix = p.reshape(p.transpose(w, [*range(2, w.rank), 1, 0]), [1, depth, maps])
    return p.reshape(matmul(legalizer, p.reshape(image, [1, rows, depth]), matrix, dtypes.float32), shape)


def _as_phases(legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], window: Window) -> Array | None:
    """A product that makes all phases of a place side by side, where each of them sees that place alone."""
    maps, channels, *taps = map(int, w.shape)
    wide = [size * step for size, step in zip(image.shape[1:-1], window.spread, strict=True)]
    alone = [*taps] == [*window.spread] and all(same(border, n - 1) for border, n in zip(window.low, taps, strict=True))
    if prod(taps) == 1 or not alone or prod(window.dilations) > 1 or not same_shape(wide, shape[1:-1]):
        return None
    rank = len(taps)
    last_first = p.flip(p.transpose(w, [1, *range(2, w.rank), 0]), range(1, 1 + rank))
    matrix = p.reshape(last_first, [1, channels, prod(taps) * maps])
    rows = p.reshape(image, [1, product(image.shape[:-1]), channels])
    phases = p.reshape(matmul(legalizer, rows, matrix, dtypes.float32), [*image.shape[:-1], *taps, maps])
    return interleaved(phases)


def _depthwise(legalizer: ChannelsLast, image: Array, w: Array, shape: Sequence[Size], window: Window) -> Array | None:
    """A convolution of each channel, if it has not too many taps."""
    maps, _, *taps = map(int, w.shape)
    if len(taps) > 2 or prod(window.spread) > 1:
        return None
    flat = [1] * (2 - len(taps))
    sizes = [*flat, *(hint(size) for size in shape[1:-1])]
    rows, widest = (min(4, sizes[0]), 4) if sizes[0] > 1 else (1, 8)
    columns = [min(count, sizes[1]) for count in (widest, 4, 2, 1)]
    fits = [(rows, count) for count in columns if count * prod(taps) <= _UNROLLED]
    if not fits:
        return None
    quads = hint(shape[0]) * ((maps + 3) // 4)
    params = {
        "kernel": (*flat, *taps),
        "strides": (*flat, *window.strides),
        "dilations": (*flat, *window.dilations),
        "low": parameters([*[0] * len(flat), *window.low]),
        "software": fits[0],
        "hardware": places(fits[0], sizes, quads),
        "multiplier": maps // int(image.shape[-1]),
    }
    x = p.reshape(image, [image.shape[0], *flat, *image.shape[1:]])
    weights = filled(p.reshape(p.transpose(w, [*range(2, w.rank), 0, 1]), [*flat, *taps, maps]), 2)
    flat_shape = (shape[0], *flat, *shape[1:])
    return p.reshape(legalizer.record(own.DEPTHWISE, [x, weights], params, dtypes.float32, flat_shape), shape)
