"""That the benchmark of threads measures all sides, compares their results, and tells which models count."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.benchmarks import cores
from tests.benchmarks.browser import THEIRS, onnxruntime_web
from tests.benchmarks.cores import OURS, PAGE, Figures
from tests.support.browser import Chromium
from tests.web.pages import RUNTIME


def row(theirs: float, ours: float) -> Figures:
    times = {f"{THEIRS} 1": theirs, f"{THEIRS} 2": theirs / 2, f"{OURS} 1": ours, f"{OURS} 2": ours / 2}
    return {**times, PAGE: ours / 2, "blocked": 3.2, "wrong": ""}


def test_short_models_do_not_count() -> None:
    lines = cores.rendered({"one": row(4.0, 2.0), "two": row(0.5, 1.0)}, 2)
    assert lines[2] == "| one | 4.00 | 2.00 | 2.00 | 1.00 | 1.00 | 0.50 | 0.50 | 0.50 | 0.50 | 1.00 | 3 |"
    assert (
        lines[-1] == "| geometric mean of 1 |  |  |  |  |  | **0.50** | **0.50** | **0.50** | **0.50** | **1.00** |  |"
    )


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    return {"benchmarks": Path(cores.__file__).parent, "onnxruntime": onnxruntime_web(), "sardonyx": RUNTIME}


@pytest.mark.slow
def test_all_sides_are_measured_and_compared(chromium: Chromium) -> None:
    found = cores.measure(chromium, "ppocr2-cls", 2, rounds=1, span=5)
    assert found["wrong"] == ""
    assert all(found[side] > 0 for side in (f"{THEIRS} 1", f"{THEIRS} 2", f"{OURS} 1", f"{OURS} 2", PAGE, "blocked"))
