"""Functions of the host that make or take strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from sardonyx.code import scalar
from sardonyx.common import dtypes
from sardonyx.host import host_function
from sardonyx.host.re2 import compiled, whole


@host_function("text.from_numbers")
def from_numbers(x: np.ndarray) -> np.ndarray:
    """Numbers in decimal: floats with 8 significant digits as C's `%.8g` writes them, `NaN`, `INF`; bools as 1 and 0.

    >>> from_numbers(np.array([5, 0.1, 1e-5, np.inf], np.float32)).tolist()
    ['5', '0.1', '9.9999997e-06', 'INF']
    """
    items = x.reshape(-1).tolist()
    if x.dtype.kind == "f":
        special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
        texts = [special.get(text, text) for text in (f"{item:.8g}" for item in items)]
    else:
        texts = [str(int(item)) for item in items]
    return np.array(texts, object).reshape(x.shape)


@host_function("text.fixed")
def fixed(x: np.ndarray) -> np.ndarray:
    """Floats with six decimal places, as C's `%f` writes them."""
    return np.array([f"{item:f}" for item in x.reshape(-1).tolist()], object).reshape(x.shape)


@host_function("text.to_numbers")
def to_numbers(x: np.ndarray, *, type: str) -> np.ndarray:
    """The numbers of this type that strings say; integers wrap, and what has a fraction loses it.

    ValueError for what is no number.
    """
    dtype = dtypes.by_name(type).storage
    items = x.reshape(-1).tolist()
    if dtype.kind == "f":
        numbers = np.array([float(item) for item in items], np.float64)
    else:
        numbers = np.array([_integer(item) & 0xFFFFFFFFFFFFFFFF for item in items], np.uint64)
    result: np.ndarray = scalar.cast(numbers, dtype).reshape(x.shape)
    return result


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _each(function: Callable[[str], Any], x: np.ndarray, dtype: Any = object) -> np.ndarray:
    result = np.empty(x.size, dtype)
    result[:] = [function(item) for item in x.reshape(-1).tolist()]
    return result.reshape(x.shape)


def _rows(rows: Sequence[Sequence[str]], shape: tuple[int, ...], filler: str) -> np.ndarray:
    """Lists of strings along a new last axis, the shorter ones filled up."""
    width = max(map(len, rows), default=0)
    result = np.empty(len(rows) * width, object)
    result[:] = [item for row in rows for item in (*row, *[filler] * (width - len(row)))]
    return result.reshape(*shape, width)


@host_function("text.rank")
def rank(x: np.ndarray) -> np.ndarray:
    """Of each string how many different ones come before it, by code points."""
    items = x.reshape(-1).tolist()
    ranks = {item: number for number, item in enumerate(sorted(set(items)))}
    return np.array([ranks[item] for item in items], np.int64).reshape(x.shape)


@host_function("text.concat")
def concat(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Corresponding strings joined, broadcast."""
    return np.asarray(x + y, object)


@host_function("text.split")
def split(x: np.ndarray, *, delimiter: str | None, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The parts between delimiters, or white space if that is None, and their number; at most `most` splits if >= 0."""
    rows = [
        item.strip().split(None, most) if delimiter is None else item.split(delimiter, most)
        for item in x.reshape(-1).tolist()
    ]
    counts = np.array([len(row) for row in rows], np.int64).reshape(x.shape)
    return _rows(rows, x.shape, ""), counts


@host_function("text.normalize")
def normalize(x: np.ndarray, *, case: str, exact: bool, without: Sequence[str]) -> np.ndarray:
    """A line without stop words, compared exactly or without regard to case, in `case`; at least one empty string."""
    change: Callable[[str], str] = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    compared: Callable[[str], str] = str if exact else str.lower
    items, stop = x.reshape(-1).tolist(), set(map(compared, without))
    words = list(map(change, [item for item in items if compared(item) not in stop] if stop else items))
    return _rows([words or [""]], x.shape[:-1], "")


@host_function("text.matches")
def matches(x: np.ndarray, *, pattern: str) -> np.ndarray:
    """Whether the whole of each string matches; classes such as `\\w` are those of ASCII, as in RE2."""
    return _each(whole(pattern), x, bool)


@host_function("text.tokenize")
def tokenize(
    x: np.ndarray, *, separators: Sequence[str], token: str, least: int, mark: bool, filler: str
) -> np.ndarray:
    """The tokens of each string of at least `least` characters: matches of `token`, or what is between separators.

    With an empty separator they are the characters. `mark` puts STX before and ETX behind them, unless there are none
    at all.
    """
    cut, least = _cut(tuple(separators), token), max(least, 1)
    rows = [[part for part in cut(item) if len(part) >= least] for item in x.reshape(-1).tolist()]
    if mark and any(rows):
        rows = [["\x02", *row, "\x03"] for row in rows]
    return _rows(rows, x.shape, filler)


@cache
def _cut(separators: tuple[str, ...], token: str) -> Callable[[str], list[str]]:
    """The function that splits a string into tokens."""
    if token:
        regex = compiled(token)
        return (lambda text: [match.group() for match in regex.finditer(text)]) if regex.groups else regex.findall
    if "" in separators:
        return list
    patterns = list(map(compiled, separators))

    def split_by_all(text: str) -> list[str]:
        parts = [text]
        for pattern in patterns:
            parts = [part for whole in parts for part in _between(pattern, whole)]
        return parts

    return split_by_all


def _between(separator: re.Pattern[str], text: str) -> list[str]:
    edges = [edge for match in separator.finditer(text) for edge in match.span()]
    return [text[start:end] for start, end in zip([0, *edges[1::2]], [*edges[::2], len(text)], strict=True)]


@host_function("text.murmur")
def murmur(x: np.ndarray, *, seed: int) -> np.ndarray:
    """The hash uint32 of each string's UTF-8 (MurmurHash3_x86_32, Appleby)."""
    return _each(lambda item: _murmur(item.encode("utf-8", "surrogateescape"), seed), x, np.uint32)


def _murmur(data: bytes, seed: int) -> int:
    mask, hashed = 0xFFFFFFFF, seed
    for start in range(0, len(data), 4):
        block = data[start : start + 4]
        mixed = int.from_bytes(block, "little") * 0xCC9E2D51 & mask
        mixed = (mixed << 15 | mixed >> 17) * 0x1B873593 & mask
        hashed ^= mixed
        if len(block) == 4:
            hashed = ((hashed << 13 | hashed >> 19) * 5 + 0xE6546B64) & mask
    hashed ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = (hashed ^ hashed >> shift) * factor & mask
    return hashed ^ hashed >> 16
