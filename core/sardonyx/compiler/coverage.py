"""Plans for sizes that a session has not seen: when it has met two, a third is to find its plan there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from sardonyx.compiler.cases import MOST_PLANS, MOST_POINTS
from sardonyx.errors import SardonyxError
from sardonyx.plans.acceptance import holds
from sardonyx.plans.plan import Plan
from sardonyx.runtime.handles import Feed
from sardonyx.sizes.expression import evaluate

LINES = 3
"""The rank of a batch of sequences."""
MOST_FAILURES = 4
"""Combinations that make no sense, after which no other is tried."""


def cover(
    plans: Sequence[Plan],
    feeds: Sequence[Feed],
    before: Sequence[tuple[int, ...]],
    compiled: Callable[[Sequence[Feed]], Plan],
) -> list[Plan]:
    """Plans beside these, the first of which holds for the feeds, for the same inputs with one and more of everything,
    and with sizes as in the shapes `before`.

    `compiled` makes the plan for feeds. Elements that decide are those of the feeds, where their shapes stay.
    """
    latest, found = plans[0], list(plans)
    places = {name: places[0] for name, places in latest.symbols.items()}
    own = {name: feeds[number].shape[axis] for name, (number, axis) in places.items()}
    earlier = {name: before[number][axis] for name, (number, axis) in places.items() if axis < len(before[number])}
    told = {name for port in latest.inputs for name in port.symbols}
    if any(told & {str(size) for size in port.shape} for port in latest.inputs):
        return []
    choices = [
        dict.fromkeys((number, earlier.get(name, number), *_others(latest, name, number)))
        for name, number in own.items()
    ]
    failures = 0
    for _, point in zip(range(MOST_POINTS), product(*choices)):
        symbols = dict(zip(own, point, strict=True))
        shapes = [tuple(evaluate(size, symbols) for size in port.shape) for port in latest.inputs]
        if any(holds(plan, shapes) for plan in found):
            continue
        if len(found) >= MOST_PLANS or failures == MOST_FAILURES:
            break
        try:
            found.append(compiled([_alike(feed, shape) for feed, shape in zip(feeds, shapes, strict=True)]))
        except SardonyxError:
            failures += 1
    return found[len(plans) :]


def _others(plan: Plan, symbol: str, number: int) -> list[int]:
    """More and one of a size. Pictures and caches, of which there is nothing but the first axis, are never one wide."""
    ranks = [(len(plan.inputs[place].shape), axis) for place, axis in plan.symbols[symbol]]
    return [max(number, 2), 1] if any(rank <= LINES or axis == 0 for rank, axis in ranks) else []


def _alike(feed: Feed, shape: tuple[int, ...]) -> Feed:
    """A feed of another shape, which is without memory."""
    return feed if feed.shape == shape else np.broadcast_to(np.zeros((), feed.dtype), shape)
