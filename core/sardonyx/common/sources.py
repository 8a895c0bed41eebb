"""The sources that a process works by: what it computes holds for others as long as they are as they were."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TypeAlias

from sardonyx.common import bytecode
from sardonyx.common.fingerprint import fingerprint
from sardonyx.version import __version__

IN_MEMORY = sys.platform == "emscripten"
"""Whether the disk is the interpreter's own memory, unless the page mounts another one there."""
ABOVE = frozenset({"cli", "demo", "genai", "training", "vision", "web"})
"""Rooms of `sardonyx` that no plan depends on: nothing below imports them, and they declare no operators."""
Stamps: TypeAlias = dict[str, tuple[int, int]]
"""Size and time, in nanoseconds, of files by path."""

_TEXT = ".wgsl"
"""How the names of shaders end, which modules beside them read."""
_looked_at: dict[str, tuple[int, int] | None] = {}
"""What files were when this process first looked, by path; None if there was none."""
_relied: Stamps = {}
"""The sources that recalled results were computed by."""


def used(packages: Sequence[str]) -> Stamps:
    """The sources by which this process computes: of modules that it has imported with what they read beside them, and
    those that it relies on."""
    if not _tell():
        return {}
    paths: set[str] = set()
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.partition(".")[0] in packages:
            paths.add(path if _stamp(path) else _archive(path))
            paths |= {path for folder in getattr(module, "__path__", ()) for path in _shaders(folder)}
    return {path: stamp for path in sorted(paths) if (stamp := _stamp(path))} | _relied


def rely(stamps: Mapping[str, tuple[int, int]]) -> bool:
    """Whether these sources are as they were when this process first looked; if so, what it computes is held to depend
    on them, too."""
    if any(_stamp(path) != stamp for path, stamp in stamps.items()):
        return False
    _relied.update(stamps)
    return True


def installation(packages: Sequence[str]) -> str:
    """What tells apart installations of packages: the version and their folders, or what `release` tells of a program
    and of memory, where files' times say nothing."""
    if not _tell():
        return release(tuple(packages))
    return repr((__version__, sys.byteorder, [_folders(package) for package in packages]))


def _tell() -> bool:
    """Whether the times of sources tell whether they have changed."""
    return not (IN_MEMORY or getattr(sys, "frozen", False))


def _stamp(path: str) -> tuple[int, int] | None:
    if path not in _looked_at:
        try:
            status = bytecode.seen.get(path) or os.stat(path)
            _looked_at[path] = status.st_size, status.st_mtime_ns
        except OSError:
            _looked_at[path] = None
    return _looked_at[path]


def _archive(path: str) -> str:
    """The file that a path leads into, as into a zip; or the last folder that there is."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return path


@cache
def _shaders(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_TEXT)]
    except OSError:  # in an archive
        return []


def _folders(package: str) -> Sequence[str]:
    spec = sys.modules[package].__spec__ if package in sys.modules else find_spec(package)
    return list(spec.submodule_search_locations or ()) if spec else []


@cache
def release(packages: Sequence[str]) -> str:
    """A digest of the version and of the source files of these packages, or of a frozen program's own file."""
    digest = fingerprint(repr((__version__, sys.byteorder)).encode())
    if getattr(sys, "frozen", False):  # its sources, if there are any, may lie elsewhere each time
        stat = os.stat(sys.executable)
        digest.update(f"{sys.executable} {stat.st_size} {stat.st_mtime_ns}".encode())
        return digest.hexdigest()
    for package in packages:
        for folder in _folders(package):
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
                if entry.name.endswith((".py", ".pyc", _TEXT)):
                    stat = entry.stat()
                    sources.append((entry.path, stat.st_size, stat.st_mtime_ns))
                elif "." not in entry.name and entry.name not in aside and entry.is_dir():
                    folders.append(entry.path)
        aside = {"__pycache__"}
    return sources
