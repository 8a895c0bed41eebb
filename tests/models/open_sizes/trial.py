"""A bundle and onnxruntime at the same sizes: whether they agree, or which of them takes the sizes."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnxruntime

import sardonyx
from sardonyx.errors import SardonyxError
from tests.models.half import rounded
from tests.models.oracle import assert_close

from .feeds import feeds_of
from .sizes import OPEN, Sizes, draw

DRAWS = {"wasm": (20, 1.0), "webgpu": (8, 0.1)}
"""How many sizes are drawn for a target, and from which part of them: a processor may play the GPU."""

SEED = 2


class Outcome(enum.Enum):
    """How a bundle did where onnxruntime is the judge."""

    AGREED = "agreed"
    BOTH_REFUSED = "refused by both"
    WE_TAKE_MORE = "refused by onnxruntime alone"
    WE_REFUSED = "refused by us alone"
    WRONG = "wrong"

    @property
    def is_right(self) -> bool:
        """Whether nothing is to be said against it."""
        return self not in (Outcome.WE_REFUSED, Outcome.WRONG)


@dataclass(frozen=True)
class Trial:
    """Sizes that were drawn, what came of them, and what there is to say."""

    sizes: Sizes
    outcome: Outcome
    told: str = ""

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"{sizes}: {self.outcome.value} {self.told}".strip()


def trials(
    id: str,
    ours: sardonyx.InferenceSession,
    theirs: onnxruntime.InferenceSession,
    count: int,
    part: float = 1,
) -> Iterator[Trial]:
    """Run a model with `count` sizes that are drawn, the same ones every time.

    The smallest come first: later ones are in memory that is larger than they need.
    """
    rng = np.random.default_rng(SEED)
    drawn = [draw(id, rng, part) for _ in range(count)]
    first = min(drawn, key=lambda sizes: prod(sizes.values()))
    for sizes in [first, *(each for each in drawn if each is not first)]:
        yield tried(id, sizes, ours, theirs, rng)


def tried(
    id: str,
    sizes: Sizes,
    ours: sardonyx.InferenceSession,
    theirs: onnxruntime.InferenceSession,
    rng: np.random.Generator,
) -> Trial:
    """Run a model with these sizes."""
    feeds = feeds_of(id, sizes, rng)
    try:
        wanted = theirs.run(None, feeds)
    except Exception as error:  # onnxruntime's have no class of their own in common
        wanted, refused = None, str(error)
    try:
        found = ours.run(None, feeds)
    except SardonyxError as error:
        outcome = Outcome.BOTH_REFUSED if wanted is None else Outcome.WE_REFUSED
        return Trial(sizes, outcome, str(error))
    if wanted is None:
        return Trial(sizes, Outcome.WE_TAKE_MORE, refused)
    complaint = _complaint(id, found, wanted)
    if complaint and OPEN[id].rounds:
        complaint = _complaint(id, found, rounded(id, feeds))
    return Trial(sizes, Outcome.WRONG if complaint else Outcome.AGREED, complaint)


def _complaint(id: str, found: Sequence[Any], wanted: Sequence[Any]) -> str:
    try:
        assert_close(id, found, wanted, OPEN[id].cosine)
    except AssertionError as error:
        return str(error)
    return ""
