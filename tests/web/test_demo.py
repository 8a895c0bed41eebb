"""The demonstration in web/demo: its server, its own reading of drawings and models, and the page in Chromium."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np
import pytest

from sardonyx.demo import assets
from tests.support import require
from tests.support.browser import Chromium
from tests.web.pages import model_of
from tests.web.serving import serving
from web.demo import app as demo

DIGITS = assets() / "digits.onnx"
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
    with serving(folder) as served:
        yield served


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
        "Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True}
    )
    assert "exceptionDetails" not in told, told
    return told["result"]["value"]


def drop(page: Any, file: Path) -> None:
    """Let go of a file above the page, as from a file manager."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 200, "y": 200, "data": data})


def test_the_documents_lie_beside_the_page(tmp_path: Path) -> None:
    client = demo.create_app(tmp_path).test_client()
    with client.get("/") as page:
        seen = set(re.findall(r'href="(documents/[^"]*)"', page.text))
    assert {"documents/README.md", "documents/web/README.md", "documents/"} <= seen
    waiting = [f"/{place}" for place in seen]
    done = set()
    while waiting:
        place = waiting.pop()
        if place in done or place in ("/", "/icon.svg", "/stone.css", "/documents.css"):
            continue
        done.add(place)
        with client.get(place, follow_redirects=True) as found:
            assert found.status_code == 200, place
            assert found.text.count("<h1>") == 1, place
            links = re.findall(r'href="([^"#]+)', found.text)
            base = found.request.path
        if base.endswith((".md", "/")) and base.count("/") < 5:
            waiting += [urljoin(base, link) for link in links]
    assert {"/documents/CONTRIBUTING.md", "/documents/examples/digits/README.md", "/documents/web/demo/pad.js"} <= done
    absent = [
        "build/",
        ".git/",
        "web/../.git/config",
        "core/sardonyx/__pycache__/",
        "README.md/",
        "examples/digits/digits.onnx",
    ]
    for place in [*absent, "..%2f..%2fetc/passwd", "/etc/passwd", "nothing.md"]:
        with client.get(f"/documents/{place}", follow_redirects=True) as found:
            assert found.status_code == 404, place


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
    for place in (
        "/app.py",
        "/frame.html",
        "/package.json",
        "/models/",
        "/models/..%2f..%2fapp.py",
        "/tests/x",
        "/nothing.js",
    ):
        with client.get(place) as absent:
            assert absent.status_code == 404, place


def test_pages_lead_to_each_other_and_need_no_script_for_it(tmp_path: Path) -> None:
    client = demo.create_app(tmp_path).test_client()
    beside = {file.stem for file in Path(demo.__file__).parent.glob("*.html")}
    assert beside == {*demo.PAGES, "frame"}
    for name, title in demo.PAGES.items():
        with client.get("/" if name == "index" else f"/{name}.html") as page:
            assert (page.status_code, page.mimetype) == (200, "text/html")
            text = page.text
        (links,) = re.findall(r'<nav class="wide places"[^>]*>(.*?)</nav>', text, re.DOTALL)
        leading = re.findall(r'<a href="(.*?)"(.*?)>(.*?)</a>', links)
        assert [text for _, _, text in leading] == [*demo.PAGES.values()]
        assert [text for _, current, text in leading if current == ' aria-current="page"'] == [title]
        for place, _, _ in leading:
            with client.get(urljoin("/", place)) as found:
                assert found.status_code == 200, place
        loaded = [*re.findall(r'src="(.*?)"', text), *re.findall(r'rel="(?:stylesheet|icon)" href="(.*?)"', text)]
        assert len(loaded) >= 6
        for place in loaded:
            with client.get(f"/{place}") as found:
                assert found.status_code == 200, place


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
        expect(page.locator("#digits-facts")).not_to_contain_text("thread", timeout=LIMIT)
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
def test_what_cannot_run_is_said_before_the_engine_is_loaded(chromium: Chromium, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "note.onnx").write_bytes(b"nothing but words")
    (tmp_path / "odd.onnx").write_bytes(model_of("g (float[N] x) => (float[N] y) { y = my.domain.Mish (x) }"))
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY")
    told = {
        "note.onnx": "note.onnx: this is no ONNX model: it is a text that begins with “nothing but words”.",
        "odd.onnx": "Nothing here knows the operator my.domain.Mish (node y)",
        "x.npy": "x.npy: this is a NumPy array, not an ONNX model.",
    }
    with visit(chromium, address) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for name, words in told.items():
            drop(page, tmp_path / name)
            expect(page.locator("#model .error")).to_contain_text(words)
            expect(page.locator("#model .stages")).to_be_hidden()
            expect(page.get_by_role("button", name="Compile and run")).to_have_count(0)
        page.get_by_label("WebGPU").last.check(force=True)
        expect(page.locator("#model .error")).to_contain_text(told["x.npy"])
        assert not [each for each in asked if "pyodide" in each or "compile" in each]


