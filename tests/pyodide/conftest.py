"""Fixtures of the tests of Pyodide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import require
from tests.support.browser import Chromium, open_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Chromium with Pyodide in a worker."""
    require("pyodide")
    require("browser")
    with open_chromium() as chromium:
        yield chromium
