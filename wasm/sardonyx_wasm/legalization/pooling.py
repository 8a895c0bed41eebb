"""Windows that slide over images: along one axis after the other, where that is less to do."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size, hint, product

from .. import primitives as own
from .legalizer import Legalizer

FEWEST, FEW = 6, 5
"""Elements that a window has at least, with which it pays: of an image whose channels are last, and of others, which
kernels go over element by element."""
_FUNCTIONS = frozenset({"max", "min", "sum"})
_NOTHING = {"window": 1, "strides": 1, "dilations": 1, "low": 0}
"""A window that changes nothing."""


def window(legalizer: Legalizer, equation: Equation) -> bool:
    """reduce_window of float32 along one axis or two -> pool of images, or of each channel as an image"""
    (x,), (output,) = equation.inputs, equation.outputs
    is_image = output.rank - len(equation.params["window"]) == 2 and legalizer.is_image(x)
    if not _suits(equation, x.shape[1] if is_image else 1, FEWEST if is_image else FEW):
        return legalizer.follow(equation)
    axes = len(equation.params["window"])
    attributes: dict[str, Any] = {"function": equation.params["function"]}
    for name, nothing in _NOTHING.items():
        attributes[name] = (nothing,) * (2 - axes) + tuple(equation.params[name])

    def shape(array: Array) -> list[Size]:
        """Of an Array as images with channels last."""
        outer: Sequence[Size] = array.shape[:-axes]
        batch, channels = outer if is_image else (product(outer), 1)
        return [batch, *[1] * (2 - axes), *array.shape[-axes:], channels]

    image = p.reshape(legalizer.last(x) if is_image else x, shape(x))
    made = legalizer.record(own.POOL, [image], attributes, dtypes.float32, tuple(shape(output)))
    if is_image:
        legalizer.define_last(output, p.reshape(made, [output.shape[0], *output.shape[2:], output.shape[1]]))
    else:
        legalizer.define_reshaped(output, made)
    return True


def _suits(equation: Equation, channels: Size, fewest: int) -> bool:
    """Whether the routine does this, and pays."""
    params = equation.params
    sizes = params["window"]
    numbers = [channels, *(number for name in _NOTHING for number in params[name])]
    return (
        params["function"] in _FUNCTIONS
        and equation.inputs[0].dtype is dtypes.float32
        and len(sizes) <= 2
        and all(isinstance(number, int) for number in numbers)
        and prod(sizes) >= fewest
        and int(channels) * ((sizes[-1] - 1) * params["dilations"][-1] + 1) <= own.POOL.most
        and hint(equation.outputs[0].size) > 0
    )
