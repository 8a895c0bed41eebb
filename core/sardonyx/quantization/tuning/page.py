"""The report of a run as a page: one file, nothing loaded from elsewhere, no script."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from sardonyx.common import extras
from sardonyx.common.atomic import replacing
from sardonyx.common.units import duration, nbytes
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.quantization.tuning import chart
from sardonyx.quantization.tuning.budget import budget
from sardonyx.quantization.tuning.facts import CORRECTIONS, METRICS, provider_title

WORST = 10
"""Layers that a table names."""
SUFFIXES = (".html", ".json")


def report(facts: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write what `tune` found, `Outcome.facts`, as a page (`.html`, which needs jinja2) or as JSON (`.json`)."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise InvalidArgument(f"report {target}: name a file that ends in {' or '.join(SUFFIXES)}")
    text = page(facts) if target.suffix.lower() == ".html" else json.dumps(facts, indent=2) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(text.encode())


def templates() -> ModuleType:
    """The package that draws pages; Fail says how to install it."""
    try:
        import jinja2
    except ImportError:
        raise Fail(f"a report as HTML: {extras.missing('jinja2')}") from None
    return jinja2


def page(facts: Mapping[str, Any]) -> str:
    """The report as HTML."""
    jinja2 = templates()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "nbytes": nbytes,
        "duration": duration,
        "provider": provider_title,
        "file": lambda text: Path(text).name,
        "decibels": METRICS["snr"].text,
        "short": lambda name, prefix: f"…/{name[len(prefix) :]}" if prefix and name.startswith(prefix) else name,
        "percent": METRICS["agreement"].text,
    }
    template = environment.from_string((files(__package__) / "report.html").read_text("utf-8"))
    measured = [layer for layer in facts["layers"] if layer["snr"] is not None]
    score = facts["score"] or {}
    asked = [budget(text) for text in facts["options"]["budgets"]]
    metric = next((name for name in [*(each.metric for each in asked), *METRICS] if score.get(name) is not None), None)
    text: str = template.render(
        facts=facts,
        worst=sorted(measured, key=lambda layer: layer["snr"])[:WORST],
        layers=chart.layer_chart(facts["layers"]),
        metric=metric,
        figures=METRICS,
        titles=CORRECTIONS,
        fronts=_fronts(facts, metric, [each.least for each in asked if each.metric == metric]) if metric else [],
        prefix=_prefix([layer["node"] for layer in facts["layers"]]),
    )
    return text


def _prefix(names: Sequence[str]) -> str:
    """What all names begin with, up to a slash.

    >>> _prefix(["/model/layer.0/Add", "/model/layer.1/Mul"])
    '/model/'
    """
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = next((k for k, (one, other) in enumerate(zip(first, last)) if one != other), min(len(first), len(last)))
    return first[: first.rfind("/", 0, same) + 1]


def _fronts(facts: Mapping[str, Any], metric: str, wanted: Sequence[float]) -> list[dict[str, Any]]:
    """Two charts of what was tried, by size and by time, with what a budget wants."""
    whole = {"agreement": 1.0, "cosine": 1.0}.get(metric)
    shown = list(facts["variants"])
    by_size = shown
    if whole is not None:
        original = {"label": "the model itself", "bytes": facts["model"]["bytes"], "chosen": False, "original": True}
        by_size = [*shown, original | {metric: whole}]
    return [
        {"title": "Size", "text": "bytes of the file", **chart.front_chart(by_size, "bytes", metric, wanted, _bytes)},
        {
            "title": "Time",
            "text": "the fastest run while searching",
            **chart.front_chart(shown, "seconds", metric, wanted, _time),
        },
    ]


def _bytes(value: float) -> str:
    return nbytes(round(value)) if value > 0 else "0"


def _time(value: float) -> str:
    return duration(value) if value > 0 else "0"
