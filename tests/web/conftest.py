"""Fixtures of the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import require
from tests.support.browser import Chromium
from tests.web.pages import open_page


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """Chromium with the page runtime."""
    require("pyodide")
    require("browser")
    with open_page() as page:
        yield page
