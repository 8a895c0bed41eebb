"""Frames in a terminal: a character is two pixels, one above the other, in their colours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

import numpy as np

from sardonyx.cli.sightings import boxes, drawn, words
from sardonyx.cli.tally import Tally
from sardonyx.cli.text import clean, elided_end
from sardonyx.vision import Seen, Watcher
from sardonyx.vision.drawing import color_of
from sardonyx.vision.watcher import Viewer

Color: TypeAlias = tuple[int, int, int]
Cell: TypeAlias = tuple[str, Color, Color]
"""A character, its ink and its ground."""

HALF = "▀"
INK: Color = (255, 255, 255)
UNDER = 2
"""Lines below the picture."""
BEGIN, END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""A screen of one's own without a cursor, and back."""
HOME, REST, BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
"""To the upper left corner; what is left of a line, and of the screen, is emptied."""
ROW = f"\r\n{REST}"
PLAIN, BOLD, FAINT = "\x1b[0m", "\x1b[1m", "\x1b[2m"
STEP = 8
"""Levels are rounded to multiples, so that neighbours are alike more often."""


def fitted(height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
    """The size in pixels, an even number of rows, that a picture has on so many rows and columns of characters.

    >>> fitted(480, 640, 22, 80), fitted(1080, 1920, 40, 80)
    ((44, 59), (44, 80))
    """
    scale = min(2 * rows / height, columns / width)
    return max(2, 2 * round(scale * height / 2)), max(1, round(scale * width))


def cells(seen: Seen, viewer: Viewer | None, rows: int, columns: int) -> list[list[Cell]]:
    """A frame as lines of characters, with labels where boxes begin."""
    height, width = fitted(seen.frame.shape[0], seen.frame.shape[1], rows, columns)
    pixels = drawn(seen, viewer, height, width).astype(np.int64)
    levels = ((pixels + STEP // 2) // STEP * STEP).clip(0, 255).tolist()
    lines: list[list[Cell]] = [
        [(HALF, (*upper,), (*lower,)) for upper, lower in zip(levels[2 * k], levels[2 * k + 1])]
        for k in range(height // 2)
    ]
    scale = width / seen.frame.shape[1]
    for each in reversed(boxes(seen, viewer)):
        left, top = (max(0, int(scale * side)) for side in each.box[:2])
        line = lines[min(top // 2, len(lines) - 1)]
        text = f" {clean(each.label)} {each.score:.0%} "
        left = max(0, min(left, width - len(text)))
        for place, letter in zip(range(left, width), text):
            line[place] = (letter, INK, color_of(each.number))
    return lines


def printed(lines: Sequence[Sequence[Cell]], width: int, code: Callable[[int, Color], str]) -> Iterator[str]:
    """Lines of cells in the middle of so many columns, as a terminal takes them."""
    margin = " " * ((width - len(lines[0])) // 2)
    for line in lines:
        parts = [margin]
        for (ink, ground), same in groupby(line, lambda cell: cell[1:]):
            parts.append(f"\x1b[{code(38, ink)};{code(48, ground)}m{''.join(cell[0] for cell in same)}")
        yield "".join([*parts, PLAIN])


def exact(layer: int, color: Color) -> str:
    """The code of a colour in 24 bits; `layer` is 38 for ink, 48 for the ground."""
    return f"{layer};2;{color[0]};{color[1]};{color[2]}"


def indexed(layer: int, color: Color) -> str:
    """The code of the next of 216 colours, which all terminals have that have 256.

    >>> indexed(38, (255, 0, 0))
    '38;5;196'
    """
    red, green, blue = (0 if part < 48 else 1 if part < 115 else (part - 35) // 40 for part in color)
    return f"{layer};5;{16 + 36 * red + 6 * green + blue}"


def show(watcher: Watcher, tally: Tally) -> None:
    """Frames one after another on the whole terminal, which is given back at the end."""
    code = exact if os.environ.get("COLORTERM") in ("truecolor", "24bit") else indexed
    out = sys.stdout
    out.write(BEGIN)
    try:
        for seen in watcher:
            tally.note(seen)
            size = shutil.get_terminal_size()
            lines = [
                *printed(cells(seen, watcher.viewer, max(1, size.lines - UNDER), size.columns), size.columns, code)
            ]
            told = clean(", ".join(words(seen, watcher.viewer)) or "nothing")
            lines.append(f"{BOLD}{elided_end(told, size.columns)}{PLAIN}")
            status = elided_end(f"{tally.status(seen)} · Ctrl+C ends", size.columns)
            out.write(f"{HOME}{REST}{ROW.join(lines)}{ROW}{FAINT}{status}{PLAIN}{BELOW}")
            out.flush()
    finally:
        out.write(END)
        out.flush()
