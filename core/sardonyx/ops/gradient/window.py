"""The rule of sliding windows: an element gets what the windows that see it have for it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.gradient.rule import Gradients, Rule, of_one
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.binding import constant
from sardonyx.sizes.symbolic import Size


def _reduce_window(equation: Equation, g: Array) -> Gradients:
    """The window's element that is chosen, the first of equal ones, gets its gradient; a sum gives it to all."""
    (x,), params = equation.inputs, {**equation.params}
    function = params.pop("function")
    if function not in ("sum", "max", "min"):
        raise NotImplementedError(f"the primitive 'reduce_window' has no gradient for {function!r}")
    chosen = None if function == "sum" else p.cast(p.reduce_window(x, f"arg{function}", **params), dtypes.int32)
    outer = x.rank - len(params["window"])
    lines = [
        _Line(x.shape[outer + k], g.shape[outer + k], *(params[name][k] for name in _NAMES))
        for k in range(len(params["window"]))
    ]
    total: Array | None = None
    for backs in product(*(line.backs for line in lines)):
        own, here = g, chosen
        taps, inside = _taps(lines, backs, params["window"])
        for axis, (line, back) in enumerate(zip(lines, backs, strict=True), outer):
            places = line.windows(back)
            own = p.gather(own, [places], [axis], axis)
            here = None if here is None else p.gather(here, [places], [axis], axis)
        meets = inside if here is None else p.equal(here, taps)
        part = p.where(meets, own, 0.0)
        total = part if total is None else total + part
    assert total is not None
    return [total]


_NAMES = ("window", "strides", "dilations", "low")


class _Line:
    """An axis: which windows see an element, by how far they begin before the last one that may."""

    def __init__(self, size: Size, count: Size, window: int, stride: int, dilation: int, low: Size) -> None:
        self.size, self.count, self.stride = size, count, stride
        self._reach = {tap * dilation: tap for tap in range(window)}
        self.backs = sorted({place // stride for place in self._reach})
        self._low = low
        self._places = p.iota((size,), 0, dtypes.int32) + low  # behind the border

    def windows(self, back: int) -> Array:
        """The number of a window for each element."""
        return self._places / self.stride - back

    def taps(self, back: int) -> Array:
        """The tap with which that window sees the element, -1 if it does not, or there is no such window."""
        table = [self._reach.get(back * self.stride + phase, -1) for phase in range(self.stride)]
        found = p.gather(constant(table, dtypes.int32), [self._places % self.stride], [0])
        number = self.windows(back)
        return p.where((self._places >= 0) & (number >= 0) & (number < self.count), found, -1)


def _taps(lines: Sequence[_Line], backs: Sequence[int], window: Sequence[int]) -> tuple[Array, Array]:
    """Which element of the window each element is, int32 [*spatial], -1 if none; and whether it is one."""
    total, inside = None, None
    for axis, (line, back) in enumerate(zip(lines, backs, strict=True)):
        taps = p.reshape(line.taps(back), [line.size if k == axis else 1 for k in range(len(lines))])
        total = taps if total is None else total * window[axis] + taps
        inside = taps >= 0 if inside is None else inside & (taps >= 0)
    assert total is not None
    assert inside is not None
    return p.where(inside, total, -1), inside


RULES: dict[str, Rule] = {"reduce_window": of_one(_reduce_window)}
