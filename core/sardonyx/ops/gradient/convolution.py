"""Rules of convolutions: the gradient of the image is a convolution as well, that of the weights one over images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx import primitives as p
from sardonyx.ops.gradient.rule import Gradients, Rule
from sardonyx.primitives.array import Array, Equation
from sardonyx.sizes.symbolic import Size


def _conv_general(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    (g,) = gs
    assert g is not None
    (x, w), params = equation.inputs, equation.params
    return [
        _of_image(x, w, g, **params) if wanted[0] else None,
        _of_weights(x, w, g, **params) if wanted[1] else None,
    ]


def _of_image(
    x: Array, w: Array, g: Array, strides: Any, dilations: Any, spread: Any, low: Any, high: Any, groups: int
) -> Array:
    """The convolution of g, spread as the windows were apart, with the weights turned round."""
    before, behind = [], []
    for k, taps in enumerate(w.shape[2:]):
        last = (x.shape[2 + k] - 1) * spread[k]
        before.append((taps - 1) * dilations[k] - low[k])
        behind.append(last - (g.shape[2 + k] - 1) * strides[k] + low[k])
    return p.conv_general(g, _turned(w, groups), spread, dilations, before, behind, groups, strides)


def _turned(w: Array, groups: int) -> Array:
    """Weights [M, C / groups, *kernel] for the way back: [C, M / groups, *kernel], the last tap first."""
    taps = range(3, 1 + w.rank)
    grouped = p.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
    turned = p.flip(p.transpose(grouped, [0, 2, 1, *taps]), taps)
    return p.reshape(turned, (groups * w.shape[1], w.shape[0] // groups, *w.shape[2:]))


def _of_weights(
    x: Array, w: Array, g: Array, strides: Any, dilations: Any, spread: Any, low: Any, high: Any, groups: int
) -> Array:
    kernel = w.shape[2:]
    if all(step == 1 for step in spread):
        return p.conv_weights(x, g, kernel, strides, dilations, low, groups)
    if all(step == 1 for step in strides):  # the way back of a convolution that reads g and gives x
        before = [(taps - 1) * step - own for taps, step, own in zip(kernel, dilations, low, strict=True)]
        return _turned(p.conv_weights(g, x, kernel, spread, dilations, before, groups), groups)
    return p.conv_weights(_apart(x, spread), g, kernel, strides, dilations, low, groups)


def _apart(x: Array, spread: Sequence[int]) -> Array:
    """x [N, C, *spatial] with zeros between neighbours."""
    for axis, step in enumerate(spread, 2):
        sizes: list[Size] = list(x.shape)
        wide = p.pad(
            p.unsqueeze(x, [axis + 1]), [0] * (x.rank + 1), [0] * (axis + 1) + [step - 1] + [0] * (x.rank - axis - 1)
        )
        sizes[axis] = sizes[axis] * step
        x = p.slice_axis(p.reshape(wide, sizes), axis, 0, sizes[axis] - (step - 1))
    return x


def _conv_weights(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    (w,) = gs
    assert w is not None
    (x, y), params = equation.inputs, equation.params
    strides, dilations, low, groups = (params[name] for name in ("strides", "dilations", "low", "groups"))
    lines = zip(x.shape[2:], y.shape[2:], params["kernel"], strides, dilations, low, strict=True)
    high = [(n - 1) * stride + (taps - 1) * step + 1 - own - size for size, n, taps, stride, step, own in lines]
    window = {"strides": strides, "dilations": dilations, "low": low, "high": high, "groups": groups}
    ones = [1] * len(low)
    return [
        _of_image(x, w, y, spread=ones, **window) if wanted[0] else None,
        p.conv_general(x, w, spread=ones, **window) if wanted[1] else None,
    ]


RULES: dict[str, Rule] = {"conv_general": _conv_general, "conv_weights": _conv_weights}
