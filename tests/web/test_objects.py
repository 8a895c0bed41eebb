"""The demonstration's page that sees: the sample, a camera, a picture; and whether its thread stays free."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from PIL import Image, ImageDraw

from sardonyx.web import folder as web_folder
from tests.support.browser import Chromium
from tests.support.npm import package
from tests.web.cameras import CAMERA
from tests.web.serving import serving
from web.demo import app as demo

pytestmark = pytest.mark.slow
LIMIT = 120_000
STATUS = "document.querySelector('#status').textContent"
FOUND = "[...document.querySelectorAll('#shapes li:not(.absent) .label')].map((each) => each.firstChild.textContent)"
FACT = """(name) => {
    const terms = [...document.querySelectorAll("#facts div")];
    return terms.find((each) => each.firstChild.textContent === name)?.lastChild.textContent;
}"""
TASKS = """
globalThis.tasks = [];
new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration)))
  .observe({ type: "longtask", buffered: true });
"""
PERIODS, SECONDS = 4, 3


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("objects")
    web_folder.write(folder, compiler=False)
    demo.write_models(folder / "models")
    with serving(folder) as served:
        yield served


@contextmanager
def visit(chromium: Chromium, address: str, *scripts: str, **options: Any) -> Iterator[Any]:
    """The page; fails where anything was complained about, as the policy's violations are."""
    complaints = []
    with chromium.browser.new_context(**options) as context:
        page = context.new_page()
        page.set_default_timeout(LIMIT)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        for script in scripts:
            page.add_init_script(script)
        page.goto(f"{address}objects.html")
        yield page
    assert complaints == []


def wait(page: Any, expression: str) -> None:
    """Until it is so; not by Playwright's own way, which needs eval, that the page's policy forbids."""
    page.wait_for_timeout(50)
    for _ in range(LIMIT // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"not so in time: {expression}; the page says {page.inner_text('.words')}")


def test_the_sample(chromium: Chromium, address: str) -> None:
    """All that drifts there is found, and figures say how fast."""
    with visit(chromium, address) as page:
        wait(page, f"{FOUND}.length >= 5")
        assert page.evaluate(STATUS).endswith("in the picture")
        assert page.evaluate(FACT, "Picture") == "640 × 480"
        wait(page, f"parseFloat(({FACT})('Frames a second')) > 0")
        assert page.evaluate(FACT, "Frame to boxes").endswith("ms")
        assert page.evaluate(FACT, "Runs on").startswith("processor")
        page.evaluate("document.querySelector('#stop').click()")
        assert page.evaluate(STATUS) == "Stopped"
        assert page.evaluate("document.querySelector('#stop').disabled")


def test_a_camera(chromium: Chromium, address: str) -> None:
    with visit(chromium, address, CAMERA) as page:
        page.evaluate("document.querySelector('#camera').click()")
        wait(page, f"{FOUND}.sort().join() === 'heart,square'")
        assert page.evaluate(STATUS) == "2 shapes in the picture"
        assert page.evaluate("document.querySelector('#sample').hidden && !document.querySelector('#video').hidden")
        page.evaluate("document.querySelector('#moving').click()")
        wait(page, f"{FOUND}.length >= 5")
        ended = "streams.every((stream) => stream.getTracks().every(({ readyState }) => readyState === 'ended'))"
        assert page.evaluate(ended)


def test_a_camera_that_is_refused(chromium: Chromium, address: str) -> None:
    script = "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', 'NotAllowedError'));"
    with visit(chromium, address, script) as page:
        page.evaluate("document.querySelector('#camera').click()")
        wait(page, "document.querySelector('#problem').checkVisibility()")
        assert page.inner_text("#problem").startswith("The camera was refused. Allow it for this page")
        assert page.get_attribute("#camera", "aria-pressed") == "false"


def test_a_picture(chromium: Chromium, address: str) -> None:
    image = Image.new("RGB", (500, 700), (240, 236, 228))
    brush = ImageDraw.Draw(image)
    brush.polygon([(250, 90), (390, 330), (110, 330)], fill=(20, 60, 140))
    brush.ellipse((150, 420, 350, 620), outline=(160, 30, 20), width=22)
    file = io.BytesIO()
    image.save(file, "PNG")
    with visit(chromium, address, reduced_motion="reduce") as page:
        wait(page, f"{STATUS}.endsWith('in the picture')")  # the sample, which stands still
        page.set_input_files("#file", {"name": "drawn.png", "mimeType": "image/png", "buffer": file.getvalue()})
        wait(page, f"{FOUND}.sort().join() === 'circle,triangle'")
        assert page.evaluate("[marks.width, marks.height]") == [500, 700]
        page.set_input_files("#file", {"name": "none.png", "mimeType": "image/png", "buffer": b"no picture"})
        wait(page, "document.querySelector('#problem').textContent.includes('cannot read none.png as a picture')")


def test_on_the_gpu(chromium: Chromium, address: str) -> None:
    with visit(chromium, address, CAMERA) as page:
        page.evaluate("document.querySelector('#camera').click()")
        wait(page, f"{FOUND}.length === 2")
        page.evaluate("document.querySelector('#target-webgpu').click()")
        wait(page, f"({FACT})('Runs on')?.startsWith('the GPU')")
        wait(page, f"{FOUND}.sort().join() === 'heart,square'")


def test_the_thread_of_the_page_stays_free(chromium: Chromium, address: str) -> None:
    """No task takes 50 ms while frames are looked at. Other programs may take the processor from the page now and then,
    so one period without any is enough."""
    with visit(chromium, address, CAMERA, TASKS) as page:
        page.evaluate("document.querySelector('#camera').click()")
        wait(page, f"{FOUND}.length === 2")
        found = []
        for _ in range(PERIODS):
            page.evaluate("tasks.length = 0")
            page.wait_for_timeout(1000 * SECONDS)
            found.append(page.evaluate("tasks"))
            if not found[-1]:
                break
        assert found[-1] == [], found
        assert float(page.evaluate(FACT, "Frames a second")) > 1


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_it(chromium: Chromium, address: str, scheme: str) -> None:
    """axe-core finds nothing."""
    axe = (package("axe-core") / "axe.min.js").read_text("utf-8")
    listed = "violations.map(({ id, nodes }) => [id, nodes[0].html])"
    script = f"(async () => {{ {axe}; return (await axe.run()).{listed}; }})()"
    with visit(chromium, address, color_scheme=scheme) as page:
        wait(page, f"{FOUND}.length >= 5")
        session = page.context.new_cdp_session(page)
        told = session.send("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        assert told["result"]["value"] == []
