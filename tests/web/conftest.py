"""Fixtures of the tests of pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.browser import Chromium
from tests.web.pages import FOLDERS


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    return FOLDERS


@pytest.fixture
def app(chromium: Chromium, tmp_path: Path) -> Path:
    """The folder, not there yet, of an app, whose build, `dist`, is at /app."""
    chromium.site.folders = {**chromium.site.folders, "app": tmp_path / "app" / "dist"}
    chromium.site.requests.clear()
    return tmp_path / "app"
