"""What `SARDONYX_DEBUG` prints, to standard error: 1 placement, 2 times, 3 rewrites, 4 generated code."""

from __future__ import annotations

import os
import sys
import warnings

PLACEMENT, TIMES, REWRITES, CODE = 1, 2, 3, 4
VERBOSE, INFO, WARNING, ERROR = 0, 1, 2, 3

severity = WARNING
"""What onnxruntime's loggers would print at least: `WARNING` and below let `warn_once` warn, `INFO` and `VERBOSE` print
placement and times."""
_warned: set[str] = set()
_INSIDE = frozenset({"sardonyx", "sardonyx_wasm", "sardonyx_webgpu", "contextlib", "functools"})
"""Packages whose lines are not those of a user."""


def level() -> int:
    """The number in `SARDONYX_DEBUG`, or what follows from the severity where that is more."""
    text = os.environ.get("SARDONYX_DEBUG", "0")
    asked = int(text) if text.isdigit() else 0
    return max(asked, {VERBOSE: TIMES, INFO: PLACEMENT}.get(severity, 0))


def warn_once(text: str, own: int = -1) -> None:
    """Warn of what has no effect here, once in a process; `own` is a session's severity, -1 where it has none."""
    if text not in _warned and (severity if own < 0 else own) <= WARNING:
        _warned.add(text)
        warn(text)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package, whatever is between."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INSIDE:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def say(needed: int, text: str) -> None:
    """Print a line if the level asks for it."""
    if level() >= needed:
        print(f"sardonyx: {text}", file=sys.stderr)
