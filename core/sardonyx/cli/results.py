"""Outputs of a model, as a person reads them."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.cli.files import contents
from sardonyx.cli.screen import Screen
from sardonyx.cli.text import figure, number, shape
from sardonyx.errors import InvalidArgument

TOP = 5
FEW = 8
"""Elements up to which an output is shown as it is."""
SCORED = ("logit", "score", "prob", "class", "label")
"""What names of outputs hold that are scores of classes, though they do not add up to 1."""


def summary(name: str, item: Any, labels: Sequence[str] = (), top: int | None = None) -> dict[str, Any]:
    """Shape, extremes and mean of an output; its values where they are few, the largest where they score classes.

    Of these there are `top`, which asks for them of whatever can be scores.

    >>> summary("y", np.array([[0.25, 0.75]], np.float32), ["cat", "dog"])["top"]
    [{'index': 1, 'label': 'dog', 'probability': 0.75}, {'index': 0, 'label': 'cat', 'probability': 0.25}]
    """
    facts: dict[str, Any] = {"shape": None, "min": None, "max": None, "mean": None, "values": None, "top": []}
    if not isinstance(item, np.ndarray):
        return {**facts, **_of_structure(item, TOP if top is None else top)}
    facts["shape"] = list(item.shape)
    if item.dtype.kind in "OU":
        return {**facts, "values": [str(text) for text in item.reshape(-1)[:FEW].tolist()]}
    if not item.size or item.dtype.kind == "c":
        return facts
    values = item.astype(np.float64)
    with np.errstate(all="ignore"):
        facts.update(zip(("min", "max", "mean"), map(number, (values.min(), values.max(), values.mean()))))
    if item.size <= FEW:
        facts["values"] = [number(value) if item.dtype.kind not in "biu" else int(value) for value in item.reshape(-1)]
    return {**facts, "top": _top(name, item, values.reshape(-1), labels, top)}


def _top(name: str, item: np.ndarray, row: np.ndarray, labels: Sequence[str], top: int | None) -> list[dict[str, Any]]:
    """The largest entries of a vector that looks like probabilities, or like scores of classes."""
    if item.dtype.kind in "biu" or not item.ndim or not row.size == item.shape[-1] > 1 or not np.isfinite(row).all():
        return []
    probable = row.min() >= 0 and abs(row.sum() - 1) < 1e-2
    known = len(labels) == row.size
    if top is None and not probable and not known and not any(word in name.lower() for word in SCORED):
        return []
    kind = "probability" if probable else "score"
    return [
        {"index": index, "label": labels[index] if known else None, kind: float(row[index])}
        for index in np.argsort(-row, kind="stable")[: TOP if top is None else top].tolist()
    ]


def _of_structure(item: Any, top: int) -> dict[str, Any]:
    """What a sequence or a map holds; of maps from classes to numbers the largest entries of the first."""
    if item is None:
        return {"shape": []}
    first = item[0] if isinstance(item, list) and item else item
    summary: dict[str, Any] = {"shape": [len(item)]}
    if isinstance(first, dict):
        pairs = sorted(
            ((key, value) for key, value in first.items() if isinstance(value, (int, float))), key=lambda p: -p[1]
        )
        total = sum(value for _, value in pairs)
        kind = "probability" if abs(total - 1) < 1e-2 else "score"
        summary["top"] = [{"index": None, "label": str(key), kind: float(value)} for key, value in pairs[:top]]
    return summary


def labels(metadata: Mapping[str, str]) -> list[str]:
    """The names of classes that a model's metadata lists, between commas or as a literal of Python.

    >>> labels({"names": "{0: 'cat', 1: 'dog'}"}), labels({"classes": "cat,dog"})
    (['cat', 'dog'], ['cat', 'dog'])
    """
    text = next((metadata[key] for key in ("classes", "names", "labels", "id2label") if key in metadata), "")
    if text[:1] not in ("{", "["):
        return [part.strip() for part in text.split(",")] if text else []
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return []
    return list(map(str, names.values() if isinstance(names, dict) else names))


def listed(path: Path) -> list[str]:
    """The names of classes in a file: a line for each, or JSON, a list or a dictionary by their numbers.

    Raises InvalidArgument where it is neither.
    """
    data = contents(path)
    try:
        text = data.decode("utf-8-sig")
        if path.suffix.lower() != ".json":
            return text.rstrip().splitlines()
        names = json.loads(text)
        if isinstance(names, dict):
            names = [names[key] for key in sorted(names, key=int)]
        if not isinstance(names, list):
            raise ValueError("it holds no list, and no dictionary by numbers")
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"--labels {path}: these are no names of classes: {error}") from error
    return [str(each[-1] if isinstance(each, list) and each else each) for each in names]


def render(screen: Screen, outputs: Sequence[Mapping[str, Any]]) -> None:
    numbers = ["min", "mean", "max"] if any(item["min"] is not None for item in outputs) else []
    screen.table(
        ["Name", "Type", "Shape", *(f">{name.capitalize()}" for name in numbers)],
        [[item["name"], item["type"], _shape(item), *(figure(item[name]) for name in numbers)] for item in outputs],
    )
    few = {item["name"]: ", ".join(_value(value) for value in item["values"]) for item in outputs if item["values"]}
    if few:
        screen.heading("Values")
        screen.facts(few)
    for item in outputs:
        if item["top"]:
            kind = "probability" if "probability" in item["top"][0] else "score"
            screen.heading(f"{'Most probable' if kind == 'probability' else 'Highest'} in {item['name']}")
            rows = [
                [top["index"] if top["label"] is None else top["label"], _figure(kind, top[kind])]
                for top in item["top"]
            ]
            screen.table(["Class", f">{kind.capitalize()}"], rows)


def _shape(item: Mapping[str, Any]) -> str:
    if item["shape"] is None or item["type"].startswith("tensor"):
        return shape(item["shape"] or [])
    return f"{item['shape'][0]} of them" if item["shape"] else "none"


def _figure(kind: str, value: float) -> str:
    return f"{value:.2%}" if kind == "probability" else figure(value)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else figure(value)
