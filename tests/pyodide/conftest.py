"""Fixtures of the tests of Pyodide."""

from __future__ import annotations

from tests.support.browser import fixture, open_chromium

chromium = fixture(open_chromium)
"""Chromium with Pyodide in a worker."""
