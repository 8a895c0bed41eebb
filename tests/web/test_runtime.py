"""The page runtime: where it runs, what it says, and what it gives back."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.plans.bundle import Bundle
from sardonyx.plans.bundle.format import Content, write
from tests.support.browser import Chromium
from tests.web.pages import bundled

pytestmark = pytest.mark.slow
IMAGE = {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}


@pytest.fixture(scope="module")
def digits() -> bytes:
    return bundled(assets() / "digits.onnx", {}, ["wasm", "webgpu"], compress=True)


def ask(chromium: Chromium, digits: bytes, task: str, limit: float = 120, **more: Any) -> Any:
    chromium.site.data["digits.sdx"] = digits
    return chromium.call("/web/runtime.mjs", {"task": task, **more}, limit)


def test_bundles_come_from_anywhere(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, digits, "sources")
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    np.testing.assert_array_equal(np.array(told["answers"], np.float32), np.broadcast_to(wanted, (5, 10)))
    read = Bundle(digits).sections["w18"]
    assert read.offset + read.nbytes <= told["last"]["loaded"] <= told["size"]


@pytest.fixture
def large(chromium: Chromium, digits: bytes) -> Iterator[bytes]:
    """A bundle that is large enough for its download to be resumed: it begins with what nobody wants."""
    bundle = Bundle(digits)
    contents = [
        Content(name, digits[at : at + nbytes], size, width)
        for name, (at, nbytes, _, size, width) in bundle.sections.items()
    ]
    noise = np.random.default_rng(0).bytes(3 << 20)
    yield b"".join(write(bundle.manifest, [Content("unused", noise), *contents]))
    chromium.site.ranges = False
    chromium.site.cuts.clear()
    chromium.site.rate = 0


def test_downloads_go_on_after_a_cut(chromium: Chromium, digits: bytes, large: bytes) -> None:
    site = chromium.site
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    cuts = [len(large) // 3, 0, 70_000]
    site.data["large.sdx"] = large
    site.ranges, site.cuts = True, {"/data/large.sdx": [*cuts]}
    site.rate = 8e6  # so that what was sent is read before a cut
    site.sent.clear()
    told = ask(chromium, digits, "download", places="/data/large.sdx")
    np.testing.assert_array_equal(np.float32(told["answer"]), wanted[0])
    assert site.cuts == {"/data/large.sdx": []}
    assert site.sent["/data/large.sdx"] < 1.2 * len(large)
    assert {(each["stage"], each["total"]) for each in told["heard"]} == {("weights", len(large))}
    assert sorted(each["loaded"] for each in told["heard"]) == [each["loaded"] for each in told["heard"]]
    site.ranges = False
    for name in ("large", "digits"):  # those that are small are not gone on with
        site.cuts[f"/data/{name}.sdx"] = [1000]
        told = ask(chromium, digits, "download", places=f"/data/{name}.sdx")
        assert told["error"] == f"/data/{name}.sdx cannot be fetched by this page: network error"


def test_a_file_that_changed_meanwhile_is_not_gone_on_with(
    chromium: Chromium, digits: bytes, large: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = chromium.site
    site.ranges, site.cuts = True, {"/data/large.sdx": [len(large) // 2]}
    versions = iter([large, large[:-1] + b"!"])
    content = site.content
    monkeypatch.setattr(site, "content", lambda path: next(versions) if "large" in path else content(path))
    assert "network error" in ask(chromium, digits, "download", places="/data/large.sdx")["error"]


def test_bundles_lie_in_several_files(chromium: Chromium, digits: bytes, large: bytes) -> None:
    parts = [large[:50], large[50 : 2 << 20], large[2 << 20 :]]
    chromium.site.data.update({f"large.{k}": part for k, part in enumerate(parts)})
    told = ask(chromium, digits, "download", places=[f"/data/large.{k}" for k in range(3)])
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    np.testing.assert_array_equal(np.float32(told["answer"]), wanted[0])
    told = ask(chromium, digits, "download", places=["/data/large.0", "/data/large.1"])
    assert "is cut off after" in told["error"]


def test_loading_ends_when_it_is_told_to(chromium: Chromium, digits: bytes) -> None:
    assert ask(chromium, digits, "ended") == 3 * ["AbortError"]
    assert ask(chromium, digits, "silent", limit=60) == 3 * ["TimeoutError", "AbortError"]


def test_a_run_is_one_submission_and_one_reading(chromium: Chromium, digits: bytes) -> None:
    before, after = ask(chromium, digits, "counts")
    assert after == {**before, "submits": before["submits"] + 1, "reads": before["reads"] + 1}
    assert before["groups"] > 0


def test_a_run_that_leaves_its_outputs_reads_nothing(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, digits, "left")
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    np.testing.assert_allclose(np.array(told["answers"]), np.broadcast_to(wanted, (2, 10)), rtol=1e-4, atol=1e-6)
    assert told["reads"] == told["running"] == 0
    assert told["submits"] == 3
    assert told["memory"][0] == told["memory"][1] > 0


def test_long_work_is_in_parts(chromium: Chromium, digits: bytes) -> None:
    assert ask(chromium, digits, "parts", costs=[30, 30, 10, 200, 40], took=[]) == [[1, 2, 1, 1]]
    found = ask(chromium, digits, "parts", costs=[10] * 8, took=[1e5, 200, 40, 500])
    assert found == [[5, 3], [5, 3], [2] * 4, [8], [8]]


def resized(data: bytes, title: str, change: int) -> bytes:
    """A bundle that says of a deflated section that it holds more bytes, or fewer."""
    bundle = Bundle(data)
    contents = [
        Content(name, data[at : at + nbytes], size + change * (name == title), width)
        for name, (at, nbytes, _, size, width) in bundle.sections.items()
    ]
    return b"".join(write(bundle.manifest, contents))


def test_broken_files_say_so(chromium: Chromium, digits: bytes) -> None:
    site = chromium.site
    weight = Bundle(digits).sections["w0"].offset
    damaged = bytearray(digits)
    damaged[weight + 5] ^= 1
    head = bytearray(digits)
    head[30] ^= 1
    site.data |= {"cut": digits[: weight + 9], "short": digits[:20], "damaged": bytes(damaged), "head": bytes(head)}
    site.data |= {
        "onnx": (assets() / "digits.onnx").read_bytes(),
        "empty": b"",
        "page": b"<!doctype html><title>what apps answer where nothing is</title>",
        "version": digits[:8] + b"\5" + digits[9:],
        "less": resized(digits, "w18", -4),
        "more": resized(digits, "w18", 4),
        "inner": digits[: Bundle(digits).sections["w18"].offset + 99],
    }
    names = ["cut", "short", "damaged", "head", "onnx", "empty", "version", "nowhere", "less", "more", "inner"]
    addresses = [*(f"/data/{name}" for name in names), "/data/page", "http://[::1]:9/model.sdx"]
    told = ask(chromium, digits, "refuse", addresses=addresses)
    wanted = [
        r"/data/cut is cut off after \d+ bytes; fetch it anew",
        r"/data/short is no bundle: make one with `sardonyx compile model.onnx`",
        r"/data/damaged is damaged: section w0 does not match its checksum; fetch it anew",
        r"/data/head is damaged: its manifest does not match its checksum; fetch it anew",
        r"/data/onnx is no bundle: make one with `sardonyx compile model.onnx`",
        r"/data/empty is no bundle: make one with `sardonyx compile model.onnx`",
        r"/data/version is damaged: its head does not match its checksum; fetch it anew",
        r"http://\S*/data/nowhere: the server answers 404.*",
        r"/data/less is damaged: w18 is no weight of float32\[128,64,1,1\]; compile the model anew",
        r"/data/more is damaged: w18 is no weight of float32\[128,64,1,1\]; compile the model anew",
        r"/data/inner is cut off after \d+ bytes; fetch it anew",
        r"/data/page is HTML: is its address right\?",
        r"http://\[::1\]:9/model.sdx cannot be fetched by this page: Failed to fetch",
    ]
    for text, pattern in zip(told, wanted, strict=True):
        assert re.fullmatch(pattern, text), text


def test_wrong_feeds_say_so(chromium: Chromium, digits: bytes) -> None:
    wanted = [
        'input "image" (float32[N,1,28,28]) is missing from the feeds',
        'the model has no input "other"; it has "image"',
        'input "image" wants float32, not float64',
        'input "image" wants rank 4 ([N,1,28,28]), not [784]',
        'input "image" wants [N,1,28,28], but axis 2 is 27, not 28',
        "a tensor of shape [1,1,28,28] has 784 elements, not 3",
        "a tensor of float32 takes a Float32Array, not a Float64Array",
        "a tensor of shape [1.5,1,28,28] has 1176 elements, not 784",
        'input "image" wants rank 4 ([N,1,28,28]), not [0]',
        'input "image" (float32[N,1,28,28]) is missing from the feeds',
        'the model has no output "none"; it has "probabilities"',
        "this session was released",
        'there is no element type "float33"; use one of float32, float64, ',
        "a tensor of shape [3] has 3 elements, not 2",
    ]
    told = ask(chromium, digits, "misfeed")
    assert [text[: len(want)] for text, want in zip(told, wanted, strict=True)] == wanted


@pytest.mark.parametrize("threads", [1, 2])
def test_more_sessions_than_chromium_has_memories(chromium: Chromium, digits: bytes, threads: int) -> None:
    told = ask(chromium, digits, "crowd", count=150, threads=threads)
    assert told == {"memories": 16, "answers": 1}


def test_runs_wait_for_each_other(chromium: Chromium, digits: bytes) -> None:
    told = ask(chromium, digits, "queue")
    assert told["together"] == told["alone"]


def test_threads(chromium: Chromium, digits: bytes) -> None:
    assert ask(chromium, digits, "threads", threads=3) == {"size": 3, "isolated": True, "messages": []}
    alone = ["info: sardonyx: one thread, since there is no SharedArrayBuffer here"]  # as in WebKit
    told = ask(chromium, digits, "threads", threads=3, without="SharedArrayBuffer")
    assert told == {"size": 1, "isolated": True, "messages": alone}


def test_a_gpu_without_memory(chromium: Chromium, digits: bytes) -> None:
    """A buffer that the GPU could not make fails its run; the next one is right."""
    told = ask(chromium, digits, "scarce")
    assert set(told["outcomes"]) == {"wrong memory", "right"}, told
    assert told["outcomes"].count("wrong memory") >= 3
    assert told["after"] == ["right"] * len(told["outcomes"])
    assert told["left"] == told["before"]


POLICY = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'"
PLAIN = """<!doctype html><title>plain</title><script type="module" src="/data/plain.js"></script>"""
SCRIPT = """
const pixels = new Float32Array(784).fill(0.5);
import { Tensor, load } from "/sardonyx/runtime.js";
globalThis.ran = (async () => {
  const session = await load("/data/digits.sdx");
  const { probabilities } = await session.run({ image: new Tensor("float32", pixels, [1, 1, 28, 28]) });
  return [...probabilities.data];
})();
"""
SERVICE = """
import "/data/plain.js";
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) =>
  event.waitUntil(self.ran.catch(String).then((found) => event.source.postMessage(found))));
