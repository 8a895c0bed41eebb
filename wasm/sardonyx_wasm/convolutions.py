"""Legalization of convolutions of floats, of images with their channels last.

Borders are explicit, so that whoever makes an image writes its zeros. Weights are put into the order that routines read
by movement: what depends on weights alone runs once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, constant
from sardonyx.symbolic import Size, hint, maximum, product

from . import blas
from . import primitives as own
from .legalizer import Legalizer, are_floats
from .products import in_panels, matmul, panel_width
from .routines.filtering import tile_size, weight_transform


def conv_general(legalizer: Legalizer, equation: Equation) -> bool:
    """conv_general of floats -> conv_packed, conv_panels, depthwise, Winograd's algorithm or a product"""
    x, w = equation.inputs
    (output,) = equation.outputs
    params = equation.params
    known = all(isinstance(size, int) for size in w.shape) and hint(output.size) > 0
    if not (known and are_floats(x) and x.rank in (3, 4) and _plain(params)):
        return False
    image, kernel = p.cast(legalizer.last(x), dtypes.float32), p.cast(w, dtypes.float32)
    lines = [params["strides"], params["dilations"], params["spread"], params["low"]]
    if flat := x.rank == 3:  # an image of one column: units are rows
        image = p.reshape(image, [*image.shape[:2], 1, image.shape[2]])
        kernel = p.reshape(kernel, [*w.shape, 1])
        lines = [[*line, fill] for fill, line in zip((1, 1, 1, 0), lines, strict=True)]
    shape = [output.shape[0], *output.shape[2:], *([1] * flat), output.shape[1]]
    strides, dilations, spread, low = lines
    if all(step == 1 for step in spread):
        made = convolve(legalizer, image, kernel, shape, params["groups"], strides, dilations, low)
    else:
        made = _transposed(legalizer, image, kernel, shape, params["groups"], spread, low)
    made = p.cast(made, output.dtype)
    if flat:
        made = p.reshape(made, [*made.shape[:2], made.shape[3]])
    legalizer.define_last(output, made)
    return True


