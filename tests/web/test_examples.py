"""The examples for browsers, as they are: what they get from the network is answered from this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sardonyx.cli import main
from sardonyx.demo import assets
from tests.pyodide.assemble import assemble
from tests.support import absent, require
from tests.support.browser import TYPES, Chromium
from tests.support.cache import CACHE, cached, downloaded, verified
from tests.support.wheel import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
PYSCRIPT = ("0.6.66", "973182bd45a4d615c436a45a442a6fffc3a6acb170ea755ff30071b16ef5fe82")
"""One whose own Pyodide is that of the tests, and its digest."""
MARIMO = "0.25.2"
LIMIT = 120_000  # milliseconds for Python to start, on a machine that is busy
NOTEBOOK = """async ([cells, wheel]) => {
  const { loadPyodide } = await import("/pyodide/pyodide.mjs");
  const printed = [];
  const pyodide = await loadPyodide({ stdout: (line) => printed.at(-1).push(line) });
  pyodide.FS.writeFile(wheel, new Uint8Array(await fetch(`/wheel/${wheel}`).then((found) => found.arrayBuffer())));
  await pyodide.loadPackage("micropip", { messageCallback() {} });
  for (const cell of cells) {
    printed.push([]);
    const result = await pyodide.runPythonAsync(cell);
    if (result !== undefined) printed.at(-1).push(String(result));
  }
  return printed;
}"""
"""What a notebook does with its cells, a wheel beside it; a list of lines for each."""


def fetched(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name in the cache, which `make(folder)` fills; without which the test says so."""

    def fill(scratch: Path) -> None:
        (scratch / name).mkdir()
        make(scratch / name)

    try:
        return cached(CACHE / name, fill)
    except subprocess.CalledProcessError as error:
        absent(f"{name} cannot be fetched: {error}")


def fetch_pyscript(folder: Path) -> None:
    version, digest = PYSCRIPT
    with downloaded("npm", "@pyscript/core", version) as archive:
        verified(archive.read_bytes(), digest, archive.name)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")


