"""The choice between two ways of doing the same work, where the work is not always the same."""

from __future__ import annotations

import pytest

from sardonyx.common.trial import Trial


@pytest.mark.parametrize("colder", [0, 1])
@pytest.mark.parametrize("period", [1, 2, 3, 4])
@pytest.mark.parametrize("faster", [0, 1])
def test_work_that_takes_longer_at_times(faster: int, period: int, colder: int) -> None:
    """One use of so many takes much longer, either way."""
    trial = Trial()
    ways = []
    for use in range(400):
        way = trial.next()
        ways.append(way)
        trial.took(way, (1.0 if way == faster else 1.5) + 3.0 * (use % period == colder))
    assert ways[100:].count(faster) > 270
