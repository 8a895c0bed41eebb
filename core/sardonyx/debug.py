"""What `SARDONYX_DEBUG` prints, to standard error: 1 placement, 2 times, 3 rewrites, 4 generated code."""

from __future__ import annotations

import os
import sys

PLACEMENT, TIMES, REWRITES, CODE = 1, 2, 3, 4


def level() -> int:
    """The number in `SARDONYX_DEBUG`, 0 if there is none."""
    text = os.environ.get("SARDONYX_DEBUG", "0")
    return int(text) if text.isdigit() else 0


def say(needed: int, text: str) -> None:
    """Print a line if the level asks for it."""
    if level() >= needed:
        print(f"sardonyx: {text}", file=sys.stderr)
