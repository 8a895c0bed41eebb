"""ONNX's own cases of single nodes, on WebAssembly in a page, by way of onnxruntime-web's interface."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from sardonyx.api.bundling import bundle_of
from sardonyx.common.dtypes import of
from sardonyx.errors import NotImplemented
from sardonyx.plans.plan_cache import Source
from tests.conformance.cases import Case, cases, compare
from tests.conformance.expectation import load, reason
from tests.pyodide.storage import typed
from tests.support.browser import Chromium
from tests.web.ort_pages import ask, ort_site
from tests.web.pages import Case as Bundled
from tests.web.pages import collected, offered

site_folders = ort_site()
PARTS = 4
EVERY = 40
FEW = 8
REFUSED = {"test_loop11"}
"""A loop whose body has a plan for sizes of its first turn alone: bundles refuse the second, in Python as well."""
KINDS = {"bool", "string", "float16", "float32", "float64"}
KINDS |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
"""Types of elements that onnxruntime-common's tensors have arrays for."""


def fitting() -> list[Case]:
    """The cases that take and give tensors of such types, and pass natively."""
    known = load()
    nodes = [case for case in cases() if case.kind == "node" and not reason(known, case.name, "WasmExecutionProvider")]
    return [case for case in nodes if case.name not in REFUSED and all(map(_fits, case.data_sets()))]


def _fits(data: tuple[object, object]) -> bool:
    arrays = [array for side in data for array in side]  # type: ignore[attr-defined]
    return all(isinstance(array, np.ndarray) and of(array.dtype).name in KINDS for array in arrays)


def bundle(case: Case, feeds: dict[str, np.ndarray]) -> bytes:
    """The bundle of a case; few elements among the inputs are typical ones, since they may decide on shapes."""
    few = {name: array for name, array in feeds.items() if array.size <= FEW and array.dtype != object}
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    return b"".join(bundle_of(Source(case.model.SerializeToString()), ["wasm"], [{**shapes, **few}], compress=False))


def check(chromium: Chromium, chosen: list[Case]) -> None:
    """Run cases in one page, and fail with a line for each that is wrong; nodes for the host are left out."""
    known: list[tuple[Case, Bundled]] = []
    for case in chosen:
        held = {tensor.name for tensor in case.model.graph.initializer}
        names = [value.name for value in case.model.graph.input if value.name not in held]
        feeds = dict(zip(names, case.data_sets()[0][0]))
        try:
            known.append((case, Bundled(bundle(case, feeds), feeds)))
        except NotImplemented:
            continue
    assert len(known) >= 0.9 * len(chosen)
    told = offered(chromium, [each.feeds for _, each in known])
    chromium.site.data.update({f"{number}.sdx": each.bundle for number, (_, each) in enumerate(known)})
    answers = collected(chromium, ask(chromium, "cases", [each["inputs"] for each in told], limit=600))
    complaints = []
    for (case, _), answer in zip(known, answers, strict=True):
        wanted = case.data_sets()[0][1]
        try:
            assert not isinstance(answer, str), answer
            compare(case, wanted, [typed(*pair) for pair in zip(answer, wanted, strict=True)])
        except AssertionError as error:
            complaints.append(f"{case.name}: {textwrap.shorten(str(error), 300)}")
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@pytest.mark.slow
def test_some_cases(chromium: Chromium) -> None:
    check(chromium, fitting()[::EVERY])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_all_cases(chromium: Chromium, part: int) -> None:
    check(chromium, fitting()[part::PARTS])