def fetch_marimo(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", f"marimo=={MARIMO}"]
    subprocess.run([*command, "--target", str(folder)], check=True, timeout=500)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `sardonyx web` makes."""
    require("pyodide")
    folder = tmp_path_factory.mktemp("laid")
    assert main(["web", str(folder), "--pyodide", str(assemble())]) == 0
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smallest page, with what the commands of examples/README.md put beside it."""
    folder = tmp_path_factory.mktemp("bundle")
    model, target = str(assets() / "digits.onnx"), str(folder / "digits.sdx")
    assert main(["web", str(folder), "--bundles-only"]) == 0
    assert main(["compile", model, "--output", target, "--shape", "image=1x1x28x28"]) == 0
    shutil.copy(EXAMPLES / "page" / "index.html", folder)
    return folder


@pytest.fixture(scope="module")
def site_folders(laid: Path, bundle: Path) -> Mapping[str, Path]:
    """The examples and what their commands make, and the page runtime nowhere else."""
    return {"examples": EXAMPLES, "bundle": bundle, "laid": laid}


@pytest.fixture
def page(chromium: Chromium, wheel: Path) -> Iterator[Any]:
    """A page at the site, beside which the wheel lies; this machine answers as Pyodide's place, and no index does."""
    with chromium.visitor() as visitor:
        visitor.route("**/*", outside)
        visitor.route(
            f"**/examples/**/{wheel.name}", lambda route: answer(route, "application/octet-stream", path=wheel)
        )
        visitor.route("**/pyodide/v*/full/*", lambda route: answer_file(route, assemble()))
        yield visitor.new_page()


def outside(route: Any) -> None:
    """Let no request through that leaves this machine."""
    if urlsplit(route.request.url).hostname in ("127.0.0.1", None):
        route.fallback()
    else:
        route.abort()


def answer_file(route: Any, folder: Path) -> None:
    """Fulfil a request with the file of its name."""
    file = folder / route.request.url.rpartition("/")[2]
    answer(route, {**TYPES, ".css": "text/css"}.get(file.suffix, "application/octet-stream"), path=file)


def answer(route: Any, kind: str, **what: Any) -> None:
    """Fulfil a request to another origin, so that an isolated page may have it."""
    headers = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
    route.fulfill(headers={**headers, "content-type": kind}, **what)


def read_digit(lines: list[str]) -> int:
    """The likeliest digit, from the bars that every example draws."""
    shares = [float(line.split()[1].rstrip("%")) for line in lines]
    assert [line.split()[0] for line in lines] == [*"0123456789"]
    assert abs(sum(shares) - 100) < 0.1
    assert all(abs(line.count("█") - 0.3 * share) <= 1 for line, share in zip(lines, shares, strict=True))
    return shares.index(max(shares))


def test_notebook(page: Any, wheel: Path) -> None:
    notebook = json.loads((EXAMPLES / "notebook" / "digits.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    page.goto("/support/page.html")
    printed = page.evaluate(NOTEBOOK, [["".join(cell["source"]) for cell in cells], wheel.name])
    _, providers, picture, bars = printed
    assert "WasmExecutionProvider" in providers[0]
    assert len(picture) == 11
    assert read_digit(bars) == 7


def test_pyscript(page: Any) -> None:
    scripts = fetched(f"pyscript-{PYSCRIPT[0]}", fetch_pyscript) / "package" / "dist"
    page.context.route("https://pyscript.net/**", lambda route: answer_file(route, scripts))
    page.goto("/examples/pyscript/index.html")
    try_pictures(page)


def test_pyscript_without_a_network(page: Any) -> None:
    """With what `sardonyx web` makes, PyScript's own scripts, and the two lines of examples/README.md."""
    scripts = fetched(f"pyscript-{PYSCRIPT[0]}", fetch_pyscript) / "package" / "dist"
    lines = re.findall(r"^    ((?:interpreter|packages) = .*)$", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 2
    html = re.sub(r"https://pyscript\.net/[^/]*/[^/]*/", "scripts/", (EXAMPLES / "pyscript" / "index.html").read_text())
    page.context.route("**/laid/index.html", lambda route: answer(route, "text/html", body=html))
    page.context.route("**/laid/scripts/**", lambda route: answer_file(route, scripts))
    page.context.route("**/laid/main.py", lambda route: answer_file(route, EXAMPLES / "pyscript"))
    page.context.route("**/laid/pyscript.toml", lambda route: answer(route, "text/plain", body="\n".join(lines)))
    page.goto("/laid/index.html")
    try_pictures(page)


def try_pictures(page: Any) -> None:
    from playwright.sync_api import expect

    bars = page.locator("#answer")
    expect(bars).to_contain_text("%", timeout=LIMIT)
    assert read_digit(bars.inner_text().splitlines()) == 0
    for name in ("7_drawn.png", "4_heldout.png"):
        page.locator("#pictures").select_option(name)
        expect(bars).to_contain_text(re.compile(rf"\b{name[0]} +\d\d\.\d\d%"))
        assert read_digit(bars.inner_text().splitlines()) == int(name[0])


def test_what_the_readme_shows_runs(page: Any) -> None:
    """Its JavaScript, in a page beside `sardonyx/` and a bundle."""
    (snippet,) = re.findall(r"```js\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    html = f'<!doctype html><script type="module">{snippet}; document.title = probabilities.dims.join(" by ");</script>'
    page.context.route("**/bundle/snippet.html", lambda route: answer(route, "text/html", body=html))
    page.goto("/bundle/snippet.html")
    page.wait_for_function('document.title === "1 by 10"')


def test_page(page: Any) -> None:
    from playwright.sync_api import expect

    page.goto("/bundle/index.html")
    bars = page.locator("#answer")
    expect(bars).to_contain_text("%")
    assert read_digit(bars.inner_text().splitlines()) == 1


READ = """
import digits, marimo
from sardonyx.demo import picture

print(digits.app.run()[1]["bars"])
choice = marimo.ui.dropdown({"4": picture("4_drawn.png")}, value="4")
print(digits.app.run(defs={"choice": choice})[1]["bars"])
"""


@pytest.mark.nightly
def test_marimo() -> None:
    """Without a browser; marimo with all that it needs is too large for every day."""
    packages = fetched(f"marimo-{MARIMO}", fetch_marimo)
    places = map(str, (EXAMPLES / "marimo", *sys.path, packages))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run([sys.executable, "-c", READ], env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [read_digit(lines[:10]), read_digit(lines[10:])] == [7, 4]
