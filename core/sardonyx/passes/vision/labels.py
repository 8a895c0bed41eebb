"""The names of classes, as models tell them in their metadata."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

KEY = "sardonyx.labels"
"""Where this package writes them: a list in JSON."""
KEYS = (KEY, "names", "labels", "classes", "id2label")
"""Where exporters write them: ultralytics a dict in Python's form as `names`."""


def labels_of(metadata: Mapping[str, str]) -> list[str]:
    """The names of classes by their numbers, [] where the metadata has none.

    >>> labels_of({"names": "{0: 'cat', 1: 'dog'}"}), labels_of({"labels": '["a", "b"]'}), labels_of({"labels": "a,b"})
    (['cat', 'dog'], ['a', 'b'], ['a', 'b'])
    >>> labels_of({"labels": "tench, Tinca tinca\\ngoldfish"}), labels_of({"labels": "names:\\n  0: ant\\n  1: bee"})
    (['tench, Tinca tinca', 'goldfish'], ['ant', 'bee'])
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
        return _in_order(told.items())
    if isinstance(told, (list, tuple)):
        return [str(name) for name in told]
    if told is not None:
        return []
    lines = text.splitlines()
    start = next((place for place, line in enumerate(lines) if line.startswith("names:")), None)
    return _of_lines(lines) if start is None else _of_yaml(lines[start:])


def _in_order(pairs: Iterable[Sequence[Any]]) -> list[str]:
    """Names by their numbers, which are 0 to the last; [] where they are not."""
    try:
        numbered = {int(number): str(name) for number, name in pairs}
    except ValueError:
        return []
    return [numbered[k] for k in range(len(numbered))] if sorted(numbered) == [*range(len(numbered))] else []


def _of_lines(lines: Sequence[str]) -> list[str]:
    """A name in each line, after its number if all have one; of a single line between commas."""
    names = [name for line in lines if (name := line.strip().rstrip(",").rstrip())]
    if len(names) == 1:
        return [part.strip() for part in names[0].split(",") if part.strip()]
    numbered = [found.groups() for name in names if (found := re.fullmatch(r"(\d+)[\s:,;]\s*(.+)", name))]
    return (_in_order(numbered) if len(numbered) == len(names) else []) or names


def _of_yaml(lines: Sequence[str]) -> list[str]:
    """What `names:` says in the first of these lines and in those below it that belong to it: a list, or numbers and
    names, as ultralytics' files of data sets have them."""
    flow = _plain(lines[0].removeprefix("names:"))
    entries = [_plain(part) for part in flow.strip("[]{}").split(",")] if flow else []
    for line in lines[1:] if not flow else ():
        if line.strip() and not line.startswith((" ", "\t", "-")):
            break
        entries.append(_plain(line.strip().removeprefix("- ")))
    entries = [entry for entry in entries if entry]
    numbered = [found.groups() for entry in entries if (found := re.fullmatch(r"(\d+)\s*:\s*(.+)", entry))]
    if len(numbered) < len(entries):
        return entries
    return _in_order([(number, _plain(name)) for number, name in numbered])


def _plain(text: str) -> str:
    """A value of YAML without a comment behind it and quotes around it."""
    found = re.sub(r"(^|\s)#.*", "", text).strip()
    return found[1:-1] if len(found) > 1 and found[0] == found[-1] and found[0] in "\"'" else found
