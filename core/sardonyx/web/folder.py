"""A folder of a web server, with all that pages need of Sardonyx."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

from sardonyx.errors import Fail
from sardonyx.version import __version__
from sardonyx.web.bytecode import PACKED
from sardonyx.web.distribution import GLUE, LOCK, download, entry, needed, taken
from sardonyx.web.interpreter import made
from sardonyx.web.known import known
from sardonyx.web.linking import served
from sardonyx.web.wheel import PACKAGES, wheel

COMPILER = ("compile.js", "compile.d.ts", "compiler.js", "ort/deferred.js")
"""The scripts that bundles do without."""
STDLIB, WASM = "python_stdlib.zip", "pyodide.asm.wasm"


def write(folder: Path, pyodide: Path | None = None, *, compiler: bool = True, bytecode: bool = True) -> dict[str, int]:
    """Put into `folder` what the docstring of `sardonyx.web` lists, and give the sizes in bytes by path.

    `pyodide` is a distribution to take instead of downloading one; without `compiler` the scripts for bundles are all.
    Without `bytecode` Python's archives stay as they are; where nobody can make it, too, with a warning.

    Raises Fail and NoSuchFile with the remedy, ValueError where a file is not the one that it should be.
    """
    sizes = {}
    for path, data in _files(pyodide, compiler, bytecode):
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise Fail(f"{target} cannot be written: {error}") from error
        sizes[path] = len(data)
    return sizes


def _files(pyodide: Path | None, compiler: bool, bytecode: bool) -> Iterator[tuple[str, bytes]]:
    for path, script in served().items():
        if compiler or path not in COMPILER:
            yield f"sardonyx/{path}", script
    if not compiler:
        return
    yield "sardonyx/known.json", json.dumps(known(), separators=(",", ":")).encode()
    files = dict(taken(pyodide) if pyodide else download())
    own, lean = _with_wheel(files, bytecode)
    yield from ((f"pyodide/{name}", data) for name, data in (files | lean).items())
    packages = json.loads(files[LOCK])["packages"]
    wheels = [each["file_name"] for each in reversed(needed(packages, ["sardonyx"]).values())]
    loaded = [f"lean/{name}{PACKED}" if lean else name for name in (STDLIB, *wheels)]
    rest = [STDLIB, *wheels, *sorted(lean.keys() - {*loaded})]
    glue = next(name for name in GLUE if name in files)
    engine = {
        "release": __version__,
        "digest": packages["sardonyx"]["sha256"],
        "wheel": f"../pyodide/{own}",
        "core": [f"../pyodide/{name}" for name in (glue, WASM, LOCK)],
        "stdlib": f"../pyodide/{loaded[0]}",
        "packages": [f"../pyodide/{name}" for name in loaded[1:]],
        "rest": [f"../pyodide/{name}" for name in rest] if lean else [],
        # without scripts, of which nobody sees how they come
        "bytes": sum(len((files | lean)[name]) for name in (WASM, LOCK, *loaded)),
    }
    yield "sardonyx/engine.json", json.dumps(engine).encode()


def _with_wheel(files: dict[str, bytes], bytecode: bool) -> tuple[str, dict[str, bytes]]:
    """Add this package to a distribution, and bytecode: the wheel's name, and lean archives, if there are any."""
    lock = json.loads(files[LOCK])
    version = lock["info"]["python"]
    names = [each["file_name"] for each in needed(lock["packages"], ["numpy"]).values()]
    own, data = wheel(f"cp{''.join(version.split('.')[:2])}-none-any")
    core = [name for name in files if not name.endswith(".whl")]
    found = made({name: files[name] for name in (*core, *names)} | {own: data}, version) if bytecode else None
    if found:
        files |= {path.removeprefix("whole/"): each for path, each in found.items() if path.startswith("whole/")}
    else:
        own, data = wheel()
        files[own] = data
    if bytecode and not found:
        minor = version.rpartition(".")[0]
        warnings.warn(f"no bytecode, so pages start slower: install Python {minor}, or Node", stacklevel=2)
    for each in needed(lock["packages"], ["numpy"]).values():
        each["sha256"] = hashlib.sha256(files[each["file_name"]]).hexdigest()
    digest = hashlib.sha256(files[own]).hexdigest()
    lock["packages"]["sardonyx"] = entry("sardonyx", __version__, own, digest, ["numpy"], PACKAGES)
    files[LOCK] = json.dumps(lock, separators=(",", ":")).encode()
    return own, {path: each for path, each in (found or {}).items() if path.startswith("lean/")}
