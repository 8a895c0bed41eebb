"""The demonstration in web/demo: its server, its own reading of drawings and models, and the page in Chromium."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sardonyx.cli.feeds import inputs_of
from sardonyx.demo import assets, digits, pictures, samples
from sardonyx.ir import TensorType
from sardonyx.serde.reader import read
from tests.models import path
from tests.support import require
from tests.support.browser import Chromium, open_chromium
from web.demo import app as demo

DIGITS = assets() / "digits.onnx"
MODELS = ("ppocr2-cls", "silero-vad", "skl-logreg-digits")
SEVEN = [[(0.28, 0.22), (0.5, 0.21), (0.73, 0.2), (0.6, 0.45), (0.5, 0.62), (0.44, 0.82)]]
FOUR = [[(0.4, 0.18), (0.27, 0.55), (0.72, 0.54)], [(0.6, 0.35), (0.59, 0.6), (0.58, 0.84)]]
LIMIT = 120_000  # milliseconds for Python to start, on a machine that is busy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.pyodide.assemble import assemble

    require("pyodide")
    target = tmp_path_factory.mktemp("demo")
    demo.prepare(target, assemble())
    return target


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    from waitress import wasyncore
    from waitress.server import create_server

    connections: dict[int, Any] = {}
    server = create_server(demo.create_app(folder), host="127.0.0.1", port=0, threads=8, map=connections)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}/"
    server.trigger.pull_trigger(lambda: wasyncore.close_all(connections))  # the loop ends when it has none
    thread.join()
    server.task_dispatcher.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    require("browser")
    with open_chromium() as opened:
        yield opened


@contextmanager
def visit(chromium: Chromium, address: str, **options: Any) -> Iterator[Any]:
    """The page, its first model loaded; fails where anything was complained about, as the policy's violations are."""
    complaints = []
    with chromium.browser.new_context(**options) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.goto(address)
        page.locator("#digits-facts dd").first.wait_for()
        yield page
    assert not complaints


def draw(page: Any, strokes: Sequence[Sequence[tuple[float, float]]]) -> None:
    box = page.locator("#pad").bounding_box()
    for stroke in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=5)
        page.mouse.up()


def trace(page: Any, stroke: Sequence[tuple[float, float]]) -> None:
    """Draw a stroke with a finger."""
    box = page.locator("#pad").bounding_box()
    session = page.context.new_cdp_session(page)
    for number, (x, y) in enumerate(stroke):
        point = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
        kind = "touchMove" if number else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def shares(page: Any) -> list[float]:
    return [float(text.split()[0]) for text in page.locator("#bars .share").all_inner_texts()]


def evaluate(page: Any, expression: str) -> Any:
    """Playwright's own way needs eval, which the page's policy forbids."""
    told = page.context.new_cdp_session(page).send(
        "Runtime.evaluate", {"expression": expression, "returnByValue": True}
    )
    assert "exceptionDetails" not in told, told
    return told["result"]["value"]