def _transposed(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    groups: int,
    spread: Sequence[int],
    low: Sequence[int],
) -> Array:
    """A convolution of an image with zeros between its elements: one without zeros for each phase of the outputs.

    Output s * j + r meets the taps t = low - r (mod s), every s-th, at the elements from j - (low - r - t) / s on.
    """
    sizes = [(size + step - 1) // step for size, step in zip(shape[1:3], spread, strict=True)]
    phases = []
    for phase in np.ndindex(*spread):
        first = [(before - r) % step for before, r, step in zip(low, phase, spread, strict=True)]
        starts = [(b - r - t) // step for b, r, t, step in zip(low, phase, first, spread, strict=True)]
        counts = [max(0, (int(n) - t + s - 1) // s) for n, t, s in zip(w.shape[2:], first, spread, strict=True)]
        if 0 in counts:
            phases.append(p.full([shape[0], *sizes, shape[3]], 0.0, dtypes.float32))
            continue
        part = p.slice_(w, [0, 0, *first], [*w.shape[:2], *counts], [1, 1, *spread])
        phases.append(convolve(legalizer, image, part, [shape[0], *sizes, shape[3]], groups, (1, 1), (1, 1), starts))
    together = p.reshape(p.concat(phases, 3), [shape[0], *sizes, *spread, shape[3]])
    wide = [size * step for size, step in zip(sizes, spread, strict=True)]
    made = p.reshape(p.transpose(together, [0, 1, 3, 2, 4, 5]), [shape[0], *wide, shape[3]])
    return p.slice_(made, [0, 0, 0, 0], shape)


def convolve(
    legalizer: Legalizer,
    image: Array,
    w: Array,
    shape: Sequence[Size],
    groups: int,
    strides: Sequence[int],
    dilations: Sequence[int],
    low: Sequence[Size],
    exact: bool = False,
) -> Array:
    """The convolution of an image [B, H, W, C] with w [M, C / groups, *taps] to this shape [B, Ho, Wo, M].

    `low` are the zeros before the image, whose elements are left out where they are negative. An `exact` one of
    integers has no other numbers on the way.
    """
    made, channels, *taps = map(int, w.shape)
    window = {"kernel": tuple(taps), "strides": tuple(strides), "dilations": tuple(dilations)}
    image, low = trimmed(image, low)
    seen = [
        (size - 1) * stride + (n - 1) * step + 1
        for size, n, stride, step in zip(shape[1:3], taps, strides, dilations, strict=True)
    ]
    padded = bordered(image, low, seen)
    if groups == 1 and prod(taps) == 1 and (legalizer.target == "wasmtime" or all(step == 1 for step in strides)):
        return _by_columns(legalizer, padded, w, shape, window)
    if channels == 1 and groups > 1:
        if made > groups:
            every = (*padded.shape[:3], groups, made // groups)
            padded = p.reshape(p.broadcast_to(p.unsqueeze(padded, [4]), every), (*padded.shape[:3], made))
        taps_first = p.transpose(p.reshape(w, [made, prod(taps)]), [1, 0])
        return legalizer.record(own.DEPTHWISE, [padded, taps_first], window, dtypes.float32, tuple(shape))
    if not exact and (m := _winograd(legalizer, shape, channels, made, groups, window)):
        return _by_winograd(legalizer, image, w, shape, low, m)
    if legalizer.target == "wasmtime" and groups == 1:
        return _by_columns(legalizer, padded, w, shape, window)
    per_group = made // groups
    weights = p.reshape(w, [groups, per_group, channels, prod(taps)])
    weights = p.reshape(p.transpose(weights, [0, 3, 2, 1]), [groups, prod(taps) * channels, per_group])
    packed = in_panels(weights, legalizer.width)
    panels = p.reshape(packed, [product(packed.shape[:2]), *packed.shape[2:]])
    params = {**window, "groups": groups, "m": made, "nr": legalizer.width}
    return legalizer.record(own.CONV_PACKED, [padded, panels], params, dtypes.float32, tuple(shape))


def _by_columns(legalizer: Legalizer, padded: Array, w: Array, shape: Sequence[Size], window: dict[str, Any]) -> Array:
    """One product with all that the windows see, side by side (im2col)."""
    made, depth = int(w.shape[0]), prod(map(int, w.shape[1:]))
    matrix = p.reshape(p.transpose(w, [2, 3, 1, 0]), [depth, made])
    single = window["kernel"] == (1, 1)
    if single and window["strides"] == (1, 1):
        return matmul(legalizer, p.slice_(padded, [0] * 4, [*shape[:3], depth], [1] * 4), matrix, dtypes.float32)
    if nr := panel_width(legalizer, shape[:3], matrix):
        params = {**window, "n": made, "nr": nr}
        return legalizer.record(own.CONV_PANELS, [padded, in_panels(matrix, nr)], params, dtypes.float32, tuple(shape))
    if single:
        columns = p.slice_(padded, [0] * 4, [*shape[:3], depth], [1, *window["strides"], 1])
    else:
        columns = legalizer.record(own.IM2COL, [padded], window, dtypes.float32, (*shape[:3], depth))
    return matmul(legalizer, columns, matrix, dtypes.float32)


def _winograd(
    legalizer: Legalizer, shape: Sequence[Size], channels: int, made: int, groups: int, window: dict[str, Any]
) -> int:
    """The outputs of a tile along an axis, 0 where Winograd's algorithm does not pay."""
    if groups != 1 or window != {"kernel": (3, 3), "strides": (1, 1), "dilations": (1, 1)}:
        return 0
    read = blas.READ if legalizer.target == "wasmtime" else 0
    m = tile_size(hint(shape[0]), hint(shape[1]), hint(shape[2]), channels, made, read)
    return m if m > 1 else 0


def _by_winograd(
    legalizer: Legalizer, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], m: int
) -> Array:
    """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015)."""
    channels, made = int(w.shape[1]), int(w.shape[0])
    tiles = [(size + m - 1) // m for size in shape[1:3]]
    padded = bordered(image, low, [count * m + 2 for count in tiles])
    places = (m + 2) ** 2
    count = shape[0] * tiles[0] * tiles[1]
    g = weight_transform(m)
    u = matmul(legalizer, p.reshape(w, [made * channels, 9]), constant(np.kron(g, g).T, dtypes.float32), dtypes.float32)
    u = p.transpose(p.reshape(u, [made, channels, places]), [2, 1, 0])
    if legalizer.target == "wasmtime":
        nr = blas.panel_width(channels, made) or made
        params = {"m": m, "n": made, "nr": nr}
        return legalizer.record(own.CONV_WINOGRAD, [padded, in_panels(u, nr)], params, dtypes.float32, tuple(shape))
    v = legalizer.record(own.WINOGRAD_INPUT, [padded], {"m": m}, dtypes.float32, (count, places, channels))
    panels, params = in_panels(u, legalizer.width), {"n": made, "nr": legalizer.width}
    y = legalizer.record(own.MATMUL_BATCHED, [v, panels], params, dtypes.float32, (count, places, made))
    return legalizer.record(own.WINOGRAD_OUTPUT, [y], {"m": m}, dtypes.float32, tuple(shape))


def _plain(params: dict[str, Any]) -> bool:
    """Whether a convolution is one that `_transposed` or `convolve` can do."""
    low, spread = params["low"], params["spread"]
    if all(step == 1 for step in spread):
        return True
    ones = all(step == 1 for step in (*params["strides"], *params["dilations"]))
    return ones and all(isinstance(before, int) for before in low)


def trimmed(image: Array, low: Sequence[Size]) -> tuple[Array, list[Size]]:
    """The image without what lies before the first window, and borders that are not negative."""
    starts = [max(0, -before) if isinstance(before, int) else 0 for before in low]
    if any(starts):
        rest = [size - start for size, start in zip(image.shape[1:3], starts, strict=True)]
        image = p.slice_(image, [0, *starts, 0], [image.shape[0], *rest, image.shape[3]])
    return image, [before + start for before, start in zip(low, starts, strict=True)]


def bordered(image: Array, low: Sequence[Size], seen: Sequence[Size]) -> Array:
    """The image with zeros before it, and behind it as many as make it at least `seen` high and wide."""
    gaps = [total - size - before for total, size, before in zip(seen, image.shape[1:3], low, strict=True)]
    high = [max(0, gap) if isinstance(gap, int) else maximum(gap, 0) for gap in gaps]
    return p.pad(image, [0, *low, 0], [0, *high, 0])
