"""The npm package: what is in it, and that it runs under onnxruntime-web's name."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.version import __version__
from tests.support import require
from tests.support.browser import open_chromium
from tests.support.npm import installed, package, packed_runtime
from tests.web.pages import RUNTIME, bundled

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
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
RESOLVING = """
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const isThere = (name) => existsSync(fileURLToPath(import.meta.resolve(`onnxruntime-web/${name}`)));
const missing = process.argv.slice(2).filter((name) => !isThere(name));
console.log(JSON.stringify(missing));
"""
INDEXED = """
import { InferenceSession, Tensor, env } from "onnxruntime-web";

const image = new Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
const found = [];
for (const index of ["site/sardonyx.json", `${process.cwd()}/site/sardonyx.json`]) {
  env.sardonyx.bundles = index;
  const session = await InferenceSession.create("model.onnx");
  found.push([...(await session.run({ image, rate: new Tensor("int64", [1n]) })).probabilities.data]);
}
console.log(JSON.stringify(found));
"""
TAGGED = """async () => {
  ort.env.wasm.proxy = true;
  const session = await ort.InferenceSession.create("/data/digits.onnx");
  const image = new ort.Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  const isTold = Object.hasOwn(ort.env.webgpu, "device");
  return [[...probabilities.data], isTold && globalThis[Symbol.for("onnxruntime")] === ort];
}"""
TYPED = """
import * as ort from "onnxruntime-web";
import { InferenceSession, Tensor, type InferenceSession as Session } from "onnxruntime-web/webgpu";
import defaults from "onnxruntime-web/wasm";
import { load, type LoadOptions, type Progress } from "onnxruntime-web/runtime";
import { compile } from "onnxruntime-web/compile";
import { mark, watch } from "onnxruntime-web/vision";
import { TrainingSession } from "onnxruntime-web/training";
import sardonyx from "onnxruntime-web/vite";

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = "/";
ort.env.logLevel = "error";
ort.env.sardonyx.bundles = "/sardonyx.json";
const options: Session.SessionOptions = {
  executionProviders: ["webgpu", { name: "wasm" }],
  graphOptimizationLevel: "all",
  freeDimensionOverrides: { batch: 1 },
  preferredOutputLocation: "gpu-buffer",
  externalData: [{ path: "weights.bin", data: new Uint8Array(4) }],
  extra: { signal: new AbortController().signal },
};
export async function run(bytes: Uint8Array): Promise<number[]> {
  const session = await InferenceSession.create(bytes, options);
  const feeds: Record<string, ort.Tensor> = { x: new Tensor("float32", new Float32Array(4), [2, 2]) };
  const results: Session.OnnxValueMapType = await session.run(feeds, { terminate: false });
  const y = results[session.outputNames[0]!]!;
  await session.release();
  return Array.from((await y.getData()) as Float32Array);
}
export async function show(video: HTMLVideoElement, canvas: HTMLCanvasElement): Promise<void> {
  for await (const seen of watch(await load("detector.sdx"), video)) mark(canvas, seen);
}
export async function own(more: LoadOptions): Promise<Float32Array> {
  const progress = ({ stage, loaded, total }: Progress): void => console.log(stage, loaded / total);
  const session = await load(["a.sdx.0", "a.sdx.1"], { ...more, progress });
  const { y } = await session.run({ x: { type: "float32", data: new Float32Array(4), dims: [4] } });
  session.release();
  return y!.data as Float32Array;
}
export async function taught(feeds: Record<string, ort.Tensor>): Promise<Uint8Array> {
  const session = await TrainingSession.create("net.sdx", { target: "webgpu" });
  session.learningRate = 0.01;
  const { loss } = await session.runTrainStep(feeds, ["loss"]);
  await session.runOptimizerStep();
  await session.lazyResetGrad();
  console.log(loss!.data[0], session.trainingInputNames.length, (await session.getContiguousParameters(true)).dims);
  return session.export("onnx", { classes: "cat,dog" });
}
export const made = compile("net.onnx", { sizes: { batch: 1, sequence: "?16" }, target: ["webgpu", "wasm"] });
export const plugin = sardonyx((file) => ({ target: "webgpu", sizes: { batch: file.length } }));
export const version: string = defaults.env.versions.common;
// @ts-expect-error: there is no such option
export const wrong = sardonyx({ targets: "wasm" });
"""
OPTIONS = {
    "compilerOptions": {
        "strict": True,
        "esModuleInterop": True,
        "noUncheckedIndexedAccess": True,
        "noEmit": True,
        "target": "ES2022",
        "lib": ["ES2022", "DOM"],
        "types": [],
    },
    "files": ["page.ts"],
}
MANIFEST = {
    "manifest_version": 3,
    "name": "digits",
    "version": "1",
    "background": {"service_worker": "background.js"},
    "content_security_policy": {"extension_pages": "script-src 'self' 'wasm-unsafe-eval'"},
}
ANSWER = """
globalThis.answer = async () => {
  const session = await ort.InferenceSession.create("digits.onnx");
  const image = new ort.Tensor("float32", new Float32Array(784).fill(0.5), [1, 1, 28, 28]);
  const { probabilities } = await session.run({ image });
  return [...probabilities.data];
};
"""
BACKGROUND = """
importScripts("sardonyx.min.js", "answer.js");
chrome.runtime.onMessage.addListener((_, __, reply) => {
  answer().then(reply, ({ message }) => reply(message));
  return true;
});
"""
PAGE = '<!doctype html><script src="sardonyx.min.js"></script><script src="answer.js"></script>'
IMAGE = {"image": np.full((1, 1, 28, 28), 0.5, np.float32)}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's archive."""
    require("node")
    return packed_runtime(tmp_path_factory.mktemp("packed"))


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
    assert packed.stat().st_size < 210_000
    with tarfile.open(packed) as tar:
        sizes = {member.name.removeprefix("package/"): member.size for member in tar}
    made = {"sardonyx.min.js", "sardonyx.min.mjs", "sardonyx.cjs"}
    made |= {"ort/index.d.cts", *(f"dist/{file.name}" for file in engine())}
    assert sizes.keys() == made | {file.relative_to(RUNTIME).as_posix() for file in RUNTIME.rglob("*") if file.suffix}
    assert sizes["sardonyx.min.mjs"] < sizes["sardonyx.min.js"] < 99_000


