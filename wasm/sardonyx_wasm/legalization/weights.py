"""Legalization of the gradient of a convolution's weights: one product with all that the windows see (im2col)."""

from __future__ import annotations

from math import prod

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.compiler.legalization.channels_last import are_floats
from sardonyx.primitives.array import Equation
from sardonyx.sizes.symbolic import hint, product

from .. import primitives as own
from .convolutions import bordered, trimmed
from .legalizer import Legalizer
from .products import matmul

MOST_COLUMNS = 1 << 26
"""Elements that are put side by side at most."""


def takes(equation: Equation, target: str) -> bool:
    """Whether it is the gradient of a convolution without groups, of images."""
    (x, y), params = equation.inputs, equation.params
    known = all(isinstance(size, int) for size in (x.shape[1], y.shape[1], *params["kernel"]))
    columns = hint(product([y.shape[0], *y.shape[2:], x.shape[1], *params["kernel"]]))
    return params["groups"] == 1 and x.rank in (4, 5) and known and are_floats(x, y) and 0 < columns <= MOST_COLUMNS


def conv_weights(legalizer: Legalizer, equation: Equation) -> bool:
    """conv_weights -> im2col and a product"""
    (x, y), (output,), params = equation.inputs, equation.outputs, equation.params
    kernel = tuple(map(int, params["kernel"]))
    channels, maps = int(x.shape[1]), int(y.shape[1])
    window = {"kernel": kernel, "strides": tuple(params["strides"]), "dilations": tuple(params["dilations"])}
    image, low = trimmed(p.cast(legalizer.last(x), dtypes.float32), params["low"])
    places = y.shape[2:]
    lines = zip(places, kernel, window["strides"], window["dilations"], strict=True)
    padded = bordered(image, low, [(n - 1) * stride + (taps - 1) * step + 1 for n, taps, stride, step in lines])
    sizes, depth = (y.shape[0], *places), prod(kernel) * channels
    if prod(kernel) == 1:
        columns = p.slice_(padded, [0] * x.rank, [*sizes, channels], [1, *window["strides"], 1])
    else:
        columns = legalizer.record(own.IM2COL, [padded], window, dtypes.float32, (*sizes, depth))
    rows = p.transpose(legalizer.last(y), [x.rank - 1, *range(x.rank - 1)])
    count = product(sizes)
    found = matmul(legalizer, p.reshape(rows, (maps, count)), p.reshape(columns, (count, depth)), output.dtype)
    ordered = p.reshape(found, (maps, *kernel, channels))
    legalizer.define_transposed(output, ordered, [0, x.rank - 1, *range(1, x.rank - 1)])
    return True