"""


def test_under_a_strict_policy_in_a_page_that_is_not_isolated(chromium: Chromium, digits: bytes) -> None:
    """Without eval, and with a line on threads; the same in a service worker."""
    site = chromium.site
    site.data |= {"digits.sdx": digits, "plain.js": SCRIPT.encode(), "service.js": SERVICE.encode()}
    site.data["plain.html"] = PLAIN.encode()
    page = chromium.browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))

    def plain(route: Any) -> None:
        response = route.fetch()
        kept = {k: v for k, v in response.headers.items() if not k.startswith("cross-origin")}
        route.fulfill(response=response, headers={**kept, "content-security-policy": POLICY})

    page.route("**/data/plain.html", plain)
    try:
        page.goto(f"{site.address}/data/plain.html")
        page.wait_for_function("globalThis.ran", timeout=60_000)
        (wanted,) = InferenceSession(digits).run(None, IMAGE)
        np.testing.assert_array_equal(np.array(page.evaluate("ran"), np.float32), wanted[0])
        assert [text for text in said if "one thread" in text] == said, said
        assert len(said) <= 1
        worker = """async () => {
            const { serviceWorker } = navigator;
            const answer = new Promise((resolve) => { serviceWorker.onmessage = ({ data }) => resolve(data); });
            await serviceWorker.register("/data/service.js", { type: "module", scope: "/data/" });
            (await serviceWorker.ready).active.postMessage("go");
            return answer;
        }"""
        np.testing.assert_array_equal(np.array(page.evaluate(worker), np.float32), wanted[0])
    finally:
        page.close()


def test_a_policy_without_webassembly_is_named(chromium: Chromium, digits: bytes) -> None:
    site = chromium.site
    site.data |= {"digits.sdx": digits, "plain.js": SCRIPT.encode(), "plain.html": PLAIN.encode()}
    site.policy = "script-src 'self'"
    page = chromium.browser.new_page()
    try:
        with page.expect_event("pageerror") as caught:
            page.goto(f"{site.address}/data/plain.html")
        assert "have the policy say 'wasm-unsafe-eval'" in str(caught.value)
    finally:
        page.close()
        site.policy = ""


def resident() -> int:
    """The bytes that the pages of this process's browser hold in memory."""
    parents, pages = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[process.name] = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                pages[process.name] = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def is_ours(number: str) -> bool:
        return number == str(os.getpid()) or (number in parents and is_ours(parents[number]))

    return sum(size for number, size in pages.items() if is_ours(number))


