"""Which nodes stay in float: as few as meet the budget, the most sensitive first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST_BACK = 8
"""Variants that are tried to give nodes back."""

Meets = Callable[[tuple[str, ...]], bool]


def kept_nodes(order: Sequence[str], meets: Meets, most_back: int = MOST_BACK) -> tuple[str, ...] | None:
    """The nodes to keep in float, of all in this order, the most sensitive first; None where no set but all of them
    meets.

    `meets` builds and measures a variant. Prefixes of the order are tried by doubling, then by halving; afterwards
    groups that are not needed are given back, the least sensitive first.

    >>> kept_nodes("abcdefgh", lambda kept: {"b", "e"} <= set(kept))
    ('b', 'e')
    """
    low, high = 0, 1
    while high < len(order) and not meets(tuple(order[:high])):
        low, high = high, 2 * high
    if high >= len(order):
        high = len(order)
    known = high < len(order)
    while high - low > 1:
        middle = (low + high) // 2
        if meets(tuple(order[:middle])):
            high, known = middle, True
        else:
            low = middle
    if not known:
        return None
    return _given_back(tuple(order[:high]), meets, most_back)


def _given_back(kept: tuple[str, ...], meets: Meets, most: int) -> tuple[str, ...]:
    """What is left of the kept nodes; the last of them is needed, since without it the prefix misses."""
    needed, open_nodes = kept[-1:], kept[:-1]
    size, tried = max(len(open_nodes) // 2, 1), 0
    while open_nodes and tried < most:
        group = open_nodes[-size:]
        rest = open_nodes[: len(open_nodes) - len(group)]
        tried += 1
        if meets(tuple(node for node in kept if node in {*rest, *needed})):
            open_nodes = rest
        elif len(group) == 1:
            open_nodes, needed = rest, (*group, *needed)
        size = max(min(size, len(open_nodes)) // 2, 1)
    return tuple(node for node in kept if node in {*open_nodes, *needed})
