"""Pages that are left and come back, and frames that may next to nothing."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from tests.support.browser import Chromium
from tests.support.browsers.chromium import ARGUMENTS
from tests.web.pages import bundled

pytestmark = pytest.mark.slow
CACHED = "--disable-back-forward-cache"
"""What Playwright says to Chromium, and a visitor does not."""
RUN = """async (threads) => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const sessions = (globalThis.sessions ??= await Promise.all(
        [true, false].map((worker) => load("/data/digits.sdx", { threads, worker }))));
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const many = new Tensor("float32", new Float32Array(784 * 300).fill(0.5), [300, 1, 28, 28]);
    globalThis.pending = Promise.all(sessions.map((session) => session.run({ image: many }))).then(() => "over");
    return Promise.all(sessions.map(async (session) => [...(await session.run({ image })).probabilities.data]));
}"""
FRAME = """
import { Tensor, load } from "/sardonyx/runtime.js";
import { compile } from "/sardonyx/compile.js";
const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
const found = [];
for (const options of [{}, { worker: true, threads: 2 }]) {
    const session = await load("/data/digits.sdx", options);
    found.push([...(await session.run({ image })).probabilities.data]);
    await session.release();
}
const refusal = await compile(new Uint8Array(1)).catch(({ message }) => message);
parent.postMessage([found, refusal], "*");
"""
SANDBOX = """<!doctype html><title>sandbox</title>
<script>onmessage = ({ data }) => (globalThis.told = data);</script>
<iframe sandbox="allow-scripts" src="/data/frame.html"></iframe>"""
ENGINE = {"digest": "", "wheel": "", "core": ["glue"], "stdlib": "", "packages": [""], "rest": [], "bytes": 0}


@pytest.fixture(scope="module")
def digits() -> bytes:
    return bundled(assets() / "digits.onnx", {}, ["wasm"], compress=True)


def wanted(digits: bytes) -> list[float]:
    (found,) = InferenceSession(digits).run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    return [*map(float, found.ravel())]


@pytest.mark.parametrize("threads", [1, 2])
def test_sessions_are_there_when_a_page_comes_back(chromium: Chromium, digits: bytes, threads: int) -> None:
    """From the back/forward cache, where workers and runs under way stand still."""
    site = chromium.site
    site.data |= {"digits.sdx": digits, "other.html": b"<!doctype html><title>other</title>"}
    launched = chromium.browser.browser_type.launch(
        executable_path=shutil.which("chromium"), args=ARGUMENTS, ignore_default_args=[CACHED]
    )
    try:
        page = launched.new_page()
        page.goto(f"{site.address}/support/page.html")
        page.evaluate("() => addEventListener('pageshow', ({ persisted }) => (globalThis.isBack = persisted))")
        assert page.evaluate(RUN, threads) == 2 * [wanted(digits)]
        page.goto(f"{site.address}/data/other.html")
        page.evaluate("history.back()")
        page.wait_for_function("globalThis.isBack")
        assert page.evaluate("pending") == "over"
        assert page.evaluate(RUN, threads) == 2 * [wanted(digits)]
    finally:
        launched.close()


def test_a_frame_without_an_origin_runs_models_on_its_own_thread(chromium: Chromium, digits: bytes) -> None:
    """It may have no workers and keep nothing; it cannot compile, and says why."""
    site = chromium.site
    site.data |= {"digits.sdx": digits, "frame.js": FRAME.encode(), "sandbox.html": SANDBOX.encode()}
    site.data["frame.html"] = b'<!doctype html><script type="module" src="/data/frame.js"></script>'
    page = chromium.browser.new_page()

    def shared(route: Any) -> None:
        """Others may read it: a frame without an origin is one of them everywhere."""
        more = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
        if route.request.url.endswith("/engine.json"):
            route.fulfill(json=ENGINE, headers=more)
        else:
            response = route.fetch()
            route.fulfill(response=response, headers={**response.headers, **more})

    page.route("**/*", shared)
    try:
        page.goto(f"{site.address}/data/sandbox.html")
        page.wait_for_function("globalThis.told")
        found, refusal = page.evaluate("told")
        assert found == 2 * [wanted(digits)]
        assert refusal.startswith("there are no workers here to compile in (Failed to construct 'Worker'")
        assert refusal.endswith("; use a page that may have some, or a bundle")
    finally:
        page.close()
