"""Memory of a page over many sessions and many runs by transformers.js, as its processes hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Chromium
from tests.support.processes import held
from tests.web.ort_pages import ort_site
from tests.web.packages import write_minilm

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.nightly

site_folders = ort_site("transformers")
MIB = 1 << 20
EARLY = 0.2
"""The part of the sessions and of the runs after which a page has all that it needs."""


def settled(page: Page) -> int:
    """What the browser holds after everything that can be collected was."""
    inspector = page.context.new_cdp_session(page)
    for _ in range(3):
        inspector.send("HeapProfiler.collectGarbage")
        page.wait_for_timeout(1000)  # workers that were ended, and their memory, go a while later
    return held()


@pytest.mark.parametrize(
    ("device", "sessions", "runs", "most"),
    [("wasm", 300, 1000, 48), ("webgpu", 30, 200, 48)],
    ids=["wasm", "webgpu"],
)
def test_memory_is_flat(chromium: Chromium, device: str, sessions: int, runs: int, most: int) -> None:
    write_minilm(chromium.site, device)
    page = chromium.browser.new_page()
    page.set_default_timeout(1.2e6)
    page.goto(f"{chromium.site.address}/web/ort/page.html")
    page.wait_for_function("globalThis.tasks")

    def grown(**counts: int) -> list[int]:
        """What the browser holds after the early part, and after all of it."""
        looks = []
        for part in (EARLY, 1 - EARLY):
            given: Any = [device, {name: round(part * count) for name, count in counts.items()}]
            page.evaluate("(given) => tasks.lasting(...given)", given)
            looks.append(settled(page) // MIB)
        return looks

    for told in (grown(made=sessions), grown(asked=runs)):
        early, late = told
        assert late - early < most, told
    page.close()
