"""What holds memory that nobody needs just now, and gives it back where a device has none left."""

from __future__ import annotations

import weakref
from typing import Protocol


class Holder(Protocol):
    """What keeps memory for later use."""

    def shrink(self) -> None:
        """Give it back; any thread may ask at any time."""
        ...


_holders: weakref.WeakSet[Holder] = weakref.WeakSet()


def register(holder: Holder) -> None:
    """Ask it, too, as long as it lives."""
    _holders.add(holder)


def relieve() -> None:
    """Have all give back what they can do without."""
    for holder in list(_holders):
        holder.shrink()