def engine() -> list[Path]:
    """The files of onnxruntime-web's engine, which apps copy, and tell `env.wasm.wasmPaths` of."""
    return [*(package("onnxruntime-web") / "dist").glob("ort-wasm-*")]


def test_it_has_the_files_that_apps_take_from_onnxruntime_web(modules: Path) -> None:
    """By the names that its `exports` have, and by those of earlier releases, which had none."""
    exported = json.loads((package("onnxruntime-web") / "package.json").read_text())["exports"]
    older = [
        "ort.min.js",
        "ort-web.min.js",
        "ort.webgpu.bundle.min.mjs",
        "ort-wasm.wasm",
        *(file.name for file in engine()),
    ]
    names = [*(name.removeprefix("./") for name in exported if name != "."), *(f"dist/{name}" for name in older)]
    script = modules.parent / "script.mjs"
    script.write_text(RESOLVING)
    done = subprocess.run(
        ["node", str(script), *names], capture_output=True, text=True, cwd=modules.parent, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    for file in (modules / "onnxruntime-web" / "dist").glob("*.wasm"):
        assert file.read_bytes() == b"\0asm\1\0\0\0"


@pytest.mark.parametrize("kind", ["mjs", "cjs"])
def test_node_runs_it_under_another_name(kind: str, modules: Path, digits: bytes) -> None:
    bundle, script = modules.parent / "digits.onnx", modules.parent / f"script.{kind}"
    bundle.write_bytes(digits)
    (modules.parent / "plain.onnx").write_bytes((assets() / "digits.onnx").read_bytes())
    (modules.parent / "plain.onnx.sdx").write_bytes(digits)
    script.write_text(SCRIPT if kind == "mjs" else REQUIRING)
    command = ["node", str(script), str(bundle), *ENTRIES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=modules.parent, timeout=500)
    assert done.returncode == 0, done.stderr
    answer, is_one, missing = json.loads(done.stdout)
    assert is_one
    assert missing == "missing.onnx: there is no such file"
    (wanted,) = InferenceSession(bundle).run(None, IMAGE)
    np.testing.assert_allclose(answer, wanted[0], rtol=1e-5)  # Node may lack relaxed SIMD


def test_node_finds_bundles_by_an_index_that_is_a_path(modules: Path, digits: bytes) -> None:
    """And inputs that a model lacks are ignored, as onnxruntime-node does."""
    model, site = (assets() / "digits.onnx").read_bytes(), modules.parent / "site"
    site.mkdir()
    (modules.parent / "model.onnx").write_bytes(model)
    (site / "its code.sdx").write_bytes(digits)
    (site / "sardonyx.json").write_text(json.dumps({"bundles": {hashlib.sha256(model).hexdigest(): "its code.sdx"}}))
    script = modules.parent / "script.mjs"
    script.write_text(INDEXED)
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, cwd=modules.parent, timeout=500)
    assert done.returncode == 0, done.stderr
    (wanted,) = onnxruntime.InferenceSession(model).run(None, IMAGE)
    for answer in json.loads(done.stdout):
        np.testing.assert_allclose(answer, wanted[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("file", "is_global"), [("sardonyx.min.js", True), ("sardonyx.min.mjs", False)])
def test_one_file_is_enough(file: str, is_global: bool, modules: Path, digits: bytes) -> None:
    """And one for the worker: by a script tag, and as a module."""
    require("browser")
    with open_chromium({"packed": modules / "onnxruntime-web"}) as chromium:
        chromium.site.data["digits.onnx"] = digits
        page = chromium.browser.new_page()
        page.goto(f"{chromium.site.address}/support/page.html")
        if is_global:
            page.add_script_tag(url=f"/packed/{file}")
        else:
            page.evaluate("async (path) => { globalThis.ort = await import(path); }", f"/packed/{file}")
        answer, is_told = page.evaluate(TAGGED)
        asked = [path for path in chromium.site.requests if path.startswith("/packed/")]
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    np.testing.assert_array_equal(np.float32(answer), wanted[0])
    assert is_told == is_global
    assert {*asked} - {"/packed/helper.js"} == {f"/packed/{file}", "/packed/host.js"}


def assert_it_compiles(folder: Path, page: str, kind: str, module: str, resolution: str) -> None:
    """By TypeScript, in a package that has modules, or is of CommonJS."""
    options = OPTIONS["compilerOptions"] | {"module": module, "moduleResolution": resolution}  # type: ignore[operator]
    (folder / "package.json").write_text(json.dumps({"type": kind}))
    (folder / "tsconfig.json").write_text(json.dumps({**OPTIONS, "compilerOptions": options}))
    (folder / "page.ts").write_text(page)
    tool = installed("typescript", {"typescript": "5.9.3"}) / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(["node", str(tool)], cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("resolution", ["bundler", "nodenext"])
def test_types_are_onnxruntime_webs(resolution: str, modules: Path) -> None:
    assert_it_compiles(modules.parent, TYPED, "module", "esnext" if resolution == "bundler" else resolution, resolution)


@pytest.mark.parametrize(
    ("kind", "module", "resolution"),
    [
        ("module", "esnext", "bundler"),
        ("module", "esnext", "node10"),
        ("commonjs", "node16", "node16"),
        ("commonjs", "nodenext", "nodenext"),
        ("commonjs", "commonjs", "node10"),
    ],
)
def test_what_was_typed_for_onnxruntime_web_compiles(kind: str, module: str, resolution: str, modules: Path) -> None:
    assert_it_compiles(modules.parent, (HERE / "surface.ts").read_text(), kind, module, resolution)


def test_extensions_carry_it(modules: Path, digits: bytes, tmp_path: Path) -> None:
    """A page and the service worker of an extension, which may load nothing from elsewhere."""
    require("browser")
    from playwright.sync_api import sync_playwright

    folder = tmp_path / "extension"
    shutil.copytree(modules / "onnxruntime-web", folder)
    files = {"manifest.json": json.dumps(MANIFEST), "answer.js": ANSWER, "background.js": BACKGROUND, "page.html": PAGE}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "digits.onnx").write_bytes(digits)
    arguments = [
        "--no-sandbox",
        "--headless=new",
        f"--disable-extensions-except={folder}",
        f"--load-extension={folder}",
    ]
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "profile", executable_path=shutil.which("chromium"), args=arguments, headless=False
        )
        worker = context.service_workers[0] if context.service_workers else context.wait_for_event("serviceworker")
        page = context.new_page()
        page.goto(worker.url.replace("background.js", "page.html"))
        answers = page.evaluate("async () => [await answer(), await chrome.runtime.sendMessage('')]")
        context.close()
    (wanted,) = InferenceSession(digits).run(None, IMAGE)
    for answer in answers:
        np.testing.assert_array_equal(np.float32(answer), wanted[0])
