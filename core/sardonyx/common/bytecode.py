"""The bytecode of a package's modules in one file, which a process opens in place of one for each module.

To import a module Python looks for it in a folder, and opens and reads a file of bytecode: for the 100 to 250 modules
of a session that is much of a small model's first answer, most of all where files are slow to open. So what processes
import is kept together as well, by the rules of Python's own bytecode: beside it, named for the build of Python, valid
as long as the source has the time and the size that it was compiled at, and not written by `python -B`. What is not
kept Python imports as always, and it is added when the process ends.
"""

from __future__ import annotations

import atexit
import marshal
import mmap
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, spec_from_file_location
from types import CodeType, ModuleType
from typing import TypeAlias

_RESIDENT = 1 << 18
"""Bytes of code from which on their pages go back to the system: what is loaded is not needed twice."""
_WORD = 4
"""Bytes of a number, and of Python's magic one."""
_UNMARSHALLED = (AttributeError, EOFError, TypeError, ValueError)
"""What comes of data that marshal has not written, or of others than expected."""
Module: TypeAlias = tuple[bool, bytes, bytes | memoryview]
"""Whether it is a package, the time and size of its source as bytecode has them, and its code."""
seen: dict[str, os.stat_result] = {}
"""What the system said of the sources of modules when their code was taken from here."""


class Loader(SourceFileLoader):
    """Loads a module whose code is at hand."""

    def __init__(self, name: str, path: str, code: bytes | memoryview) -> None:
        super().__init__(name, path)
        self._code: bytes | memoryview | None = code

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, which is let go; from then on, and if it is damaged, what Python itself finds."""
        code, self._code = self._code, None
        if code is not None:
            try:
                loaded = marshal.loads(code)
            except _UNMARSHALLED:
                loaded = None
            if isinstance(loaded, CodeType):
                return loaded
        return super().get_code(fullname)


class Finder:
    """Finds modules inside packages whose names begin with `sardonyx`."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, Module]] = {}
        self._missed: list[str] = []
        self._resident = 0

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what loads a module, None where Python has to look for it."""
        if path is None or not fullname.startswith("sardonyx"):
            return None
        package = _package(fullname)
        modules = self._kept.get(package)
        if modules is None:
            modules = self._kept[package] = read(package)
        kept = modules.pop(fullname, None)
        if kept is not None:
            is_package, stamp, code = kept
            base = os.path.join(path[0], fullname.rpartition(".")[2])
            source = _source(base, is_package)
            status = _status(source)
            if status and _stamp(status) == stamp:
                seen[source] = status
                self._bound(code)
                loader = Loader(fullname, source, code)
                folders = [base] if is_package else None
                return spec_from_file_location(fullname, source, loader=loader, submodule_search_locations=folders)
        self._missed.append(fullname)
        return None

    def _bound(self, code: bytes | memoryview) -> None:
        """Have few pages of files in memory, those of this code among them."""
        self._resident += len(code)
        if sys.platform != "win32" and self._resident > _RESIDENT and isinstance(code, memoryview):
            self._resident = 0
            if isinstance(code.obj, mmap.mmap):
                code.obj.madvise(mmap.MADV_DONTNEED)

    def invalidate_caches(self) -> None:
        """Read again what is kept when a module is next looked for."""
        self._kept.clear()

    def keep(self) -> None:
        """Add the modules that Python had to look for."""
        if sys.dont_write_bytecode:
            return
        missed, self._missed = self._missed, []
        for package in {_package(name) for name in missed}:
            found = {name: module for name in missed if _package(name) == package and (module := imported(name))}
            if found:
                write(package, _current(package) | found)


def _package(fullname: str) -> str:
    return fullname.partition(".")[0]


def _home(package: str) -> str:
    home: str = sys.modules[package].__path__[0]
    return home


def _file(package: str) -> str:
    return f"{os.path.splitext(cache_from_source(os.path.join(_home(package), 'modules.py')))[0]}.pack"


def _source(base: str, is_package: bool) -> str:
    return os.path.join(base, "__init__.py") if is_package else f"{base}.py"


def _status(source: str) -> os.stat_result | None:
    try:
        return os.stat(source)
    except OSError:
        return None


def _stamp(status: os.stat_result) -> bytes:
    return _number(status.st_mtime) + _number(status.st_size)


def _number(value: float) -> bytes:
    return (int(value) & 0xFFFFFFFF).to_bytes(_WORD, "little")


def read(package: str) -> dict[str, Module]:
    """Return what is kept of a package's modules, by name; nothing where that cannot be read."""
    try:
        with open(_file(package), "rb") as file:
            # Windows lets nobody replace a file that is mapped.
            is_mapped = sys.platform != "win32"
            stored = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if is_mapped else file.read())
        start = 2 * _WORD + int.from_bytes(stored[_WORD : 2 * _WORD], "little")
        if stored[:_WORD] != MAGIC_NUMBER or start > len(stored):
            return {}
        modules: dict[str, Module] = {}
        for name, (is_package, stamp, size) in marshal.loads(stored[2 * _WORD : start]).items():
            modules[name] = is_package, stamp, stored[start : start + size]
            start += size
    except (OSError, *_UNMARSHALLED):
        return {}
    return modules if start == len(stored) else {}


def write(package: str, modules: dict[str, Module]) -> None:
    """Keep a package's modules, if its bytecode can be written."""
    from sardonyx.common.atomic import replacing  # which few processes need

    index = marshal.dumps({name: (is_package, stamp, len(code)) for name, (is_package, stamp, code) in modules.items()})
    try:
        with replacing(_file(package)) as file:
            file.write(MAGIC_NUMBER + _number(len(index)) + index)
            file.writelines(code for *_, code in modules.values())
    except OSError:
        return


def _current(package: str) -> dict[str, Module]:
    """What is kept of the modules whose sources are as they were."""
    above = os.path.dirname(_home(package))
    return {
        name: (is_package, stamp, code)
        for name, (is_package, stamp, code) in read(package).items()
        if (status := _status(_source(os.path.join(above, *name.split(".")), is_package))) and _stamp(status) == stamp
    }


def imported(name: str) -> Module | None:
    """Return a module that Python has imported by bytecode that it keeps, and checks by the time of the source."""
    module = sys.modules.get(name)
    spec = module.__spec__ if module else None
    if spec is None or not spec.cached:
        return None
    try:
        with open(spec.cached, "rb") as file:
            magic, flags, stamp, code = (file.read(size) for size in (_WORD, _WORD, 2 * _WORD, -1))
    except OSError:
        return None
    if magic != MAGIC_NUMBER or any(flags):
        return None
    return spec.submodule_search_locations is not None, stamp, code


def install() -> None:
    """Have modules found by what is kept of their packages from here on, where packages lie in files."""
    is_there = any(isinstance(finder, Finder) for finder in sys.meta_path)
    if not is_there and sys.platform != "emscripten" and not getattr(sys, "frozen", False):
        finder = Finder()
        sys.meta_path.insert(0, finder)
        atexit.register(finder.keep)
