"""What commands print: headings, lines, facts and tables, by rich where it is installed, else as aligned text."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sardonyx.cli.text import clean

GAP, RICH_GAP = 2, 3
"""Columns between the columns of a table, and of one that rich draws."""
NARROW = (8, 4)
"""Characters that words in tables keep together, and fewer where the screen is narrower still."""

Data = TypeVar("Data")


class Screen(Protocol):
    """A terminal, or whatever stdout is."""

    width: int

    def heading(self, text: str) -> None:
        """A title, with an empty line before it."""
        ...

    def line(self, text: str, *, quiet: bool = False) -> None:
        """A paragraph, wrapped, or an empty line; `quiet` ones matter less."""
        ...

    def picture(self, lines: Sequence[str]) -> None:
        """Lines that are drawings, printed as they are."""
        ...

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Names and values, one pair to a line; pairs whose value is None or empty are left out."""
        ...

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], bold: Collection[int] = ()) -> None:
        """Rows under titles, those numbered in `bold` stand out; a title that starts with `>` aligns to the right.

        A column without a title is left out where all its cells are empty.
        """
        ...


def show(args: Namespace, data: Data, render: Callable[[Screen, Data], None]) -> None:
    """Print what a command found: as JSON where `--json` asks for it, else as `render` draws it."""
    if args.json:
        print(json.dumps(data, indent=2))
    else:
        render(screen(), data)


def screen() -> Screen:
    """The screen on stdout."""
    stdout = sys.stdout
    if hasattr(stdout, "reconfigure"):  # names in models may hold what a terminal's encoding lacks
        stdout.reconfigure(errors="backslashreplace")
    try:
        import rich  # noqa: F401
    except ImportError:
        return PlainScreen()
    return RichScreen()


@contextmanager
def progress(text: str, total: int, *, hidden: bool = False) -> Iterator[Callable[[], None]]:
    """A bar on stderr while the block runs, if that is a terminal and rich is there; a call is one step of `total`."""
    if hidden or not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)


def draws() -> bool:
    """Whether drawings make sense: stdout is a terminal that has Unicode."""
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")


class PlainScreen:
    """Aligned text, nothing else."""

    def __init__(self) -> None:
        self.width = shutil.get_terminal_size((80, 24)).columns
        self._started = False

    def _print(self, text: str = "") -> None:
        self._started = True
        print(text.rstrip())

    def heading(self, text: str) -> None:
        if self._started:
            self._print()
        self._print(clean(text))
        self._print()

    def line(self, text: str, *, quiet: bool = False) -> None:
        for part in textwrap.wrap(clean(text), self.width, break_on_hyphens=False) or [""]:
            self._print(part)

    def picture(self, lines: Sequence[str]) -> None:
        for part in lines:
            self._print(part)

    def facts(self, facts: Mapping[str, Any]) -> None:
        pairs = present(facts)
        names = max((len(name) for name, _ in pairs), default=0)
        self._rows([(name, value) for name, value in pairs], [names, max(self.width - names - GAP, 8)], [False, False])

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], bold: Collection[int] = ()) -> None:
        columns, rows = filled(columns, rows)
        right = [title.startswith(">") for title in columns]
        cells = [[title.lstrip(">") for title in columns], *rows]
        widths = fitted(columns, rows, self.width, GAP)
        self._rows([*cells[:1], ["-" * width for width in widths], *cells[1:]], widths, right)

    def _rows(self, rows: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]) -> None:
        for row in rows:
            parts = [
                textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
                for cell, width in zip(row, widths, strict=True)
            ]
            for k in range(max(map(len, parts))):
                texts = [part[k] if k < len(part) else "" for part in parts]
                aligned = (
                    text.rjust(width) if end else text.ljust(width)
                    for text, width, end in zip(texts, widths, right, strict=True)
                )
                self._print((" " * GAP).join(aligned))


class RichScreen:
    """The same by rich: bold titles, quiet frames."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, emoji=False, markup=False)
        self.width = self._console.width
        self._started = False

    def _print(self, thing: Any = "", style: str | None = None) -> None:
        self._started = True
        with self._console.capture() as captured:
            self._console.print(thing, style=style)
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))

    def heading(self, text: str) -> None:
        if self._started:
            self._print()
        self._print(clean(text), "bold")
        self._print()

    def line(self, text: str, *, quiet: bool = False) -> None:
        self._print(clean(text), "dim" if quiet else None)

    def picture(self, lines: Sequence[str]) -> None:
        self._started = True
        for part in lines:
            print(part.rstrip())

    def facts(self, facts: Mapping[str, Any]) -> None:
        from rich.table import Table

        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in present(facts):
            table.add_row(name, value)
        self._print(table)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], bold: Collection[int] = ()) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        columns, rows = filled(columns, rows)
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
        widths = fitted(columns, rows, self.width, RICH_GAP)
        for title, width in zip(columns, widths, strict=True):
            side: Any = "right" if title.startswith(">") else "left"
            table.add_column(title.lstrip(">"), justify=side, overflow="fold", width=width)
        for number, row in enumerate(rows):
            table.add_row(*row, style="bold" if number in bold else None)
        self._print(table)


def present(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs that say something."""
    return [(name, clean(value)) for name, value in facts.items() if value is not None and value != ""]


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], total: int, gap: int) -> list[int]:
    """The widths of a table's columns, at most `total` together, if that can be.

    Text is broken at spaces first, then inside of words; what aligns to the right are numbers, and broken last.

    >>> fitted(["Name", "What", ">Count"], [["a_long_name", "some words to wrap", "12,345"]], 28, 2)
    [11, 7, 6]
    """
    lines = list(zip([title.lstrip(">") for title in columns], *rows))
    widths = [max(map(len, line)) for line in lines]
    words = [max((len(word) for cell in line for word in cell.split()), default=0) for line in lines]
    numbers = [title.startswith(">") for title in columns]
    steps = [[word if number else least for word, number in zip(words, numbers)] for least in NARROW]
    for least in (words, *steps, [NARROW[-1]] * len(widths)):
        while sum(widths) + gap * (len(widths) - 1) > total:
            wide = [k for k, width in enumerate(widths) if width > least[k]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def filled(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[str]]]:
    """A table as text, without the columns that say nothing."""
    cells = [[clean(item) for item in row] for row in rows]
    shown = [k for k, title in enumerate(columns) if title or any(row[k] for row in cells)]
    return [columns[k] for k in shown], [[row[k] for k in shown] for row in cells]
