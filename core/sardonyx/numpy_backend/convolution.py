"""Convolutions as NumPy functions on whole buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sardonyx.host.correlation import convolve, correlation
from sardonyx.numpy_backend.room import Room

Arrays: TypeAlias = Sequence[np.ndarray]


def conv_general(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any]) -> Callable[[], Any]:
    """A convolution writes straight to its buffer."""
    (x, w), (y,) = inputs, outputs
    return partial(convolve, x, w, **attributes, out=y)


def in_steps(inputs: Arrays, outputs: Arrays, attributes: Mapping[str, Any], room: Room) -> Callable[[], Any]:
    """A convolution with all that does not depend on numbers done beforehand."""
    (x, w), (y,) = inputs, outputs
    is_plain = x.dtype == w.dtype == y.dtype and x.dtype.kind == "f" and x.itemsize >= 4
    if not is_plain or any(step != 1 for step in attributes["spread"]):
        return conv_general(inputs, outputs, attributes)
    strides, dilations, low = (attributes[name] for name in ("strides", "dilations", "low"))
    number = attributes.get("bands", 0)
    steps = list(correlation(x, w, strides, dilations, low, attributes["groups"], y, room, number))

    def run() -> None:
        for step in steps:
            step()

    return run
