"""What convolutions and pools share: windows that slide over the spatial axes, and the borders they reach over."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array
from sardonyx.sizes.symbolic import Size, is_short, maximum, minimum

Border = tuple[list[Size], list[Size]]


class Sliding(Operator, abstract=True):
    """The attributes that place windows on the spatial axes of x [N, C, *spatial]."""

    auto_pad: str = "NOTSET"
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    dilations: tuple[int, ...] | None = None

    def steps(self, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Strides and dilations of all spatial axes."""
        ones = (1,) * rank
        for name, values in (("strides", self.strides), ("dilations", self.dilations)):
            if values and len(values) != rank:
                raise ValueError(f"{name} {list(values)} has {len(values)} elements for {rank} spatial axes")
        return self.strides or ones, self.dilations or ones

    def border(self, x: Array, kernel: Sequence[Size]) -> Border:
        """How far beyond x the windows reach, below and above, by `pads` or `auto_pad`."""
        rank = x.rank - 2
        if len(kernel) != rank:
            raise ValueError(f"a kernel of {len(kernel)} axes does not slide over the {rank} spatial axes of x")
        if self.auto_pad in ("NOTSET", "VALID"):
            pads = (self.auto_pad == "NOTSET" and self.pads) or (0,) * (2 * rank)
            if len(pads) != 2 * rank:
                raise ValueError(f"pads {list(pads)} has {len(pads)} elements for {rank} spatial axes")
            return list(pads[:rank]), list(pads[rank:])
        strides, dilations = self.steps(rank)
        return self.shared(list(map(_same_border, x.shape[2:], map(reach, kernel, dilations), strides)))

    def shared(self, total: Sequence[Size]) -> Border:
        """Widths dealt out to both sides; the odd one goes where `auto_pad` says."""
        less, more = [width // 2 for width in total], [width - width // 2 for width in total]
        if self.auto_pad == "SAME_UPPER":
            return less, more
        if self.auto_pad in ("SAME_LOWER", "NOTSET", "VALID"):
            return more, less
        raise ValueError(f"auto_pad {self.auto_pad!r} is unknown; use NOTSET, SAME_UPPER, SAME_LOWER or VALID")


def reach(window: Size, dilation: int) -> Size:
    """How many places a window covers, gaps included."""
    return (window - 1) * dilation + 1


def ceil_border(size: Size, span: Size, stride: int, low: Size, high: Size) -> Size:
    """The upper border that makes room for a last window which sticks out (`ceil_mode`), unless all of it would.

    >>> ceil_border(4, 3, 2, 0, 0), ceil_border(4, 2, 2, 1, 1), ceil_border(4, 1, 4, 0, 1)
    (1, 1, -3)
    """
    places = (size + low + high - span + stride - 1) // stride + 1
    if not high + stride <= span:
        places = minimum(places, (size + low - 1) // stride + 1)
    return (places - 1) * stride + span - size - low


def whole_border(size: Size, span: Size, stride: int, low: Size, high: Size) -> Size:
    """The upper border, widened where the first window would stick out by less than a stride, as in onnxruntime.

    >>> whole_border(4, 2, 2, 0, 0), whole_border(1, 2, 2, 0, 0), whole_border(1, 3, 2, 0, 0)
    (0, 1, 0)
    """
    room = size + low + high - span
    return high - room if stride > 1 and is_short(room) and not is_short(room + stride - 1) else high


def _same_border(size: Size, span: Size, stride: int) -> Size:
    """The width of both borders with which one window starts at every `stride`-th place of an axis."""
    width = (size - 1) // stride * stride + span - size
    return width if span >= stride else maximum(width, 0)
