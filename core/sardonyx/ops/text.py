"""Text: operators on tensors of strings. What makes new strings is done by functions of the host."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.host.re2 import compiled, whole
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array

WORDS = np.array([["Ab", " c  d ", ""], ["x,y,,z", "é", ","]], object)


def expect_strings(x: Array) -> None:
    if x.dtype is not dtypes.string:
        raise TypeError(f"strings are needed, not {x.dtype}")


def expect_pattern(pattern: str, read: Callable[[str], object] = compiled) -> None:
    try:
        read(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression as Python knows them: {error}") from error


class StringConcat(Operator, since=20):
    """Each string of X followed by the one of Y, broadcast."""

    def expand(self, x: Array, y: Array) -> Array:
        expect_strings(x)
        expect_strings(y)
        shape = p.broadcast_shapes(x.shape, y.shape)
        return p.host("text.concat", x, y, results=[(dtypes.string, shape)])[0]

    samples = [
        sample(WORDS, np.array(["1", "", "é"], object)),
        sample(WORDS[:, :1], np.array("!", object)),
        sample(np.zeros((0, 2), object), np.array(["a", "b"], object)),
    ]


class StringSplit(Operator, since=20):
    """The parts of each string between delimiters, or white space, filled up with empty ones, and their numbers."""

    delimiter: str | None = None
    maxsplit: int | None = None

    def expand(self, x: Array) -> tuple[Array, ...]:
        expect_strings(x)
        results = [(dtypes.string, (*x.shape, None)), (dtypes.int64, x.shape)]
        most = -1 if self.maxsplit is None else self.maxsplit
        return p.host("text.split", x, results=results, delimiter=self.delimiter or None, most=most)

    samples = [
        sample(WORDS, outputs=2),
        sample(WORDS[1], delimiter=",", outputs=2),
        sample(WORDS[1], delimiter=",", maxsplit=1, outputs=2),
    ]


class StringNormalizer(Operator, since=10):
    """The strings of a line without the stop words, in upper or lower case if so wished; `locale` has no effect."""

    case_change_action: str = "NONE"
    is_case_sensitive: int = 0
    locale: str = ""
    stopwords: tuple[str, ...] = ()

    def expand(self, x: Array) -> Array:
        expect_strings(x)
        if self.case_change_action not in ("NONE", "LOWER", "UPPER"):
            raise ValueError(f"case_change_action is {self.case_change_action!r}; use NONE, LOWER or UPPER")
        if x.rank not in (1, 2) or (x.rank == 2 and x.shape[0] != 1):
            raise ValueError(f"x is {p.show(x.shape)}, but [C] or [1,C] is needed")
        size = x.shape[-1] if not self.stopwords and x.shape[-1] > 0 else None  # of nothing, an empty string is left
        return p.host(
            "text.normalize",
            x,
            results=[(dtypes.string, (*x.shape[:-1], size))],
            case=self.case_change_action,
            exact=bool(self.is_case_sensitive),
            without=list(self.stopwords),
        )[0]

    samples = [
        sample(np.array(["monday", "Tuesday"], object), stopwords=["Monday"], case_change_action="UPPER", locale="C"),
        sample(np.array(["monday", "Monday"], object), stopwords=["Monday"], is_case_sensitive=1, locale="C"),
        sample(np.array(["monday", "Tuesday"], object), case_change_action="LOWER", locale="C"),
        sample(np.array(["a", "A"], object), stopwords=["a"], locale="C"),
    ]


class RegexFullMatch(Operator, since=20):
    """Whether the whole string matches a regular expression (RE2's syntax, as far as Python's `re` has it)."""

    pattern: str

    def expand(self, x: Array) -> Array:
        expect_strings(x)
        expect_pattern(self.pattern, whole)
        return p.host("text.matches", x, results=[(dtypes.bool_, x.shape)], pattern=self.pattern)[0]

    samples = [
        sample(np.array([["www.a.com", "a.com"], ["", "www.aXcom"]], object), pattern=r"www\.\w+\.com"),
        sample(np.zeros((0,), object), pattern="a*"),
    ]
