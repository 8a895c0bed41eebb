"""What is stored for a backward pass: steps that come twice give what they gave, within the bytes that there are."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import isqrt
from typing import TypeAlias

import numpy as np
import pytest

from sardonyx.common.record import replace
from sardonyx.compiler.checkpoints import Passes, Step, _cuts, choose

Content: TypeAlias = tuple[object, ...]
"""What a value is made of: the step, the place among its results, and what it has read."""


def drawn(seed: int, length: int = 12) -> Passes:
    """Passes that read at random; some steps give two values, and two values are made by two steps each."""
    random = np.random.default_rng(seed)
    steps, known = [], [0]
    for number in range(2 * length):
        late = number >= length
        reads = (
            {int(each) for each in random.choice(known, min(len(known), 2))} | {known[-1]} | ({0} if late else set())
        )
        writes = tuple(range(known[-1] + 1, known[-1] + 2 + int(random.random() < 0.3)))
        steps.append(Step(number, tuple(sorted(reads)), writes, float(random.integers(1, 9)), stays=number == 3))
        known += writes
        if number in (6, 9):  # another half of what this step has begun
            steps.append(Step(number, (writes[0], known[number]), writes[:1], 2.0))
    steps = [replace(step, number=number) for number, step in enumerate(steps)]
    length = next(k for k, step in enumerate(steps) if step.number >= length + 2)
    nbytes = [int(each) for each in random.integers(1, 9, known[-1] + 1)]
    return Passes(steps, length, nbytes, [(0, 0)] * len(nbytes), [0], {known[-1], known[length]})


def contents(passes: Passes) -> dict[int, Content]:
    """What each value is made of; KeyError if it is read before it is made."""
    found: dict[int, Content] = {value: (value,) for value in passes.given}
    for step in passes.steps:
        read = tuple(found[value] for value in step.reads)
        found |= {value: (step.number, place, read) for place, value in enumerate(step.writes)}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_comes_again_is_made_of_the_same(seed: int) -> None:
    passes = drawn(seed)
    before = contents(passes)
    random = np.random.default_rng(seed)
    everything = sorted(passes.makers)
    for share in (0.0, 0.5, 1.0):
        stored = frozenset(value for value in everything if random.random() < share)
        now = passes.storing(stored)
        after = contents(now)
        assert all(after[value] == before[value] for value in passes.results)
        for step in now.steps:  # of all that the step of this number has read
            assert [after[x] for x in step.reads] == [before[x] for x in passes.steps[step.number].reads]
        assert [step.number for step in now.steps].count(3) == 1
        new = dict(enumerate(now.added, len(passes.nbytes)))
        assert all(now.nbytes[number] == passes.nbytes[sample] for number, sample in new.items())
        assert stored.union(passes.fixed, passes.results).isdisjoint(
            new[value] for step in now.steps for value in step.reads if value in new
        )


def test_what_is_made_in_parts_of_one_another_is_stored() -> None:
    """The second half of value 1 is made of value 2, and that of the first half."""
    steps = [Step(0, (0,), (1,)), Step(1, (1,), (2,)), Step(2, (1, 2), (1,)), Step(3, (1,), (3,))]
    passes = Passes([*steps, Step(4, (1, 2, 3), (4,))], 4, [1] * 5, [(0, 0)] * 5, [0], {4})
    now = passes.storing(frozenset())
    assert [step.number for step in now.steps] == [0, 1, 2, 1, 3, 4]


@pytest.mark.parametrize("seed", range(10))
def test_the_peak_is_counted_step_by_step(seed: int) -> None:
    passes = drawn(seed).storing(frozenset())
    most = 0
    for moment in range(-1, len(passes.steps) + 1):
        alive = set()
        for value in range(len(passes.nbytes)):
            uses = [k for k, step in enumerate(passes.steps) if value in (*step.reads, *step.writes)]
            uses += [-1] * (value in passes.given) + [len(passes.steps)] * bool(uses and value in passes.results)
            if uses and min(uses) <= moment <= max(uses):
                alive.add(value)
        most = max(most, sum(passes.nbytes[value] for value in alive))
    assert passes.peak() == most


@pytest.mark.parametrize("seed", range(10))
def test_cuts_are_the_best_ones(seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes = [int(each) for each in random.integers(0, 5, 9)]
    crossing = [int(each) for each in random.integers(1, 9, 11)]
    most = max(*sizes, 7)

    def fits(cuts: tuple[int, ...]) -> bool:
        ends = (0, *cuts, len(sizes))
        return all(sum(sizes[a:b]) <= most for a, b in pairwise(ends))

    ways = (cuts for count in range(9) for cuts in combinations(range(1, 9), count) if fits(cuts))
    best = min(sum(crossing[cut] for cut in cuts) for cuts in ways)
    found = tuple(_cuts(sizes, crossing, most))
    assert fits(found)
    assert sum(crossing[cut] for cut in found) == best


def chain(layers: int, nbytes: int = 256) -> Passes:
    """Equal layers of one value each, which the backward pass reads in the reverse order."""
    steps = [Step(k, (k,), (k + 1,), 1000.0) for k in range(layers)]
    steps += [Step(layers + k, (layers + k, layers - k), (layers + k + 1,), 2000.0) for k in range(layers)]
    values = 2 * layers + 1
    return Passes(steps, layers, [nbytes] * values, [(0, 0)] * values, [0], {values - 1})


@pytest.mark.parametrize("layers", [9, 16, 32, 100])
def test_the_least_of_a_chain_is_twice_the_root(layers: int) -> None:
    passes = chain(layers)
    assert passes.peak() >= 256 * layers
    least = passes.storing(choose(passes, 0))
    assert least.arena() <= 256 * (2 * isqrt(layers) + 4)
    assert len(least.steps) < len(passes.steps) + layers


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_no_more_is_made_again_than_need_be(share: float) -> None:
    """What is stored is near the limit, and the last segment is not made again."""
    passes = chain(32)
    limit = int(share * passes.peak())
    now = passes.storing(choose(passes, limit))
    assert limit - 4 * 256 <= now.arena() <= limit
    assert len(now.steps) - len(passes.steps) <= 32 * (1 - share) + 5


def test_what_is_cheap_is_made_again_first() -> None:
    """Of a product and what is done to its elements, the latter."""
    steps = []
    for k in range(0, 20, 2):
        steps += [Step(k, (k,), (k + 1,), 64_000.0), Step(k + 1, (k + 1,), (k + 2,), 100.0)]
    for k in range(10):
        steps.append(Step(20 + k, (20 + k, 20 - 2 * k, 19 - 2 * k), (21 + k,), 64_000.0))
    passes = Passes(steps, 20, [256] * 31, [(0, 0)] * 31, [0], {30})
    now = passes.storing(choose(passes, int(0.7 * passes.peak())))
    again = [step.number for step in now.steps if step.number < 20][20:]
    assert again
    assert all(number % 2 for number in again)


def test_each_chunk_counts_by_itself() -> None:
    steps = [Step(0, (), (0,)), Step(1, (0,), (1,), epoch=1), Step(2, (1,), (2,), epoch=1)]
    passes = Passes(steps, 0, [256, 512, 256], [(0, 0), (0, 1), (0, 1)], results={2})
    assert passes.peak() == passes.arena() == 256 + 512 + 256
