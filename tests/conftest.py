"""What holds for every test: a quiet Vulkan, and the fixtures that several folders use."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis.internal.conjecture import providers

from tests.support import build_wheel, require
from tests.support.browser import Chromium, open_chromium
from tests.support.needs import quieten_vulkan

quieten_vulkan()
os.environ["SARDONYX_LIMITS"] = "default"  # what a browser grants
# Else hypothesis draws the constants in our sources, and any change of ours would change what unrelated tests draw.
providers.is_local_module_file = lambda path: False


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator of random numbers that gives the same ones in every run."""
    return np.random.default_rng(0)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, not there yet, where this test alone keeps what is compiled: earlier ones may still be at it."""
    for thread in threading.enumerate():
        if thread.name == "sardonyx compiles":
            thread.join(300)
            assert not thread.is_alive(), "a compiler does not end"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SARDONYX_CACHE", raising=False)
    return tmp_path / "sardonyx"


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel that the working tree builds."""
    return build_wheel()


@pytest.fixture(scope="session")
def browser_and_pyodide() -> None:
    """Skips what needs them where one of them is absent."""
    require("browser")
    require("pyodide")


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    """What the site of `chromium` has besides Pyodide, by the first part of an address.

    Folders of tests and modules that need something there have a fixture of this name.
    """
    return {}


@pytest.fixture(scope="module")
def chromium(browser_and_pyodide: None, site_folders: Mapping[str, Path]) -> Iterator[Chromium]:
    """Chromium, and a site with `site_folders`."""
    with open_chromium(site_folders) as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests noted with `record_property("summary", line)`."""
    reports = [report for status in ("passed", "failed") for report in terminalreporter.stats.get(status, [])]
    lines = [line for report in reports for name, line in report.user_properties if name == "summary"]
    if lines:
        terminalreporter.section("counts")
        terminalreporter.write("".join(f"{line}\n" for line in lines))
