"""Fixtures of the tests of pages."""

from __future__ import annotations

from tests.support.browser import fixture
from tests.web.pages import open_page

chromium = fixture(open_page)
"""Chromium with the page runtime."""
