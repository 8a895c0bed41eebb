"""Models that bundlers compile while they build an app: Vite, in its builds and its server, and webpack."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from tests.support import node, require
from tests.support.browser import Chromium
from tests.support.npm import installed, replaced, unpacked_runtime
from tests.web.pages import HERE
from tests.web.test_apps import BUILDS, BUNDLERS

DIGITS = Path(str(assets() / "digits.onnx"))
PROGRAM = [sys.executable, "-m", "sardonyx"]
PAGE = '<!doctype html><script type="module" src="{}"></script>'
CONFIGS = {
    "vite": 'import sardonyx from "onnxruntime-web/vite";\nexport default { plugins: [sardonyx(%s)] };',
    "webpack": """export default {
  module: { rules: [{ test: /\\.onnx$/, type: "asset/resource", loader: "onnxruntime-web/webpack", options: %s }] },
};""",
}
COMPILING = """
const { compiled } = await load("bundlers/compiler.js");
const { readFile } = await import("node:fs/promises");
const told = (options) => compiled(given.model, { cache: given.cache, ...options });
const message = (promise) => promise.then(() => "no error", (error) => error.message);
const [first, again] = await Promise.all([told({ command: given.command }), told({ command: given.command })]);
const other = await told({ command: given.command, target: ["webgpu", "wasm"], sizes: { N: 1 } });
return {
  first, again, other, bytes: [...(await readFile(first)).subarray(0, 4)],
  none: await message(told({ command: "no-such-program" })),
  wrong: await message(told({ command: given.command, sizes: { nothing: 1 } })),
};
"""
TRANSFORMING = """
const { default: plugin } = await load("bundlers/vite.js");
return Object.entries(given).map(([id, code]) => plugin().transform(code, id).code);
"""


def write_app(bundler: str, folder: Path, program: list[str] = PROGRAM) -> None:
    """An app that imports a model, and has the same one in its public folder."""
    with unpacked_runtime() as package:
        replaced(installed("bundlers", BUNDLERS), folder, package)
    shutil.copy(HERE / "apps" / "models.js", folder)
    shutil.copy(DIGITS, folder / "digits.onnx")
    (folder / "public" / "models").mkdir(parents=True)
    shutil.copy(DIGITS, folder / "public" / "models" / "net.onnx")
    (folder / "index.html").write_text(PAGE.format("./models.js"))
    (folder / f"{bundler}.config.js").write_text(CONFIGS[bundler] % json.dumps({"command": program}))


def assert_it_answers(chromium: Chromium, address: str, *models: str) -> None:
    page = chromium.browser.new_page()
    page.goto(address)
    page.wait_for_function("Boolean(globalThis.answer)")
    found = [page.evaluate("(model) => answer(model)", model) for model in models]
    page.close()
    (wanted,) = InferenceSession(DIGITS).run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    np.testing.assert_allclose(found, np.broadcast_to(wanted, (len(models), 10)), atol=1e-6)


@pytest.mark.slow
def test_models_are_compiled_once(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    model.write_bytes(DIGITS.read_bytes())
    cache = tmp_path / "cache"
    told = node.run(COMPILING, {"model": str(model), "cache": str(cache), "command": PROGRAM})
    assert told["first"] == told["again"]
    assert told["bytes"] == [*b"\x89SDX"]
    assert told["other"] != told["first"]
    assert InferenceSession(told["other"]).get_inputs()[0].shape[0] == 1
    assert told["none"].startswith("there is no program no-such-program: install the Python package sardonyx")
    assert told["wrong"].startswith(f"{model} cannot be compiled: ")
    assert "nothing" in told["wrong"]
    assert sorted(file.name for file in cache.rglob("*.*")) == ["net.onnx", "net.onnx"]


def test_addresses_in_components_are_imported_in_their_script() -> None:
    code = 'const a = new URL("./net.onnx", import.meta.url);'
    texts = {"app.js": code, "App.vue": f"<template>a</template>\n<script setup>\n{code}\n</script>"}
    told = node.run(TRANSFORMING, texts)
    line = 'import sardonyx_model_0 from "./net.onnx?url";'
    made = "const a = new URL(sardonyx_model_0, import.meta.url);"
    assert told == [line + made, f"<template>a</template>\n<script setup>{line}\n{made}\n</script>"]


@pytest.mark.nightly
@pytest.mark.parametrize("bundler", CONFIGS)
def test_builds_compile_models(bundler: str, chromium: Chromium, app: Path) -> None:
    write_app(bundler, app)
    command = [part.replace("digits.js", "models.js") for part in BUILDS[bundler]]
    done = subprocess.run(["npx", *command], cwd=app, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    page = app / "dist" / "index.html"
    if bundler == "webpack":
        page.write_text(PAGE.format("main.js"))
    models = ["imported", "beside", *["/app/models/net.onnx"] * (bundler == "vite")]
    assert_it_answers(chromium, f"{chromium.site.address}/app/index.html", *models)
    assert not any(file.read_bytes() == DIGITS.read_bytes() for file in (app / "dist").rglob("*.onnx"))


@pytest.mark.nightly
def test_a_build_without_python_says_so(tmp_path: Path) -> None:
    require("node")
    folder = tmp_path / "app"
    write_app("vite", folder, ["no-such-program"])
    done = subprocess.run(["npx", *BUILDS["vite"]], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode
    assert "install the Python package sardonyx" in done.stderr


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of Vite's server for an app."""
    command = ["node", "node_modules/vite/bin/vite.js", "--port", "0", "--host", "127.0.0.1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = (re.sub(r"\x1b\[\d+m", "", line) for line in process.stdout)
        try:
            yield next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.nightly
def test_the_server_compiles_models(chromium: Chromium, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    write_app("vite", folder)
    with served(folder) as address:
        assert_it_answers(chromium, address, "imported", "beside", "/models/net.onnx")
        kept = {*(folder / "node_modules" / ".cache").rglob("digits.onnx")}
        assert len(kept) == 1
        text = DIGITS.read_bytes()
        (folder / "digits.onnx").write_bytes(text + b"\x32\x03new")  # a text for readers
        assert_it_answers(chromium, address, "imported")
        assert len({*(folder / "node_modules" / ".cache").rglob("digits.onnx")}) == 2
