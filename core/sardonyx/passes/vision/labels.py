"""The names of classes, as models tell them in their metadata."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

KEY = "sardonyx.labels"
"""Where this package writes them: a list in JSON."""
KEYS = (KEY, "names", "labels", "classes", "id2label")
"""Where exporters write them: ultralytics a dict in Python's form as `names`."""


def labels_of(metadata: Mapping[str, str]) -> list[str]:
    """The names of classes by their numbers, [] where the metadata has none.

    >>> labels_of({"names": "{0: 'cat', 1: 'dog'}"}), labels_of({"labels": '["a", "b"]'}), labels_of({"labels": "a,b"})
    (['cat', 'dog'], ['a', 'b'], ['a', 'b'])
    """
    for key in KEYS:
        if key in metadata and (found := _listed(metadata[key])):
            return found
    return []


def literal(text: str) -> Any:
    """What a text says in JSON, or as a literal of Python; None where it is neither."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _listed(text: str) -> list[str]:
    told = literal(text)
    if isinstance(told, dict):
        try:
            numbered = {int(number): str(name) for number, name in told.items()}
        except ValueError:
            return []
        return [numbered[k] for k in range(len(numbered))] if sorted(numbered) == [*range(len(numbered))] else []
    if isinstance(told, (list, tuple)):
        return [str(name) for name in told]
    return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()] if told is None else []
