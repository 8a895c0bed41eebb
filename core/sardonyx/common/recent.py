"""Dictionaries that forget what is old."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """What was kept last, `most` of it; for one thread at a time.

    >>> sizes = Recent(2)
    >>> for size in range(4):
    ...     kept = sizes.keep(size, f"{size} rows")
    >>> sizes
    {2: '2 rows', 3: '3 rows'}
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: K, value: V) -> V:
        """Have a value, in the place of the oldest one where there are too many."""
        if len(self) >= self.most and key not in self:
            del self[next(iter(self))]
        self[key] = value
        return value
