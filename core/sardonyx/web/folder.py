"""A folder of a web server, with all that pages need of Sardonyx."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from sardonyx.errors import Fail
from sardonyx.version import __version__
from sardonyx.web import scripts
from sardonyx.web.distribution import LOCK, download, taken
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
    for script in sorted(scripts().iterdir(), key=lambda item: item.name):
        if script.name.endswith(".js") and (compiler or script.name not in COMPILER):
            yield f"sardonyx/{script.name}", script.read_bytes()
    if not compiler:
        return
    yield "sardonyx/known.json", json.dumps(known(), separators=(",", ":")).encode()
    wheel_name, wheel_data = wheel()
    digest = hashlib.sha256(wheel_data).hexdigest()
    total = 0
    for name, data in (*(taken(pyodide) if pyodide else download()), (wheel_name, wheel_data)):
        content = _listing(data, wheel_name, digest) if name == LOCK else data
        total += 0 if name.endswith("js") else len(content)
        yield f"pyodide/{name}", content
    told = {
        "release": __version__,
        "digest": digest,
        "wheel": f"../pyodide/{wheel_name}",
        "bytes": total,  # without scripts, of which nobody sees how they come
    }
    yield "sardonyx/engine.json", json.dumps(told).encode()


def _listing(lock: bytes, wheel_name: str, digest: str) -> bytes:
    """Pyodide's lock file with this package, so that it can be loaded by its name, and by an `import`."""
    told = json.loads(lock)
    told["packages"]["sardonyx"] = {
        "name": "sardonyx",
        "version": __version__,
        "file_name": wheel_name,
        "sha256": digest,
        "depends": ["numpy"],
        "imports": list(PACKAGES),
        "install_dir": "site",
        "package_type": "package",
        "unvendored_tests": False,
    }
    return json.dumps(told, separators=(",", ":")).encode()
