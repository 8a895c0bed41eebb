"""The choice between two ways of doing the same work, where the work is not always the same."""

from __future__ import annotations

import pytest

from sardonyx.common.trial import BEGINNING, LONG, ROWS, Trial

MILLISECOND = 1e-3


@pytest.mark.parametrize("colder", [0, 1])
@pytest.mark.parametrize("period", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("faster", [0, 1])
def test_work_that_takes_longer_at_times(faster: int, period: int, colder: int) -> None:
    """One use of so many takes much longer, either way."""
    trial = Trial()
    ways = []
    for use in range(400):
        way = trial.next()
        ways.append(way)
        trial.took(way, MILLISECOND * ((1.0 if way == faster else 1.5) + 3.0 * (use % period == colder)))
    assert ways[100:].count(faster) > 270


@pytest.mark.parametrize("steady", [0.8, 1.2])
def test_the_first_use_of_a_way_takes_longer(steady: float) -> None:
    """Who takes over finds nothing in the caches, and tells nothing about those who go on."""
    trial = Trial()
    ways = [1]
    for _ in range(1000):
        way = trial.next()
        trial.took(way, MILLISECOND * ((steady if way else 1.0) + 0.5 * (way != ways[-1])))
        ways.append(way)
    assert ways[100:].count(int(steady < 1)) > 850


@pytest.mark.parametrize("late", [0, 1])
def test_another_way_becomes_the_faster_one(late: int) -> None:
    trial = Trial()
    ways = []
    for use in range(2000):
        way = trial.next()
        ways.append(way)
        trial.took(way, MILLISECOND * (1.0 if (way == late) == (use > 500) else 1.5))
    assert ways[100:500].count(1 - late) > 340
    assert ways[1300:].count(late) > 650


@pytest.mark.parametrize("faster", [0, 1])
def test_long_work_is_tried_once_in_a_row(faster: int) -> None:
    """Who waits for seconds does not do so a dozen times for the slower way."""
    trial = Trial()
    ways = []
    for _ in range(ROWS + 40):
        way = trial.next()
        ways.append(way)
        trial.took(way, LONG * (1.0 if way == faster else 1.5))
    assert ways[BEGINNING:ROWS].count(faster) == (ROWS - BEGINNING) // 2
    assert set(ways[ROWS:]) == {faster}


def test_work_of_other_sizes_is_compared_by_how_much_there_is() -> None:
    trial = Trial()
    ways = []
    for use in range(400):
        way, amount = trial.next(), 1 + use % 50
        ways.append(way)
        trial.took(way, MILLISECOND * amount * (1.0 if way else 1.5), amount)
    assert ways[100:].count(1) > 270
