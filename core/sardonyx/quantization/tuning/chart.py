"""Where the marks of a chart go: across in percent, so that a drawing is as wide as there is room; down in pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from sardonyx.quantization.tuning.facts import METRICS

HEIGHT = 220
"""Pixels of a chart's plot."""
TOP = 60.0
"""Decibels that reach the top: more is as good."""
ROOM = 6.0
"""Percent beside the outermost marks, and pixels above and below."""


def layer_chart(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bars of the signal-to-noise ratio of each layer in the graph's order, and dots where it is alone."""
    measured = [layer for layer in layers if layer["snr"] is not None]
    bars = []
    for number, layer in enumerate(measured):
        tall = _height(layer["snr"])
        title = f"{layer['operator']} {layer['node']}: {METRICS['snr'].text(layer['snr'])}"
        title += ", in float" if layer["state"] == "float" else ""
        alone = None
        if layer["alone"] is not None:
            title += f"; alone {METRICS['snr'].text(layer['alone'])}"
            alone = HEIGHT - _height(layer["alone"])
        width = 100 / len(measured)
        bars.append(
            {
                "x": round(number * width, 3),
                "width": round(width * 0.82, 3),
                "middle": round((number + 0.41) * width, 3),
                "y": HEIGHT - tall,
                "height": tall,
                "state": layer["state"],
                "title": title,
                "alone": alone,
            }
        )
    ticks = [{"y": HEIGHT - _height(value), "text": f"{value:g}"} for value in (0, 20, 40, 60)]
    return {"bars": bars, "ticks": ticks, "height": HEIGHT, "has_alone": any(bar["alone"] is not None for bar in bars)}


def _height(ratio: float) -> float:
    return round(HEIGHT * min(max(ratio, 0.0), TOP) / TOP, 1) or 1.0


def front_chart(
    variants: Sequence[Mapping[str, Any]],
    across: str,
    metric: str,
    wanted: Sequence[float],
    text: Callable[[float], str],
) -> dict[str, Any]:
    """Points of variants by what they cost (`across`) and a metric; those that nothing beats in both are the front.

    Values that are `wanted` of the metric are lines.
    """
    shown = [each for each in variants if each[metric] is not None]
    costs, values = [each[across] for each in shown], [each[metric] for each in shown]
    xs, ys = _axis(costs), _axis([*values, *wanted])
    points = []
    for each in shown:
        beaten = any(
            other[across] <= each[across]
            and other[metric] >= each[metric]
            and (other[across], other[metric]) != (each[across], each[metric])
            for other in shown
        )
        points.append(
            {
                "x": round(ROOM + (100 - 2 * ROOM) * _place(each[across], xs), 3),
                "y": _down(each[metric], ys),
                "front": not beaten,
                "chosen": each["chosen"],
                "original": each.get("original", False),
                "title": f"{each['label']}: {text(each[across])}, {each[metric]:.4g}",
            }
        )
    return {
        "points": sorted(points, key=lambda point: (point["chosen"], point["front"])),
        "across": [{"x": round(ROOM + (100 - 2 * ROOM) * _place(v, xs), 3), "text": text(v)} for v in (xs[0], xs[-1])],
        "ticks": [{"y": _down(value, ys), "text": f"{value:.4g}"} for value in ys],
        "wanted": [_down(value, ys) for value in wanted],
        "height": HEIGHT,
    }


def _down(value: float, axis: Sequence[float]) -> float:
    return round(HEIGHT - ROOM - (HEIGHT - 2 * ROOM) * _place(value, axis), 1)


def _axis(values: Sequence[float]) -> list[float]:
    """Round values from below the least to above the largest, three to six of them.

    >>> _axis([0.913, 0.998]), _axis([5.0, 5.0])
    ([0.9, 0.95, 1.0], [4.5, 5.0, 5.5])
    """
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        low, high = low - max(abs(low) * 0.1, 1e-9), high + max(abs(high) * 0.1, 1e-9)
    rough = (high - low) / 3
    power = 10.0 ** floor(log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _place(value: float, axis: Sequence[float]) -> float:
    return (value - axis[0]) / (axis[-1] - axis[0])
