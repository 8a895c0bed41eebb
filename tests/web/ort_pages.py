"""Pages written for onnxruntime-web, on Sardonyx by an import map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import require
from tests.support.browser import Chromium, open_chromium
from tests.support.npm import package
from tests.web.pages import HERE, RUNTIME

PACKAGES = {
    "common": "onnxruntime-common",
    "transformers": "@huggingface/transformers",
    "vad": "@ricky0123/vad-web",
    "kokoro": "kokoro-js",
    "phonemizer": "phonemizer",
    "onnxruntime-web": "onnxruntime-web",
}


@contextmanager
def open_ort(*names: str) -> Iterator[Chromium]:
    """Chromium with the page runtime and these of `PACKAGES`."""
    require("browser")
    folders = {name: package(PACKAGES[name]) for name in ("common", *names)}
    with open_chromium({"sardonyx": RUNTIME, "web": HERE, **folders}) as chromium:
        yield chromium


def fixture(*names: str) -> Any:
    """The fixture of a module's tests that gives what `open_ort` does."""

    @pytest.fixture(scope="module")
    def chromium() -> Iterator[Chromium]:
        with open_ort(*names) as opened:
            yield opened

    return chromium


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
