"""Strings by number: inside, a tensor of strings is a tensor of int32 ids.

Equal strings have equal ids, so that whatever moves or compares elements works on them unchanged, on every device. What
a model's constants say has ids from 0 on in a `StringTable`, which a session owns and its plans store; 0 is the empty
string. What else turns up in a run, in its inputs or in the results of host functions, has ids from -1 down in that
run's `RunStrings`, and is forgotten with it.

>>> run = RunStrings(StringTable(["", "cat"]))
>>> ids = run.encode(np.array(["cat", "dog", "", "dog"]))
>>> ids, run.decode(ids)
(array([ 1, -1,  0, -1], dtype=int32), array(['cat', 'dog', '', 'dog'], dtype=object))
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from sardonyx.common.forks import Whole
from sardonyx.errors import RuntimeException


class Strings(Protocol):
    """What gives strings their ids."""

    def encode(self, texts: np.ndarray) -> np.ndarray:
        """int32: the ids of an array of str, bytes (UTF-8) or objects (whose `str` is taken); adds what is new."""
        ...

    def decode(self, ids: np.ndarray) -> np.ndarray:
        """The array of str, of dtype object, that has these ids."""
        ...


class StringTable(dict[str, int]):
    """The strings of a model; append-only. `with table:` makes it the one that constants are entered in."""

    def __init__(self, texts: Iterable[str] = ("",)) -> None:
        super().__init__()
        self._texts: list[str] = []
        self._lock = threading.Lock()
        for text in texts:
            self.__missing__(text)

    def __missing__(self, text: str) -> int:
        with Whole(), self._lock:
            if text not in self:
                self._texts.append(text)
                self[text] = len(self._texts) - 1
        return self[text]

    @property
    def texts(self) -> Sequence[str]:
        """All strings in the order of their ids; the list grows with the table."""
        return self._texts

    def encode(self, texts: np.ndarray) -> np.ndarray:
        return np.array([self[text] for text in _flat(texts)], np.int32).reshape(texts.shape)

    def decode(self, ids: np.ndarray) -> np.ndarray:
        return _objects(list(map(self._texts.__getitem__, ids.reshape(-1).tolist())), ids.shape)

    def __enter__(self) -> StringTable:
        _active.__dict__.setdefault("stack", []).append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.stack.pop()


class StaleStringsError(Exception):
    """A plan that was made during a run has constants to which the run gave other ids; it must start again."""


class RunStrings(dict[str, int]):
    """The strings of one run over those of its model; for one thread."""

    def __init__(self, table: StringTable) -> None:
        super().__init__()
        self._table = table
        self._seen = len(table)
        self._texts: list[str] = []

    def __missing__(self, text: str) -> int:
        self._texts.append(text)
        number = self[text] = -len(self._texts)
        return number

    def check(self) -> None:
        """To be called before a plan is used. Raises `StaleStringsError` if its table has taken in a string of here."""
        if len(self._table) > self._seen:
            self._seen = len(self._table)
            if any(text in self._table for text in self._texts):
                raise StaleStringsError

    def encode(self, texts: np.ndarray) -> np.ndarray:
        flat = _flat(texts)
        numbers = list(map(self._table.get, flat))
        if len(self._table) > self._seen:  # what has a number of this run keeps it
            numbers = list(map(self.get, flat, numbers))
        if None in numbers:
            numbers = [self[text] if number is None else number for text, number in zip(flat, numbers)]
        return np.array(numbers, np.int32).reshape(texts.shape)

    def decode(self, ids: np.ndarray) -> np.ndarray:
        table, own = self._table.texts, self._texts
        try:
            return _objects([table[k] if k >= 0 else own[~k] for k in ids.reshape(-1).tolist()], ids.shape)
        except IndexError:
            raise RuntimeException("a result has strings that nothing gave: the bundle is wrong") from None


_active = threading.local()


def active_strings() -> StringTable | None:
    """The table that this thread entered last."""
    stack: list[StringTable] = _active.__dict__.get("stack") or []
    return stack[-1] if stack else None


def _text(item: object) -> str:
    return item.decode(errors="surrogateescape") if isinstance(item, bytes) else str(item)


def _flat(texts: np.ndarray) -> list[str]:
    """All strings of an array."""
    items = texts.reshape(-1).tolist()
    return items if {str}.issuperset(map(type, items)) else list(map(_text, items))


def _objects(items: list[str], shape: tuple[int, ...]) -> np.ndarray:
    result = np.empty(len(items), object)
    result[:] = items
    return result.reshape(shape)
