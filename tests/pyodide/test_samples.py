"""Samples of operators in Pyodide: all providers say there what the reference says here, in Node and in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.support import require, run_in_pyodide
from tests.support.browser import run_in_browser
from tests.support.samples import CASES, check

NUMPY, WASM, WEBGPU = "NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"
HOSTS: dict[str, Callable[..., str]] = {"pyodide": run_in_pyodide, "browser": run_in_browser}
PLACES = [("pyodide", NUMPY), ("pyodide", WASM), ("browser", WASM), ("browser", WEBGPU)]
PARTS = 4
"""One interpreter runs that part of all samples."""


@pytest.mark.slow
@pytest.mark.parametrize(("host", "provider"), PLACES)
def test_a_tenth(host: str, provider: str) -> None:
    require("pyodide")
    require(host)
    check(partial(HOSTS[host], timeout=600), provider, CASES[::10])


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("host", "provider"), PLACES)
def test_all(host: str, provider: str, part: int) -> None:
    require("pyodide")
    require(host)
    check(partial(HOSTS[host], timeout=600), provider, CASES[part::PARTS])
