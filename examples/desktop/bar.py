"""A bar of buttons that has room in any window: the keys leave the texts, and rows are added, where they must."""

from __future__ import annotations

from collections.abc import Callable
from tkinter import ttk
from typing import Any, NamedTuple

GAP = 8


class _Item(NamedTuple):
    button: ttk.Button
    text: str
    hint: str
    """The key."""
    atend: bool


class Bar(ttk.Frame):
    """Buttons from left to right; in a single row, those `atend` stand at its right end."""

    def __init__(self, parent: Any, padding: tuple[int, int, int, int]) -> None:
        super().__init__(parent)
        self._around = padding
        self._items: list[_Item] = []
        self._hidden: set[ttk.Button] = set()
        self.bind("<Configure>", lambda _: self._lay())

    def add(self, text: str, hint: str, command: Callable[[], object], atend: bool = False) -> ttk.Button:
        """A new button behind the others."""
        button = ttk.Button(self, text=text, command=command, width=0)
        self._items.append(_Item(button, text, hint, atend))
        return button

    def show(self, button: ttk.Button, shown: bool) -> None:
        """Have a button be there, or not."""
        self._hidden = self._hidden - {button} if shown else self._hidden | {button}
        self._lay()

    def _lay(self) -> None:
        """Give each button its place, and the bar the height of its rows."""
        left, top, right, bottom = self._around
        room = self.winfo_width() - left - right
        items = [item for item in self._items if item.button not in self._hidden]
        for item in self._items:
            if item.button in self._hidden:
                item.button.place_forget()
        for hinted in (True, False):
            for item in items:
                item.button["text"] = f"{item.text}   {item.hint}" if hinted else item.text
            rows = self._rows(items, room)
            if len(rows) == 1:
                break
        y = top
        for row in rows:
            x, spare = left, room - _width(row)
            for item in row:
                if item.atend and len(rows) == 1:
                    x, spare = x + spare, 0
                item.button.place(x=x, y=y)
                x += item.button.winfo_reqwidth() + GAP
            y += max(item.button.winfo_reqheight() for item in row) + GAP
        self.configure(height=y - GAP + bottom)

    def _rows(self, items: list[_Item], room: int) -> list[list[_Item]]:
        """As many in each row as there is room for."""
        rows: list[list[_Item]] = []
        for item in items:
            if rows and _width([*rows[-1], item]) <= room:
                rows[-1].append(item)
            else:
                rows.append([item])
        return rows


def _width(row: list[_Item]) -> int:
    return sum(item.button.winfo_reqwidth() for item in row) + GAP * (len(row) - 1)
