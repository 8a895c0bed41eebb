"""The npm package: what is in it, and that it runs under onnxruntime-web's name."""

from __future__ import annotations

import json
import os
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
from tests.support.npm import package
from tests.web.pages import RUNTIME, bundled

pytestmark = pytest.mark.slow
ENTRIES = ("", "/all", "/wasm", "/webgpu", "/webgl", "/jspi")
SCRIPT = """
import { readFile } from "node:fs/promises";
import * as common from "onnxruntime-common";
import ort, { InferenceSession, Tensor } from "onnxruntime-web";

const entries = await Promise.all(process.argv.slice(3).map((entry) => import(`onnxruntime-web${entry}`)));
const session = await InferenceSession.create(await readFile(process.argv[2]));
const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
const { probabilities } = await session.run({ image });
const isOne = entries.every((each) => each.Tensor === common.Tensor && each.default === ort);
console.log(JSON.stringify([[...probabilities.data], isOne]));
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's archive."""
    require("node")
    folder = tmp_path_factory.mktemp("packed")
    subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(folder), str(RUNTIME)], check=True)
    (archive,) = folder.iterdir()
    return archive


def test_it_is_small_and_whole(packed: Path) -> None:
    assert packed.name == f"sardonyx-{__version__}.tgz"
    assert packed.stat().st_size < 50_000
    with tarfile.open(packed) as tar:
        names = {name.removeprefix("package/") for name in tar.getnames()}
    assert names == {file.relative_to(RUNTIME).as_posix() for file in RUNTIME.rglob("*") if file.suffix}


def test_node_runs_it_under_another_name(packed: Path, tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path, filter="data")
    modules.mkdir()
    (tmp_path / "package").rename(modules / "onnxruntime-web")
    shutil.copytree(package("onnxruntime-common"), modules / "onnxruntime-common")
    bundle, script = tmp_path / "digits.onnx", tmp_path / "script.mjs"
    bundle.write_bytes(bundled(Path(str(assets() / "digits.onnx")), {}, ["wasm"], compress=True))
    script.write_text(SCRIPT)
    command = ["node", str(script), str(bundle), *ENTRIES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "NODE_PATH": ""})
    assert done.returncode == 0, done.stderr
    answer, is_one = json.loads(done.stdout)
    assert is_one
    (wanted,) = InferenceSession(bundle).run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    np.testing.assert_allclose(answer, wanted[0], rtol=1e-5)  # Node may lack relaxed SIMD
