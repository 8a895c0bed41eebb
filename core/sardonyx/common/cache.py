"""A cache on disk, shared by processes: $XDG_CACHE_HOME/sardonyx, or ~/.cache/sardonyx; SARDONYX_CACHE=0 turns it off.

An entry is a file with a digest of its contents in front: what is damaged counts as not there, and is removed.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from sardonyx.common.atomic import PART, replacing
from sardonyx.common.fingerprint import SIZE, fingerprint
from sardonyx.version import __version__

IN_MEMORY = sys.platform == "emscripten"
"""Whether the disk is the interpreter's own memory, unless the page mounts another one there."""
ROOM = (64 if IN_MEMORY else 1024) << 20
"""Bytes of all entries together; the least recently used go."""
MOST = 4096
"""The most entries."""
SELDOM = 16
"""One write in this many prunes the folder, which takes 10 us for each entry."""
_SUFFIX = ".entry"
ABOVE = frozenset({"cli", "demo", "genai", "training", "vision", "web"})
"""Rooms of `sardonyx` that no plan depends on: nothing below imports them, and they declare no operators."""


def directory() -> str | None:
    """Where entries are kept, None if nowhere."""
    if os.environ.get("SARDONYX_CACHE") == "0":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    return None if home.startswith("~") else os.path.join(home, "sardonyx")  # there may be no home


def _path(key: bytes) -> str | None:
    folder = directory()
    return folder and os.path.join(folder, f"{fingerprint(key).hexdigest()}{_SUFFIX}")


def read(key: bytes) -> memoryview | None:
    """What `write` kept under this key, mapped where the system can do that; None if there is nothing whole."""
    path = _path(key)
    try:
        if path is None or not os.path.isfile(path):
            return None
        stored = _view(path)
        if fingerprint(stored[SIZE:]).digest() != stored[:SIZE]:
            forget(key)
            return None
        os.utime(path)
    except Exception:  # a disk that refuses
        return None
    return stored[SIZE:]


def _view(path: str) -> memoryview:
    with open(path, "rb") as file:
        if not IN_MEMORY:
            with suppress(ValueError, OSError):  # an empty file, or one that cannot be mapped
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return memoryview(file.read())


def forget(key: bytes) -> None:
    """Remove an entry, which may be there or not."""
    path = _path(key)
    try:
        if path is not None:
            os.unlink(path)
    except OSError:
        return


def write(key: bytes, *parts: bytes | memoryview) -> None:
    """Keep these bytes, one after another; a disk that refuses is no error. Others see all of it or nothing."""
    path = _path(key)
    if path is None:
        return
    digest = fingerprint(*parts)
    try:
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with replacing(path, private=True) as file:
            file.writelines((digest.digest(), *parts))
        if digest.digest()[0] % SELDOM == 0:
            _make_room(folder)
    except OSError:
        return


def _make_room(folder: str) -> None:
    """Remove the entries that were not used for longest, and what processes that died left unfinished."""
    with os.scandir(folder) as listed:
        entries = [(entry.stat(), entry.path) for entry in listed if entry.name.endswith((_SUFFIX, PART))]
    room = ROOM
    for number, (stat, path) in enumerate(sorted(entries, key=lambda entry: entry[0].st_mtime, reverse=True)):
        room -= stat.st_size
        if room < 0 or number >= MOST:
            with suppress(FileNotFoundError):
                os.unlink(path)


@cache
def release(packages: Sequence[str]) -> str:
    """A digest of the version and of the source files of these packages, or of a frozen program's own file."""
    digest = fingerprint(repr((__version__, sys.byteorder)).encode())
    if getattr(sys, "frozen", False):  # its sources, if there are any, may lie elsewhere each time
        stat = os.stat(sys.executable)
        digest.update(f"{sys.executable} {stat.st_size} {stat.st_mtime_ns}".encode())
        return digest.hexdigest()
    for package in packages:
        spec = find_spec(package)
        for folder in spec.submodule_search_locations or () if spec else ():
            known = _recorded(folder) if IN_MEMORY else {}
            lines = [f"{name} {size} {known.get(name, time)}\n" for name, size, time in sorted(_sources(folder))]
            digest.update("".join(lines).encode())
    return digest.hexdigest()


def _recorded(folder: str) -> dict[str, str]:
    """A wheel's own digests of a package's files; where the disk is memory, times tell when it was unpacked."""
    site, package = os.path.split(folder)
    lists = [os.path.join(site, name, "RECORD") for name in os.listdir(site) if name.endswith(".dist-info")]
    for path in sorted(lists, key=lambda path: not os.path.basename(os.path.dirname(path)).startswith("sardonyx")):
        with suppress(OSError), open(path, encoding="utf-8") as file:
            rows = [line.rstrip().split(",", 1) for line in file if line.startswith(f"{package}/")]
            if rows:
                return {os.path.join(site, name): told for name, told in rows}
    return {}


def _sources(package: str) -> list[tuple[str, int, int]]:
    sources: list[tuple[str, int, int]] = []
    folders = [package]
    aside = {"__pycache__", *(ABOVE if os.path.basename(package) == "sardonyx" else ())}
    while folders:
        with os.scandir(folders.pop()) as listed:
            for entry in listed:
                if entry.name.endswith((".py", ".pyc", ".wgsl")):
                    stat = entry.stat()
                    sources.append((entry.path, stat.st_size, stat.st_mtime_ns))
                elif "." not in entry.name and entry.name not in aside and entry.is_dir():
                    folders.append(entry.path)
        aside = {"__pycache__"}
    return sources
