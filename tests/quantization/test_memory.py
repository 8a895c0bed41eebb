"""Calibrating needs the memory of a run, and not that of all samples."""

from __future__ import annotations

import pytest

from tests.quantization.memory import measure


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["MinMax", "Percentile"])
def test_calibrating_needs_little_more_memory_than_a_run(method: str) -> None:
    run = measure("sardonyx", "run", 3)["megabytes"]
    assert measure("sardonyx", method, 12)["megabytes"] < 1.5 * run
