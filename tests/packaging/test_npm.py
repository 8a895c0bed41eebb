"""The npm package: what is in it, and that it runs under onnxruntime-web's name."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.version import __version__
from tests.support import require
from tests.support.browser import open_chromium
from tests.support.npm import installed, package
from tests.web.pages import RUNTIME, bundled

pytestmark = pytest.mark.slow
ENTRIES = ("", "/all", "/wasm", "/webgpu", "/webgl", "/jspi")
SCRIPT = """
import { readFile } from "node:fs/promises";
import * as common from "onnxruntime-common";
import ort, { InferenceSession, Tensor } from "onnxruntime-web";

const entries = await Promise.all(process.argv.slice(3).map((entry) => import(`onnxruntime-web${entry}`)));
const missing = await InferenceSession.create("missing.onnx").catch(({ message }) => message);
const session = await InferenceSession.create(await readFile(process.argv[2]));
const beside = await InferenceSession.create("plain.onnx");
const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
const { probabilities } = await session.run({ image });
const others = await beside.run({ image });
const isSame = others.probabilities.data.every((each, k) => each === probabilities.data[k]);
const isOne = entries.every((each) => each.Tensor === common.Tensor && each.default === ort);
console.log(JSON.stringify([[...probabilities.data], isOne && isSame, missing]));
"""
REQUIRING = """
const { readFile } = require("node:fs/promises");
const common = require("onnxruntime-common");
const ort = require("onnxruntime-web");

const entries = process.argv.slice(3).map((entry) => require(`onnxruntime-web${entry}`));
(async () => {
  const session = await ort.InferenceSession.create(await readFile(process.argv[2]));
  const image = new ort.Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  const missing = await ort.InferenceSession.create("missing.onnx").catch(({ message }) => message);
  const isOne = entries.every((each) => each.Tensor === common.Tensor);
  console.log(JSON.stringify([[...probabilities.data], isOne, missing]));
})();
"""
TAGGED = """async () => {
  const session = await ort.InferenceSession.create("/data/digits.onnx");
  const image = new ort.Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  const isTold = Object.hasOwn(ort.env.webgpu, "device");
  return [[...probabilities.data], isTold && globalThis[Symbol.for("onnxruntime")] === ort];
}"""
IMAGE = {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's archive."""
    require("node")
    folder = tmp_path_factory.mktemp("packed")
    tools = installed("packing", {"esbuild": "0.24.0"})
    subprocess.run(["node", str(RUNTIME.parent / "pack.mjs"), str(folder), str(tools)], check=True)
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture
def modules(packed: Path, tmp_path: Path) -> Path:
    """A folder of Node's, with the package under another name."""
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path, filter="data")
    found = tmp_path / "node_modules"
    found.mkdir()
    (tmp_path / "package").rename(found / "onnxruntime-web")
    shutil.copytree(package("onnxruntime-common"), found / "onnxruntime-common")
    return found


@pytest.fixture(scope="module")
def digits() -> bytes:
    return bundled(Path(str(assets() / "digits.onnx")), {}, ["wasm"], compress=True)


def test_it_is_small_and_whole(packed: Path) -> None:
    assert packed.name == f"sardonyx-{__version__}.tgz"
    assert packed.stat().st_size < 105_000
    with tarfile.open(packed) as tar:
        sizes = {member.name.removeprefix("package/"): member.size for member in tar}
    made = {"sardonyx.min.js", "sardonyx.cjs"}
    assert sizes.keys() == made | {file.relative_to(RUNTIME).as_posix() for file in RUNTIME.rglob("*") if file.suffix}
    assert sizes["sardonyx.min.js"] < 80_000


@pytest.mark.parametrize("kind", ["mjs", "cjs"])
def test_node_runs_it_under_another_name(kind: str, modules: Path, digits: bytes) -> None:
    bundle, script = modules.parent / "digits.onnx", modules.parent / f"script.{kind}"
    bundle.write_bytes(digits)
    (modules.parent / "plain.onnx").write_bytes((assets() / "digits.onnx").read_bytes())
    (modules.parent / "plain.onnx.sdx").write_bytes(digits)
    script.write_text(SCRIPT if kind == "mjs" else REQUIRING)
    command = ["node", str(script), str(bundle), *ENTRIES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=modules.parent)
    assert done.returncode == 0, done.stderr
    answer, is_one, missing = json.loads(done.stdout)
    assert is_one
    assert missing == "missing.onnx: there is no such file"
    (wanted,) = InferenceSession(bundle).run(None, IMAGE)
    np.testing.assert_allclose(answer, wanted[0], rtol=1e-5)  # Node may lack relaxed SIMD


def test_a_script_tag_is_enough(modules: Path, digits: bytes) -> None:
    require("browser")
    with open_chromium({"packed": modules / "onnxruntime-web"}) as chromium:
        chromium.site.data["digits.onnx"] = digits
        page = chromium.browser.new_page()
        page.goto(f"{chromium.site.address}/support/page.html")
        page.add_script_tag(url="/packed/sardonyx.min.js")
        answer, is_told = page.evaluate(TAGGED)
        assert "/packed/host.js" in chromium.site.requests
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    np.testing.assert_array_equal(np.float32(answer), wanted[0])
    assert is_told