ASKING = """() => {
    const worker = new Worker("/web/runtime.mjs", { type: "module" });
    globalThis.ask = (message) => new Promise((resolve, reject) => {
        worker.onmessage = ({ data }) => {
            if ("error" in data) reject(new Error(data.error));
            if ("result" in data) resolve(data.result);
        };
        worker.postMessage(message);
    });
}"""


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["wasm", "webgpu"])
@pytest.mark.parametrize(("task", "counts"), [("sessions", (50, 125, 125)), ("runs", (100, 450, 450))])
def test_nothing_is_left(chromium: Chromium, digits: bytes, task: str, counts: tuple[int, ...], target: str) -> None:
    """300 sessions are loaded, run and released, or one runs 1,000 times: memory stays as it is after the first ones.

    What the process holds stays within 5 %. Buffers of the GPU and their bytes, and what a session says that it holds,
    are the same.
    """
    page = chromium.browser.new_page()
    chromium.site.data["digits.sdx"] = digits
    try:
        page.goto(f"{chromium.site.address}/support/page.html")
        page.evaluate(ASKING)
        held, told = [], []
        for count in counts:
            message = {"task": task, "count": count, "target": target}
            told.append(page.evaluate("(message) => ask(message)", message))
            page.wait_for_timeout(3000)
            held.append(resident())
        assert told[1:] == 2 * told[:1]
        assert told[0]["memory"] > 0
        assert (told[0]["buffers"] > 0) == (target == "webgpu")
        assert held[-1] <= 1.05 * held[0], [number >> 20 for number in held]
    finally:
        page.close()
