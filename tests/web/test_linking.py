"""The linked page runtime: what its files export is what the modules export, and there is one of each in a page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sardonyx.errors import Fail
from sardonyx.web.linking import linked, served
from tests.support import require
from tests.support.npm import package
from tests.web.pages import RUNTIME

EXPORTS = """
const paths = JSON.parse(process.argv[1]);
const told = {};
for (const path of paths) {
  const found = await import(path);
  const names = Object.keys(found).filter((name) => name !== "MODULES");
  told[path] = Object.fromEntries(names.map((name) => [name, typeof found[name]]));
}
console.log(JSON.stringify(told));
"""
ONCE = """
const [runtime, compile, index, training] = await Promise.all(JSON.parse(process.argv[1]).map((path) => import(path)));
console.log(JSON.stringify([
  runtime.Tensor === compile.Tensor,
  runtime.Tensor === training.Tensor,
  runtime.MODULES["types.js"].Tensor === runtime.Tensor,
  index.default.InferenceSession === index.InferenceSession,
]));
"""
SIDES = ("modules", "linked")
WORKERS = {"host.js", "helper.js", "compiler.js", "training_host.js"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the linked files, and one with the modules, where both find their packages."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "onnxruntime-common").symlink_to(package("onnxruntime-common"))
    (folder / "modules").symlink_to(RUNTIME)
    for path, text in served().items():
        file = folder / "linked" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    return folder


def told(script: str, folder: Path, paths: list[str]) -> Any:
    require("node")
    given = json.dumps([f"./{path}" for path in paths])
    command = ["node", "--preserve-symlinks", "--input-type=module", "--eval", script, given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_files_export_what_modules_do(site: Path) -> None:
    paths = sorted(path for path in served() if path.endswith(".js") and path not in WORKERS)
    assert {"runtime.js", "compile.js", "ort/index.js", "genai/chat.js", "downloads.js"} <= {*paths}
    assert {"types.js", "wasm.js", "ort/backend.js"}.isdisjoint(paths)
    modules, files = ([*told(EXPORTS, site, [f"{side}/{path}" for path in paths]).values()] for side in SIDES)
    assert modules == files


def test_a_page_has_each_module_once(site: Path) -> None:
    paths = ["runtime.js", "compile.js", "ort/index.js", "training.js"]
    assert told(ONCE, site, [f"linked/{path}" for path in paths]) == [True] * 4


def test_a_worker_needs_one_file() -> None:
    files = served()
    assert files.keys() >= WORKERS
    assert not [path for path in WORKERS if b"\nimport " in b"\n" + files[path]]
    assert files["runtime.js"].startswith(b"export const MODULES = {};")


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ('import b from "./c.js";', 'b.js cannot be linked, .*: import b from "./c.js";'),
        ("export let two = 2;", "b.js cannot be linked, .*: export let two = 2;"),
        ("export default class {}", "b.js cannot be linked, .*: export default class {}"),
    ],
)
def test_other_forms_are_refused(module: str, complaint: str) -> None:
    files = {"package.json": '{"exports": {".": "./runtime.js"}}', "b.js": module, "c.js": "export const b = 1;"}
    with pytest.raises(Fail, match=complaint):
        linked(files | {"runtime.js": 'import { two } from "./b.js";'})


def test_modules_that_tell_places_stay_in_their_folder() -> None:
    files = {"package.json": '{"exports": {".": "./runtime.js", "./a": "./a/b.js"}}', "runtime.js": ""}
    files |= {"a/b.js": 'import { here } from "../c.js";', "c.js": "export const here = import.meta.url;"}
    with pytest.raises(Fail, match=r"c.js tells where files lie, so a/b.js, in another folder, cannot have it inside"):
        linked(files)


def test_lines_of_comments_are_left_out_and_code_stays() -> None:
    goes = ["/** What it", " * is. */", "  // goes", "/** last */"]
    stays = ["export const a = 1; // stays", "/** with code */ export const b = 2;"]
    text = "\n".join([*goes[:2], stays[0], goes[2], stays[1], goes[3], ""])
    files = {"package.json": '{"exports": {".": "./runtime.js"}}', "runtime.js": text}
    _, *lines = linked(files)["runtime.js"].splitlines()
    assert lines == stays
