"""Sizes that a plan stores once, however many buffers have them: a list of terms, which sizes name by their place.

A size in a stored plan is an integer, a symbol, or `@3` for the fourth term. A term is `[operator, size, ...]` and may
name terms before it. So what a reader must look at grows with the plan, not with how deep its sizes are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sardonyx.errors import UnsoundError

DEEP = 64
"""The most levels of a size: the functions that walk and compile sizes recurse."""
LONG = 10_000
"""The most integers and symbols in a size; those of a term count each time that the term is named."""


class Terms:
    """Terms under construction.

    >>> terms = Terms()
    >>> terms.name(["+", 1, ["*", 2, "s0"]]), terms.name(["*", 2, "s0"]), terms.name(7)
    ('@1', '@0', 7)
    >>> terms.listed
    [['*', 2, 's0'], ['+', 1, '@0']]
    """

    def __init__(self) -> None:
        self.listed: list[list[Any]] = []
        self._places: dict[tuple[Any, ...], str] = {}
        self._by_id: dict[int, tuple[str, Any]] = {}

    def name(self, size: Any) -> Any:
        """The stored form of a size: an integer, a symbol, or the name of a term."""
        if not isinstance(size, list):
            return size
        if id(size) not in self._by_id:  # compilers share them
            term = (size[0], *map(self.name, size[1:]))
            if term not in self._places:
                self._places[term] = f"@{len(self.listed)}"
                self.listed.append(list(term))
            self._by_id[id(size)] = self._places[term], size
        return self._by_id[id(size)][0]

    def names(self, sizes: Iterable[Any]) -> list[Any]:
        return list(map(self.name, sizes))


def resolved(listed: Sequence[list[Any]]) -> dict[Any, Any]:
    """The sizes of terms by name; a size that names a term holds that term's list. Changes `listed` in place.

    Raises UnsoundError where sizes would nest too deep, or be too long. What they consist of is checked by
    `sardonyx.plans.soundness`; a name that is not known yet stays a symbol, which nothing tells.

    >>> resolved([["*", 2, "s0"], ["+", 1, "@0"]])
    {'@0': ['*', 2, 's0'], '@1': ['+', 1, ['*', 2, 's0']]}
    """
    terms: dict[Any, Any] = {}
    deep: dict[Any, int] = {}
    long: dict[Any, int] = {}
    for number, term in enumerate(listed):
        sizes = term[1:]
        name = f"@{number}"
        deep[name] = depth = 1 + max([deep.get(size, 0) for size in sizes])
        long[name] = length = sum([long.get(size, 1) for size in sizes])
        if depth > DEEP or length > LONG:
            raise UnsoundError(f"the size {str(term)[:60]} nests too deep, or is too long")
        term[1:] = [terms.get(size, size) for size in sizes]
        terms[name] = term
    return terms
