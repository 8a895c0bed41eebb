"""How sessions share workers: one that has those of a page, and a crew that helps all of a thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.plans.bundle import Bundle
from sardonyx.web.linking import served
from tests.support.browser import Chromium
from tests.web.pages import bundled

pytestmark = pytest.mark.slow
RUN = """async ([source, count, options, enough]) => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    globalThis.session ??= await load(source, options);
    const pixels = new Float32Array(784 * count).fill(0.5);
    const run = () => session.run({ image: new Tensor("float32", pixels, [count, 1, 28, 28]) });
    let { probabilities } = await run();
    const isHeard = session.constructor.name === "RemoteSession"; // between runs of its own a thread hears nothing
    for (let k = 0; k < 1000 && isHeard && session.threads < enough; k++) ({ probabilities } = await run());
    return [[...probabilities.data], probabilities.dims, session.threads, session.constructor.name];
}"""


@pytest.fixture(scope="module")
def digits() -> bytes:
    return bundled(assets() / "digits.onnx", {}, ["wasm"], compress=True)


def wanted(digits: bytes, count: int = 1) -> list[float]:
    (found,) = InferenceSession(digits).run(None, {"image": np.full((count, 1, 28, 28), 0.5, np.float32)})
    return [*map(float, found.ravel())]


@contextmanager
def visit(chromium: Chromium, digits: bytes, policy: str = "") -> Iterator[Any]:
    """A page that has the bundle, and a session in `session` after the first `RUN`."""
    chromium.site.data["digits.sdx"] = digits
    chromium.site.policy = policy
    page = chromium.browser.new_page()
    try:
        page.goto(f"{chromium.site.address}/support/page.html")
        yield page
    finally:
        chromium.site.policy = ""
        page.close()


def scripts(page: Any) -> set[str]:
    """The scripts of the workers that a page has."""
    return {worker.url.rpartition("/")[2] for worker in page.workers}


def test_a_page_runs_sessions_in_a_worker(chromium: Chromium, digits: bytes) -> None:
    """It ends with the last of them."""
    with visit(chromium, digits) as page:
        for threads in (1, 3):
            found = page.evaluate(RUN, ["/data/digits.sdx", 2, {"threads": threads}, threads])
            assert found == [wanted(digits, 2), [2, 10], threads, "RemoteSession"]
            assert "host.js" in scripts(page)
            page.evaluate("() => { session.release(); delete globalThis.session; }")
            for _ in range(100):
                if not page.workers:
                    break
                page.wait_for_timeout(100)
            assert not page.workers


@pytest.mark.parametrize("policy", ["", "worker-src 'none'"], ids=["asked", "refused"])
def test_a_page_does_without_workers(chromium: Chromium, digits: bytes, policy: str) -> None:
    with visit(chromium, digits, policy) as page:
        options = {} if policy else {"worker": False, "threads": 2}
        values, _, threads, kind = page.evaluate(RUN, ["/data/digits.sdx", 300, options, options.get("threads", 1)])
        assert (values, kind, threads) == (wanted(digits, 300), "Session", 1 if policy else 2)
        assert "host.js" not in scripts(page)


HELPLESS = """async () => {
    const { Tensor, load } = await import("/data/linked/runtime.js");
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const session = await load("/data/digits.sdx", { target: "wasm", threads: 2 });
    const found = [];
    for (let k = 0; k < 20; k++) {
        const { probabilities } = await session.run({ image });
        found.push([...probabilities.data]);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return [found, session.threads, session.constructor.name];
}"""


def test_a_thread_that_does_not_start_is_done_without(chromium: Chromium, digits: bytes) -> None:
    """What a crew's worker throws is no fault of the worker that has the sessions."""
    scripts = {f"linked/{path}": data for path, data in served().items()}
    with visit(chromium, digits) as page:
        said: list[str] = []
        page.on("console", lambda line: said.append(line.text))
        chromium.site.data |= scripts | {"linked/helper.js": b"throw new Error('no room');"}
        found, threads, kind = page.evaluate(HELPLESS)
        assert (found, threads, kind) == (20 * [wanted(digits)], 1, "RemoteSession")
        assert any(text.startswith("sardonyx: a thread less, since helper.js fails: ") for text in said), said


STARTING = f"""() => {{
    ({RUN})(["/data/digits.sdx", 1, {{ threads: 2 }}, 2]).then((told) => (globalThis.found = told));
}}"""


def test_a_worker_makes_no_workers(chromium: Chromium, digits: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Firefox, `new Worker` in a worker may never return, as it never does here: the page makes those that help."""
    content = chromium.site.content
    stuck = b"globalThis.Worker = class { constructor() { for (;;); } };"

    def answer(path: str) -> bytes | None:
        return stuck + (content(path) or b"") if path.endswith("host.js") else content(path)

    monkeypatch.setattr(chromium.site, "content", answer)
    with visit(chromium, digits) as page:
        page.evaluate(STARTING)
        page.wait_for_function("globalThis.found", timeout=30_000)
        assert page.evaluate("found") == [wanted(digits), [1, 10], 2, "RemoteSession"]


DYING = """async () => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const { Host } = await import("/sardonyx/remote.js");
    const late = new Promise((resolve) => setTimeout(() => resolve("no answer"), 20_000));
    const answer = (promise) => promise.then(({ probabilities }) => [...probabilities.data], (error) => error.message);
    const said = (promise) => Promise.race([answer(promise), late]);
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const session = await load("/data/digits.sdx", { target: "wasm", threads: 1 });
    const { worker } = Host.here;
    worker.terminate();
    const pending = said(session.run({ image }));
    worker.dispatchEvent(new ErrorEvent("error", { message: "out of memory" }));
    const found = [await pending, await said(session.run({ image }))];
    const next = load("/data/digits.sdx", { target: "wasm", threads: 1 });
    return [...found, await said(next.then((session) => session.run({ image })))];
}"""


def test_a_worker_that_dies_is_told_and_replaced(chromium: Chromium, digits: bytes) -> None:
    with visit(chromium, digits) as page:
        gone = "the worker of the session failed (out of memory): load it anew"
        assert page.evaluate(DYING) == [gone, gone, wanted(digits)]


SOURCES = """async () => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const bytes = await (await fetch("/data/digits.sdx")).arrayBuffer();
    const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
    const pieces = new Blob([bytes]).stream();
    const found = [];
    for (const source of [await fetch("/data/digits.sdx"), bytes, new Uint8Array(bytes), new Blob([bytes]), pieces]) {
        let last;
        const session = await load(source, { threads: 1, progress: (told) => (last = told) });
        const { probabilities } = await session.run({ image });
        session.release();
        found.push([[...probabilities.data], last.loaded]);
    }
    return [found, bytes.byteLength];
}"""


def test_bundles_go_to_the_worker_from_anywhere(chromium: Chromium, digits: bytes) -> None:
    read = Bundle(digits).sections["w18"]
    with visit(chromium, digits) as page:
        found, size = page.evaluate(SOURCES)
        assert len(found) == 5
        for values, loaded in found:
            assert values == wanted(digits)
            assert read.offset + read.nbytes <= loaded <= size == len(digits)


ERRORS = """async () => {
    const { Tensor, load } = await import("/sardonyx/runtime.js");
    const said = (promise) => promise.then(() => "", (error) => error.message);
    const image = new Tensor("float32", new Float32Array(784), [1, 1, 28, 28]);
    const session = await load("/data/digits.sdx", { name: "digits" });
    const found = [await said(session.run({})), await said(session.run({ image }, ["none"]))];
    const pending = session.run({ image });
    session.release();
    session.release();
    found.push(await said(pending) || "answered", await said(session.run({ image })));
    const other = await load("/data/digits.sdx");
    const moved = new Tensor("float32", new Float32Array(784), [1, 1, 28, 28]);
    structuredClone(moved.data.buffer, { transfer: [moved.data.buffer] });
    found.push(await said(other.run({ image: moved })), await said(other.run({ image })) || "answered");
    other.release();
    found.push(await said(load("/data/cut")));
    const slow = new ReadableStream({
        async start(controller) { controller.enqueue(new Uint8Array(await (await fetch("/data/cut")).arrayBuffer())); },
        pull: (controller) => controller.error(new Error("enough")),
    });
    return [...found, await said(load(slow))];
}"""


def test_errors_come_from_the_worker(chromium: Chromium, digits: bytes) -> None:
    """A run that was asked for is finished before its session is released."""
    cut = Bundle(digits).sections["w0"].offset + 9
    chromium.site.data["cut"] = digits[:cut]
    with visit(chromium, digits) as page:
        assert page.evaluate(ERRORS) == [
            'input "image" (float32[N,1,28,28]) is missing from the feeds',
            'the model has no output "none"; it has "probabilities"',
            "answered",
            "this session was released",
            'input "image" lies in a buffer that was transferred: feed a copy',
            "answered",
            f"/data/cut is cut off after {cut} bytes; fetch it anew",
            "enough",
        ]


def ask(chromium: Chromium, digits: bytes, task: str, **more: Any) -> Any:
    chromium.site.data["digits.sdx"] = digits
    return chromium.call("/web/sharing.mjs", {"task": task, **more}, 120)


def test_helpers_do_what_nobody_else_does(chromium: Chromium, digits: bytes) -> None:
    """The thread that runs takes no share here, so all bits come from helpers; they are those of one thread."""
    for threads in (2, 4):
        found = ask(chromium, digits, "helped", threads=threads)
        assert found["isDone"]
        assert found["alone"] == found["helped"] == wanted(digits, 300)


def test_sessions_of_a_thread_share_a_crew(chromium: Chromium, digits: bytes) -> None:
    """As many workers start as the largest needs; they stay until the last session is released."""
    right = [True] * 2
    assert ask(chromium, digits, "shared") == {
        "sizes": [3, 2, 4],
        "workers": [2, 2, 3],
        "right": [*right, *right, *right],
        "end": [3, None],
    }


def test_short_work_is_helped_where_that_pays(chromium: Chromium, digits: bytes) -> None:
    """Of 400 times, how often it is done without help, by the milliseconds with help and without."""
    often = {(1, 2): (6, 14), (3, 2): (380, 396), (2, 2): (6, 14), (50, 10): (0, 0)}
    for (helped, alone), (least, most) in often.items():
        assert least <= ask(chromium, digits, "trial", helped=helped, alone=alone) <= most, (helped, alone)


def test_the_first_time_of_a_way_tells_nothing(chromium: Chromium, digits: bytes) -> None:
    """Who begins to help finds nothing in its caches."""
    for helped, alone, (least, most) in ((2, 3, (6, 14)), (3, 2, (380, 396))):
        assert least <= ask(chromium, digits, "trial", helped=helped, alone=alone, first=4) <= most, (helped, alone)


def test_work_after_a_rest_is_compared_with_its_like(chromium: Chromium, digits: bytes) -> None:
    """Every other time comes after a rest, and takes longer with help than another without."""
    for helped, alone, (least, most) in ((1, 2, (10, 28)), (3, 2, (360, 392))):
        found = ask(chromium, digits, "trial", helped=helped, alone=alone, rest=100, colder=3)
        assert least <= found <= most, (helped, alone)