MANY = """g (float[N, M] x, int64[N] ids, string[K] words, bool flag)
    => (float[N, M] y, string[K] same, int64[N] sum, bool no)
    { y = Relu (x)  same = Identity (words)  sum = Add (ids, ids)  no = Not (flag) }"""


@pytest.mark.slow
def test_numbers_texts_and_arrays_are_inputs(chromium: Chromium, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "many.onnx").write_bytes(model_of(MANY))
    np.save(tmp_path / "x.npy", np.array([[1, -2], [3, 4], [5, -6]], np.float64))
    np.save(tmp_path / "flag.npy", np.array(True))
    with visit(chromium, address) as page:
        drop(page, tmp_path / "many.onnx")
        model = page.locator("#model")
        field = {name: model.locator(f'textarea[name="{name}"]') for name in ("x", "ids", "words", "flag")}
        expect(field["x"]).to_be_visible()
        drop(page, tmp_path / "x.npy")
        expect(model.get_by_label("N", exact=True)).to_have_value("3")
        expect(model.get_by_label("M", exact=True)).to_have_value("2")
        field["ids"].fill("1 2 3.5")
        expect(model.locator(".wrong", has_text="3.5 is no integer, and int64 is wanted")).to_be_visible()
        field["ids"].fill("1 2 [3]")
        model.get_by_role("button", name="Compile and run").click()
        expect(field["ids"]).to_be_focused()
        expect(field["ids"]).to_have_attribute("aria-invalid", "true")
        field["ids"].fill("7 8 9")
        field["words"].fill("hello, you\nworld")
        expect(model.get_by_label("K", exact=True)).to_have_value("2")
        drop(page, tmp_path / "flag.npy")
        model.get_by_role("button", name="Compile and run").click()
        found = model.locator(".found tbody")
        expect(found).to_contain_text("0 … 5, mean 2.167", timeout=LIMIT)
        expect(found).to_contain_text("hello, you, world")
        expect(found).to_contain_text("14, 16, 18")
        expect(found).to_contain_text("false")
        expect(model.locator(".top")).to_have_count(0)
        expect(model.locator(".found")).to_contain_text("with x.npy and what you typed and flag.npy")
        field["ids"].fill("1")
        model.get_by_role("button", name="Run again").click()
        expect(found).to_contain_text("2, 2, 2")
        field["ids"].fill("1 2")
        expect(model.get_by_role("button", name="Compile and run")).to_be_visible()
        model.get_by_label("N", exact=True).fill("3")
        model.get_by_role("button", name="Run again").click()
        expect(model.locator(".error")).to_contain_text(
            "ids: 2 elements are given, and [3] has 3; one would stand for all"
        )