def drop(page: Any, file: Path) -> None:
    """Let go of a file above the page, as from a file manager."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 200, "y": 200, "data": data})


def node(script: str, given: Any) -> Any:
    """What an expression of `given` and of web/demo's modules, `await load(name)`, is in Node."""
    require("node")
    place = Path(demo.__file__).parent.as_uri()
    code = f"""
        const given = JSON.parse(require("node:fs").readFileSync(0));
        const load = (name) => import("{place}/" + name);
        (async () => console.log(JSON.stringify(await ({script}))))();
    """
    done = subprocess.run(["node", "-e", code], input=json.dumps(given), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_drawings_become_inputs_as_in_python() -> None:
    grays = [pictures.gray(pictures.on_white(pictures.read(file))) for file in samples()]
    grays += [np.full((40, 30), 90, np.uint8)]
    given = [[gray.ravel().tolist(), gray.shape[1], gray.shape[0]] for gray in grays]
    script = 'load("preprocess.js").then(({ digitOf }) => given.map((each) => Array.from(digitOf(...each))))'
    for gray, found in zip(grays, node(script, given), strict=True):
        np.testing.assert_allclose(np.reshape(found, (1, 1, 28, 28)), digits.digit_from_gray(gray), atol=1e-6)


def test_the_outline_of_a_model_is_what_the_engine_reads() -> None:
    files = [str(DIGITS), *(str(path(name)) for name in MODELS)]
    script = """load("outline.js").then(({ outline }) =>
        given.map((file) => outline(new Uint8Array(require("node:fs").readFileSync(file)))))"""
    for file, found in zip(files, node(script, files), strict=True):
        model = read(file)
        nodes = Counter(".".join(filter(None, (each.domain, each.op_type))) for each in model.graph.all_nodes())
        assert dict(found["operators"]) == nodes
        assert found["nodes"] == nodes.total()
        for port, value in zip(found["inputs"], inputs_of(model), strict=True):
            assert isinstance(value.type, TensorType)
            dims = [None if size in (-1, "?", "") else size for size in value.shape or ()]
            assert port == {"name": value.name, "type": value.dtype and value.dtype.name, "dims": dims}


def test_a_file_that_is_no_model_has_no_outline() -> None:
    script = """load("outline.js").then(({ outline }) => given.map((bytes) => {
        try { outline(Uint8Array.from(bytes)); } catch (error) { return error.message; }
    }))"""
    assert node(script, [list(b"nothing but words"), []]) == ["this is no message", "there is no graph"]


def test_the_server_gives_types_tags_and_policies(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits.onnx").write_bytes(b"abc")
    client = demo.create_app(tmp_path).test_client()
    types = {"/": "text/html", "/demo.js": "text/javascript", "/icon.svg": "image/svg+xml"}
    types["/models/digits.onnx"] = "application/octet-stream"
    for place, kind in types.items():
        with client.get(place) as found:
            assert (found.status_code, found.mimetype) == (200, kind)
            assert found.headers["Cross-Origin-Opener-Policy"] == "same-origin"
            assert found.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
            assert "script-src 'self' 'wasm-unsafe-eval';" in found.headers["Content-Security-Policy"]
            assert "Content-Encoding" not in found.headers
            tag = found.headers["ETag"]
        with client.get(place, headers={"If-None-Match": tag}) as again:
            assert (again.status_code, again.data) == (304, b"")
    for place in ("/app.py", "/package.json", "/models/", "/models/..%2f..%2fapp.py", "/tests/x", "/nothing.js"):
        with client.get(place) as absent:
            assert absent.status_code == 404, place


@pytest.mark.slow
def test_a_drawn_digit_is_recognised_on_both_devices(chromium: Chromium, address: str) -> None:
    from playwright.sync_api import expect

    with visit(chromium, address) as page:
        found = page.locator("#digit")
        expect(found).to_have_text("?")
        for strokes, digit in ((FOUR, "4"), (SEVEN, "7")):
            page.keyboard.press("c")
            expect(found).to_have_text("?")
            draw(page, strokes)
            expect(found).to_have_text(digit)
        expect(page.locator("#spoken")).to_contain_text("This is a 7")
        wasm = shares(page)
        assert max(wasm) == wasm[7] > 90
        assert "thread" in page.locator("#digits-facts").inner_text()
        page.get_by_label("WebGPU").first.check(force=True)
        expect(page.locator("#digits-facts")).not_to_contain_text("thread")
        expect(page.locator("#digits-facts")).to_contain_text("ms")
        np.testing.assert_allclose(shares(page), wasm, atol=0.11)  # a digit after the point is shown
        draw(page, FOUR[1:])
        page.get_by_role("button", name="Undo").click()
        expect(found).to_have_text("7")
        page.get_by_role("button", name="Clear").click()
        expect(found).to_have_text("?")
        page.get_by_role("button", name="Show me").click()
        expect(found).not_to_have_text("?")


@pytest.mark.slow
def test_a_dropped_model_runs(chromium: Chromium, address: str) -> None:
    from playwright.sync_api import expect

    with visit(chromium, address) as page:
        drop(page, Path(str(DIGITS)))
        model = page.locator("#model")
        expect(model.locator("h3")).to_contain_text("digits.onnx")
        expect(model).to_contain_text("36 nodes of 8 operators")
        expect(model).to_contain_text("float32 [N, 1, 28, 28]")
        model.get_by_label("N", exact=True).fill("2")
        model.get_by_role("button", name="Compile and run").click()
        expect(model.locator(".found")).to_contain_text("float32 [2, 10]", timeout=LIMIT)
        model.get_by_label("N", exact=True).fill("1")
        model.get_by_role("button", name="Compile and run").click()
        expect(model.locator(".found")).to_contain_text("float32 [1, 10]", timeout=LIMIT)
        for name in ("2_drawn.png", "4_heldout.png"):  # dark on light, and light on dark
            drop(page, Path(str(assets())) / "images" / name)
            expect(model.locator(".found")).to_contain_text(f"with {name}")
            expect(model.locator(".top .label").first).to_have_text(name[0])
        page.get_by_label("WebGPU").last.check(force=True)
        expect(model).to_contain_text("all of it: WebGPU", timeout=LIMIT)
        expect(model.locator(".top .label").first).to_have_text("4", timeout=LIMIT)


@pytest.mark.slow
def test_a_broken_file_is_told_in_the_engine_s_words(chromium: Chromium, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "note.onnx").write_bytes(b"nothing but words")
    with visit(chromium, address) as page:
        drop(page, tmp_path / "note.onnx")
        error = page.locator("#model .error")
        expect(error).to_contain_text("it is a text that begins with 'nothing but words'", timeout=LIMIT)
        expect(page.locator("#model .stages")).to_be_hidden()


@pytest.mark.slow
def test_a_browser_without_a_gpu_is_told_why(chromium: Chromium, address: str) -> None:
    from playwright.sync_api import expect

    with chromium.browser.new_context() as context:
        context.add_init_script("Object.defineProperty(navigator, 'gpu', { value: undefined })")
        page = context.new_page()
        page.goto(address)
        expect(page.get_by_label("WebGPU").first).to_be_disabled()
        expect(page.locator(".reason").first).to_have_text("No WebGPU: this browser does not have it.")


@pytest.mark.slow
def test_a_phone_is_wide_enough(chromium: Chromium, address: str) -> None:
    from playwright.sync_api import expect

    with visit(chromium, address, viewport={"width": 360, "height": 740}, has_touch=True) as page:
        trace(page, SEVEN[0])
        expect(page.locator("#digit")).to_have_text("7")
        page.get_by_role("button", name="Take the digits model").click()
        expect(page.locator("#model")).to_contain_text("36 nodes")
        assert evaluate(page, "document.documentElement.scrollWidth") == 360
