"""That the benchmark in a browser measures both sides, and says what is wrong, late or missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import browser, integer_products
from tests.benchmarks.browser import OURS, THEIRS, Row
from tests.benchmarks.integer_kernels import Case
from tests.benchmarks.kernels import KERNELS, matmul
from tests.support.browser import Chromium


def row(run: float, **more: str) -> Row:
    figures = {"load": 500.0, "create": 1.0, "first": 3.0, "code": 1500, "memory": 50 << 20, "run": 2.0}
    return {THEIRS: {**figures, "start": 4.0}, OURS: {**figures, "start": 2.0, "run": run, **more}}


def test_tables_name_what_is_wrong_and_failed() -> None:
    rows = {
        "one": row(1.0),
        "two": row(4.0, wrong="off by 1"),
        "three": {THEIRS: row(1.0)[THEIRS], OURS: {"failed": "no memory"}},
    }
    assert browser.rendered(rows, [OURS])[2:] == [
        "| one | 2.00 | 1.00 | 0.50 |",
        "| two | 2.00 | 4.00 (wrong) | 2.00 |",
        "| three | 2.00 | failed |  |",
        "| geometric mean |  | 1 of 3 | **0.50** |",
    ]
    assert browser.starts(rows)[2:] == [
        "| one | 1.00 | 1.00 | 3.00 | 3.00 | 0.50 | 1.50 | 50 | 50 |",
        "| two | 1.00 | 1.00 (wrong) | 3.00 | 3.00 (wrong) | 0.50 | 1.50 | 50 | 50 |",
        "| three | 1.00 | failed | 3.00 | failed |  |  | 50 |  |",
        "| geometric mean |  |  | 1 of 3 | **0.50** |  |  |  |",
    ]
    assert browser.complaints(rows) == ["* two, WASM: off by 1", "* three, WASM: no memory"]


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    return {"benchmarks": Path(browser.__file__).parent, "onnxruntime": browser.onnxruntime_web()}


@pytest.mark.slow
def test_both_sides_are_measured(chromium: Chromium) -> None:
    case = browser.of_kernel(matmul(8, 16, 32))
    found = browser.measure(chromium, case, [OURS, "NumPy"], runs=3, seconds=1, limit=120)
    assert list(found) == [THEIRS, OURS, "NumPy"]
    for figures in found.values():
        assert "wrong" not in figures
        assert all(figures[name] > 0 for name in ("load", "create", "first", "run", "memory"))
    assert found[OURS]["code"] > 0
    assert found["NumPy"]["code"] == found[THEIRS]["code"] == 0


@pytest.mark.slow
def test_wrong_outputs_and_failures_are_seen(chromium: Chromium) -> None:
    case = browser.of_kernel(matmul(8, 16, 32))
    doubled = replace(case, judge=lambda found: case.judge([2 * array for array in found]))
    assert "off by 1.0" in browser.measure(chromium, doubled, [OURS], 3, 1, 120)[OURS]["wrong"]
    neither = browser.measure(chromium, replace(case, model=b"no model"), [OURS], 3, 1, 120)
    assert all(neither[side]["failed"].startswith("when it makes the session: ") for side in (THEIRS, OURS))
    late = browser.measure(chromium, case, [OURS], 3, 1, limit=0.01)
    assert late == {side: {"failed": "no answer in 0.01 s: starting"} for side in (THEIRS, OURS)}


@pytest.mark.slow
def test_products_of_integers_are_right(chromium: Chromium) -> None:
    times = integer_products.in_chromium(chromium, Case(3, 10, 20), 1)
    assert [*times] == ["bytes", "int8", "int16", "float32"]
    assert all(time > 0 for time in times.values())


def test_kernels_have_the_operations_that_they_say() -> None:
    assert KERNELS["MatMul 512 x 512 x 512"].operations == 2 * 512**3
    assert KERNELS["Conv 3x3, 64 at 56"].operations == 2 * 64 * 64 * 9 * 56**2
    assert KERNELS["Conv 3x3, depthwise, 96 at 112"].operations == 2 * 96 * 9 * 112**2
    assert KERNELS["Conv 3x3, stride 2, 64 to 128 at 56"].operations == 2 * 64 * 128 * 9 * 28**2
