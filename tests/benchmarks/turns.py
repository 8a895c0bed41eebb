"""Turns: all sides are measured in each round, and who goes first alternates, since the first finds colder caches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def turns(sides: Iterable[T], number: int) -> list[T]:
    """Return the sides in the order of a round.

    >>> turns(["theirs", "ours"], 0), turns(["theirs", "ours"], 1)
    (['theirs', 'ours'], ['ours', 'theirs'])
    """
    order = list(sides)
    return order[::-1] if number % 2 else order
