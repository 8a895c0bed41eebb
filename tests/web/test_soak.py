"""Memory of a page over many sessions and many runs by transformers.js, as its processes hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
LOOKS = 10
MOST = 32
"""MiB by which the second half of the looks may be above the first. Browsers free code late, so looks rise and fall."""


def settled(page: Page) -> int:
    """MiB that the browser holds after what can be collected was."""
    inspector = page.context.new_cdp_session(page)
    for _ in range(2):
        inspector.send("HeapProfiler.collectGarbage")
        page.wait_for_timeout(1000)  # workers that were ended, and their memory, go a while later
    return held() // MIB


@pytest.mark.parametrize("counts", [{"made": 300}, {"asked": 1000}], ids=["sessions", "runs"])
@pytest.mark.parametrize("device", ["wasm", "webgpu"])
def test_memory_is_flat(chromium: Chromium, device: str, counts: dict[str, int]) -> None:
    write_minilm(chromium.site, device)
    page = chromium.browser.new_page()
    page.set_default_timeout(1.2e6)
    page.goto(f"{chromium.site.address}/web/ort/page.html")
    page.wait_for_function("globalThis.tasks")
    some = {name: count // LOOKS for name, count in counts.items()}
    looks = []
    for _ in range(LOOKS):
        page.evaluate("(given) => tasks.lasting(...given)", [device, some])
        looks.append(settled(page))
    page.close()
    half = LOOKS // 2
    assert max(looks[half:]) < max(looks[:half]) + MOST, looks
