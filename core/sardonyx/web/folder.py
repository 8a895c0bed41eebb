"""A folder of a web server, with all that pages need of Sardonyx."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from sardonyx.errors import Fail
from sardonyx.version import __version__
from sardonyx.web import scripts
from sardonyx.web.distribution import LOCK, download, entry, needed, taken
from sardonyx.web.known import known
from sardonyx.web.wheel import PACKAGES, wheel


def write(folder: Path, pyodide: Path | None = None, *, compiler: bool = True) -> dict[str, int]:
    """Put into `folder` what the docstring of `sardonyx.web` lists, and give the sizes in bytes by path.

    `pyodide` is a distribution to take instead of downloading one; without `compiler` the scripts for bundles are all.

    Raises Fail and NoSuchFile with the remedy, ValueError where a file is not the one that it should be.
    """
    sizes = {}
    for path, data in _files(pyodide, compiler):
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise Fail(f"{target} cannot be written: {error}") from error
        sizes[path] = len(data)
    return sizes


COMPILER = ("compile.js", "compiler.js", "store.js")
"""The scripts that bundles do without."""


def _files(pyodide: Path | None, compiler: bool) -> Iterator[tuple[str, bytes]]:
    for folder in ("", "ort/"):
        for script in sorted((scripts() / folder).iterdir(), key=lambda item: item.name):
            if script.name.endswith((".js", ".json", ".ts")) and (compiler or script.name not in COMPILER):
                yield f"sardonyx/{folder}{script.name}", script.read_bytes()
    if not compiler:
        return
    yield "sardonyx/known.json", json.dumps(known(), separators=(",", ":")).encode()
    wheel_name, wheel_data = wheel()
    digest = hashlib.sha256(wheel_data).hexdigest()
    sizes = {wheel_name: len(wheel_data)}
    yield f"pyodide/{wheel_name}", wheel_data
    for name, data in taken(pyodide) if pyodide else download():
        if name == LOCK:
            lock = json.loads(data)
            lock["packages"]["sardonyx"] = entry("sardonyx", __version__, wheel_name, digest, ["numpy"], PACKAGES)
            data = json.dumps(lock, separators=(",", ":")).encode()
        sizes[name] = len(data)
        yield f"pyodide/{name}", data
    others = {each["file_name"] for each in lock["packages"].values()}
    others -= {each["file_name"] for each in needed(lock["packages"], ["sardonyx"]).values()}
    engine = {
        "release": __version__,
        "digest": digest,
        "wheel": f"../pyodide/{wheel_name}",
        # without scripts, of which nobody sees how they come, and what a compiler does not load
        "bytes": sum(size for name, size in sizes.items() if not name.endswith("js") and name not in others),
    }
    yield "sardonyx/engine.json", json.dumps(engine).encode()
