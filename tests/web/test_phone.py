"""The page for phones, in Chromium: it can be installed, starts without a network, and finds what a camera shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sardonyx.cli import main
from tests.support.browser import Chromium
from tests.support.wheel import ROOT
from tests.web.cameras import CAMERA

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples"
LIMIT = 120_000
KEPT = f"""() => Promise.race([
  navigator.serviceWorker.ready.then(() => true),
  new Promise((_, refuse) => setTimeout(() => refuse(new Error("the service worker kept nothing")), {LIMIT})),
])"""


@pytest.fixture(scope="module")
def site_folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The page as the commands of examples/phone/README.md make it, and nothing of the page runtime outside of it."""
    folder = tmp_path_factory.mktemp("phone")
    assert main(["web", str(folder), "--bundles-only"]) == 0
    model, target = str(EXAMPLES / "detector" / "shapes.onnx"), str(folder / "shapes.sdx")
    assert main(["compile", model, "--detect", "threshold=0.45,across=yes", "--output", target]) == 0
    for file in (EXAMPLES / "phone").glob("*.*"):
        shutil.copy(file, folder)
    return {"phone": folder}


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Any]:
    with chromium.visitor() as visitor:
        opened = visitor.new_page()
        opened.set_default_timeout(LIMIT)
        opened.complaints = []
        opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.add_init_script(CAMERA)
        yield opened
        assert opened.complaints == []


def test_it_can_be_installed(page: Any) -> None:
    page.goto("/phone/index.html")
    page.evaluate(KEPT)
    session = page.context.new_cdp_session(page)
    assert session.send("Page.getAppManifest")["errors"] == []
    told = [each["errorId"] for each in session.send("Page.getInstallabilityErrors")["installabilityErrors"]]
    assert set(told) <= {"in-incognito"}  # as every page of such a test is


def test_it_starts_without_a_network(page: Any, chromium: Chromium) -> None:
    page.goto("/phone/index.html")
    page.evaluate(KEPT)
    chromium.site.requests.clear()
    page.context.set_offline(True)
    page.reload()
    find(page)
    assert chromium.site.requests == []


def test_what_the_camera_shows_is_found(page: Any) -> None:
    page.goto("/phone/index.html")
    find(page)
    assert page.locator("#marks").evaluate("(canvas) => [canvas.width, canvas.height]") == [640, 480]
    page.wait_for_function("document.querySelector('#rate').textContent.endsWith(' a second')")
    page.locator("#stop").click()
    assert page.evaluate(
        "streams.every((stream) => stream.getTracks().every(({ readyState }) => readyState === 'ended'))"
    )
    page.locator("#welcome").wait_for(state="visible")


def find(page: Any) -> None:
    """Start the camera, and wait for the shapes that it shows."""
    page.locator("#camera").click()
    page.wait_for_function("document.querySelector('#status').textContent.split(', ').sort().join() === 'heart,square'")


def test_a_camera_that_is_refused(page: Any) -> None:
    page.add_init_script(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'));"
    )
    page.goto("/phone/index.html")
    page.locator("#camera").click()
    page.wait_for_function("document.querySelector('#problem').textContent.startsWith('The camera was refused')")
    assert page.locator("#welcome").is_visible()


def test_what_is_kept_is_what_is_loaded(page: Any, chromium: Chromium) -> None:
    """Each file that the service worker keeps is there: one that is not would keep it from being installed."""
    chromium.site.requests.clear()
    page.goto("/phone/index.html")
    page.evaluate(KEPT)
    find(page)
    kept = page.evaluate(
        "async () => (await (await caches.open('shapes-1')).keys()).map(({ url }) => new URL(url).pathname)"
    )
    asked = {path for path in chromium.site.requests if path.startswith("/phone/") and not path.endswith("sw.js")}
    assert asked <= {*kept}