@pytest.mark.slow
def test_the_lines_for_a_page_run_the_model(chromium: Chromium, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    require("node")
    scripts = Path(demo.__file__).parents[1] / "sardonyx"
    with visit(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as page:
        drop(page, Path(str(DIGITS)))
        page.get_by_role("button", name="Compile and run").click()
        use = page.locator("#model .use")
        expect(use).to_be_visible(timeout=LIMIT)
        use.get_by_role("button", name="Copy").click()
        expect(use.get_by_role("status")).to_have_text("Copied")
        with page.expect_download() as saving:
            use.get_by_role("link", name="Save digits.sdx").click()
        saving.value.save_as(tmp_path / "digits.sdx")
        lines = evaluate(page, "navigator.clipboard.readText()")
    assert lines.count("\n") == 4
    (tmp_path / "index.html").write_text(f"<!doctype html>\n{lines}")
    chromium.site.folders |= {"mine": tmp_path}
    shutil.copytree(scripts, tmp_path / "sardonyx")
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        with page.expect_console_message(lambda message: message.type == "log") as printing:
            page.goto("/mine/index.html")
        (told,) = printing.value.args
        assert told.evaluate("({ probabilities }) => [...probabilities.dims, probabilities.data.length]") == [1, 10, 10]


@pytest.mark.slow
def test_a_digit_is_drawn_with_the_keyboard(chromium: Chromium, address: str) -> None:
    from playwright.sync_api import expect

    with visit(chromium, address) as page:
        for _ in range(12):
            page.keyboard.press("Tab")
            if evaluate(page, "document.activeElement.id") == "pad":
                break
        assert evaluate(page, 'document.querySelector("#pad").matches(":focus-visible")')
        said = page.locator("#pen")
        page.keyboard.press("Space")
        expect(said).to_have_text("Pen down, 50 % from the left, 25 % from the top")
        for _ in range(20):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
        expect(said).to_have_text("Pen up, 50 % from the left, 75 % from the top")
        page.keyboard.press("Shift+ArrowRight")
        expect(page.locator("#digit")).to_have_text("1")
        expect(page.locator("#spoken")).to_contain_text("This is a 1")
        assert evaluate(page, "scrollY") == 0
        page.keyboard.press("z")
        expect(page.locator("#digit")).to_have_text("?")
        page.keyboard.down("Space")  # a line is drawn while it is held, too
        for _ in range(12):
            page.keyboard.press("ArrowUp")
        page.keyboard.up("Space")
        expect(said).to_have_text("Pen up, 60 % from the left, 45 % from the top")
        expect(page.get_by_role("button", name="Undo")).to_be_enabled()


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


LONG = """g (float[1, 3] pixel_values_of_the_photograph)
    => (float[1, 3] AnUnusuallyLongNameWithoutSeparators, float[1, 3] z)
    { AnUnusuallyLongNameWithoutSeparators = Softmax (pixel_values_of_the_photograph)
      a = LayerNormalization (pixel_values_of_the_photograph, pixel_values_of_the_photograph)
      z = com.microsoft.SkipSimplifiedLayerNormalization (a, a, a) }"""


@pytest.mark.slow
def test_no_word_of_a_name_is_broken(chromium: Chromium, address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "a_rather_long_name_of_a_model_version_2.5.onnx").write_bytes(model_of(LONG))
    with visit(chromium, address, viewport={"width": 360, "height": 740}) as page:
        drop(page, *tmp_path.iterdir())
        expect(page.locator("#model .operators")).to_be_visible()
        broken = """[...document.querySelectorAll("#model .name")].flatMap((name) => [...name.childNodes])
        .filter((node) => {
            const range = document.createRange();
            range.selectNodeContents(node);
            return node.data && range.getClientRects().length !== 1;
        }).map((node) => node.data)"""
        assert evaluate(page, broken) == []
        assert evaluate(page, 'document.querySelectorAll("#model .name wbr").length') > 10
        assert evaluate(page, "document.documentElement.scrollWidth") == 360
