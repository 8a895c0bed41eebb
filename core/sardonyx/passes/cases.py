"""Comparisons of sizes that nothing decides: every answer is tried, and what all of them agree on is known."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.common.cached import cached_property
from sardonyx.common.record import record
from sardonyx.primitives.array import Array
from sardonyx.sizes.functions import apply, substitute
from sardonyx.sizes.polynomial import ZERO, Poly
from sardonyx.sizes.relations import isolated
from sardonyx.sizes.symbolic import Guards, Size, UndecidedSizeError, poly, size

MOST_ANSWERS = 64
"""The most comparisons of sizes that are answered for one node."""


class Answers(Guards):
    """Answers comparisons from a list, and those after its end with True; `value` raises."""

    is_of_call = False

    def __init__(self, answers: Sequence[bool]) -> None:
        super().__init__()
        self.answers = answers

    def decide(self, polynomial: Poly, relation: str) -> bool:
        place = len(self.facts)
        if place == MOST_ANSWERS and (polynomial, relation) not in self.facts:
            raise UndecidedSizeError(f"more than {MOST_ANSWERS} comparisons, as of a loop over a size")
        return self.facts.setdefault((polynomial, relation), self.answers[place] if place < len(self.answers) else True)

    def value(self, polynomial: Poly) -> int:
        raise UndecidedSizeError(f"the number of {polynomial} is not known")

    def next(self) -> list[bool] | None:
        """The answers to try next, or None if all combinations were tried."""
        answers = list(self.facts.values())
        while answers and not answers[-1]:
            answers.pop()
        return [*answers[:-1], False] if answers else None


def bound(sizes: Sequence[Size], cases: Sequence[Case]) -> Size | None:
    """The max or min of two sizes, if the only comparison of the two cases decided which of them is larger."""
    if len(cases[0].facts) != 1:
        return None
    ((polynomial, relation, truth),) = cases[0].facts
    if relation != ">=" or list(cases[1].facts) != [(polynomial, relation, not truth)]:
        return None
    one, other = (poly(size) for size in sizes)
    for name, difference in (("max", one - other), ("min", other - one)):
        if difference == polynomial:
            return size(apply(name, one, other))
    return None


@record
class Case:
    """An output, inferred under the assumption that comparisons have the answers in `facts`."""

    array: Array | None
    facts: Sequence[tuple[Poly, str, bool]] = ()

    @cached_property
    def equations(self) -> list[dict[str, Poly]]:
        """The equalities that were answered `yes`, each solved for its first symbol that stands alone."""
        found = []
        for polynomial, relation, truth in self.facts:
            if truth and relation == "==":
                told = ((name, isolated(polynomial, name)) for name in sorted(polynomial.symbols()))
                found += [{name: rest} for name, rest in told if rest is not None][:1]
        return found

    def equal(self, a: Size, b: Size) -> bool:
        difference = poly(a) - poly(b)
        zeros = [polynomial for polynomial, relation, truth in self.facts if truth and relation == "=="]
        if difference in zeros or difference.scaled(-1) in zeros:
            return True
        for equation in self.equations:
            difference = substitute(difference, equation)
        return difference == ZERO
