"""Archives with bytecode in them, and lean ones of what compiling loads: `python bytecode.py FOLDER`.

FOLDER has python_stdlib.zip and the wheels of NumPy and Sardonyx; `whole/` and `lean/` in it get what becomes of them,
lean ones as `NAME.packed`: gzipped as one, since modules are alike, and a server may not compress what it sends.
Whoever runs it is a Python of just the version that they are for, with its standard library alone, so this imports
nothing else. Bytecode stands in its source's place: it is not compared with it, and lines of tracebacks have no text.
Archives that were made here before come out as they are.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import marshal
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from modulefinder import ModuleFinder
from pathlib import Path
from types import CodeType
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

STDLIB = "python_stdlib.zip"
PACKED = ".packed"
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files: the same files make the same bytes."""
HEAD = 16
"""Bytes of a .pyc before its code."""
_ALIKE = b"\xef\0"
"""The entry of a table of lines for eight units of code, without columns, in the line of those before."""
OPTIMIZED, DOCUMENTED = 0x1, 0x4000000 if sys.version_info >= (3, 13) else 0
"""Flags of the code of functions, and of those whose first constant is a docstring, as it always is before 3.13."""
DOCUMENTS = re.compile(r"^numpy/_core/_add_newdocs")
"""Modules that do nothing but to give docstrings to what is written in C."""
USELESS = re.compile(
    r"/tests?/|/_(operand_flag|rational|struct_ufunc|umath)_tests\."
    r"|/include/|/_pyinstaller/|^numpy/(f2py|distutils)/|\.(pyi|pxd|pyx|a|pc|ini)$"
)
"""What NumPy has for its own tests, and for compilers of C and Fortran."""
UNUSED = re.compile(
    r"^numpy/(random|fft|ma|polynomial|testing|typing|doc|core|compat)/|/(_simd|_multiarray_tests|lapack_lite)\."
    r"|^sardonyx/(cli|demo|genai|quantization|vision|__pyinstaller|api/(capi|backend|download)|web/scripts)\b"
    r"|\.dist-info/RECORD$|^sardonyx/web/(?!__init__|page|rest)|^sardonyx_wasm/hosts/wasmtime"
)
"""What compiling does without; a page that finds otherwise takes the whole archives."""
PARTS = {
    "sardonyx_webgpu.zip": re.compile(r"^sardonyx_webgpu/"),
    "sardonyx_training.zip": re.compile(r"^sardonyx/training/"),
}
"""Lean archives of their own: what some pages need, and most do without."""
REST = "sardonyx/web/rest.json"
"""A file of Sardonyx's lean wheel with the modules that are left out, by archive, whole or a part; whole wheels have an
empty one."""
PROGRAMS = ("doctest", "argparse", "asyncio.windows_events")
"""Of the standard library: what its modules import where they are run as programs, or on Windows."""
ROOTS = (*(f"encodings.{name}" for name in ("ascii", "cp437", "latin_1", "utf_8")), "tarfile", "zipfile")
"""Of the standard library: what Python needs for files, and Pyodide for wheels; besides, Pyodide's own packages."""


class Archive:
    """A zip file whose modules are known by name, as code."""

    def __init__(self, path: Path) -> None:
        with ZipFile(path) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            self.files = {name: archive.read(name) for name in names}
        folder = f"python{VERSION.replace('.', '')}.zip" if path.name == STDLIB else f"python{VERSION}/site-packages"
        self.place = f"/lib/{folder}"
        self.modules = {module(name): name for name in self.files if name.endswith((".py", ".pyc"))}
        self._codes: dict[str, CodeType] = {}

    def code(self, name: str) -> CodeType:
        if name not in self._codes:
            data = self.files[name]
            if name.endswith(".pyc"):
                stored = data[HEAD:]
            else:
                stored = marshal.dumps(compile(data, f"{self.place}/{name}", "exec", dont_inherit=True, optimize=0))
            self._codes[name] = marshal.loads(stored)
        return self._codes[name]

    def imports(self, name: str, deep: bool) -> Iterator[str]:
        """The names that a module imports, as modules or from them: when it is imported itself, or `deep`, ever."""
        package = module(name) if re.search(r"(^|/)__init__\.", name) else module(name).rpartition(".")[0]
        for code in _bodies(self.code(name), deep):
            for kind, found in ModuleFinder().scan_opcodes(code):
                if kind == "store":
                    continue
                level, names, source = found if kind == "relative_import" else (0, *found)
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                origin = ".".join([*above, *([source] if source else [])])
                yield from (origin, *(f"{origin}.{each}" for each in names or ()))

    def bytecode(self, name: str, brief: bool) -> bytes:
        """A module as the content of a .pyc (PEP 552), by a hash that is not checked; `brief` as `_brief` has it."""
        code = self.code(name)
        if brief:
            code = _brief(compile("", code.co_filename, "exec") if DOCUMENTS.search(name) else code)
        data = self.files[name]
        digest = importlib.util.source_hash(data) if name.endswith(".py") else data[8:HEAD]
        return importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + digest + marshal.dumps(code)

    def written(self, kept: set[str], hot: set[str], lean: bool = False) -> bytes:
        """The archive of those files that are `kept`, `hot` modules of them as bytecode; a `lean` one is packed."""
        files = {}
        for name in [name for name in self.files if name in kept]:
            if name in hot and name.endswith((".py", ".pyc")):
                files[f"{name.removesuffix('c')}c"] = self.bytecode(name, lean)
            else:
                files[name] = self.files[name]
        files = recorded(files)
        return gzip.compress(zipped(files, ZIP_STORED), 9, mtime=0) if lean else zipped(files)


def module(name: str) -> str:
    """
    >>> module("json/__init__.py"), module("json/decoder.pyc"), module("a/b.cpython-312-wasm32-emscripten.so")
    ('json', 'json.decoder', 'a.b')
    """
    return re.sub(r"(/__init__)?\.(pyc?|cpython-[^/]*)$", "", name).replace("/", ".")


def _bodies(code: CodeType, deep: bool) -> Iterator[CodeType]:
    """A module's code, and what it runs at once, or `deep`, all that is in it: functions alone have fast locals."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType) and (deep or not each.co_flags & OPTIMIZED):
            yield from _bodies(each, deep)


def _brief(code: CodeType) -> CodeType:
    """The code with the first lines of functions and of their docstrings: some have to have one, and `email` extends
    others."""
    constants = [_brief(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    is_function = code.co_flags & OPTIMIZED and not code.co_name.startswith("<")
    if is_function and constants and isinstance(text := constants[0], str) and code.co_flags & DOCUMENTED == DOCUMENTED:
        constants[0] = text if text.startswith("+") else text.strip().partition("\n")[0]
    return code.replace(co_consts=tuple(constants), co_linetable=_first_line(len(code.co_code) // 2))


def _first_line(units: int) -> bytes:
    """The table of lines, in which so many units of code are all of the first line (CPython's Objects/locations.md)."""
    whole, rest = divmod(units, 8)
    return _ALIKE * whole + (bytes((_ALIKE[0] - 8 + rest, 0)) if rest else b"")


def reached(stdlib: Archive, names: Iterable[str]) -> set[str]:
    """The files of the standard library that are imported with these names."""
    found, waiting = set(), [*names]
    while waiting:
        parts = waiting.pop().split(".")
        for name in (".".join(parts[:end]) for end in range(1, len(parts) + 1)):
            file = stdlib.modules.get(name)
            if file and file not in found and name not in PROGRAMS:
                found.add(file)
                waiting += stdlib.imports(file, deep=False)
    return found


def recorded(files: dict[str, bytes]) -> dict[str, bytes]:
    """These files with the RECORD of a wheel, if they are one."""
    for record in [name for name in files if name.endswith(".dist-info/RECORD")]:
        del files[record]
        lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items()]
        files[record] = "".join((*lines, f"{record},,\n")).encode()
    return files


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def zipped(files: dict[str, bytes], method: int = ZIP_DEFLATED) -> bytes:
    """A zip file of these files by name."""
    output = io.BytesIO()
    with ZipFile(output, "w", method, compresslevel=9) as archive:
        for name, data in files.items():
            info = ZipInfo(name, EPOCH)
            info.compress_type, info.external_attr = method, 0o644 << 16
            archive.writestr(info, data)
    return output.getvalue()


def left_out(archive: Archive, files: set[str]) -> list[str]:
    """The modules in these files, but for those in packages that are among them."""
    names = {module(file) for file in files if file.endswith((".py", ".pyc", ".so"))}
    return sorted(name for name in names if name.rpartition(".")[0] not in names)


def main(folder: Path) -> None:
    stdlib = Archive(folder / STDLIB)
    wheels = {path.name: Archive(path) for path in sorted(folder.glob("*.whl"))}
    names = {*ROOTS, *(name for name in stdlib.modules if name.partition(".")[0] in ("pyodide", "_pyodide"))}
    for wheel in wheels.values():
        for file in wheel.modules.values():
            if not UNUSED.search(file) and not USELESS.search(file):
                names |= {*wheel.imports(file, deep=file.startswith("sardonyx"))}
    loaded = reached(stdlib, names)
    rest = {}
    for part in ("whole", "lean"):
        (folder / part).mkdir()
    for name, archive in {STDLIB: stdlib, **wheels}.items():
        is_library = archive is stdlib
        whole = {file for file in archive.files if is_library or not USELESS.search(file)}
        lean = {file for file in whole if (file in loaded if is_library else not UNUSED.search(file))}
        rest[name] = left_out(archive, whole - lean)
        (folder / "whole" / name).write_bytes(archive.written(whole, lean))
        if REST in archive.files:
            for part, pattern in PARTS.items():
                files = {file for file in lean if pattern.search(file)}
                lean -= files
                rest[f"{part}{PACKED}"] = left_out(archive, files)
                (folder / "lean" / f"{part}{PACKED}").write_bytes(archive.written(files, files, lean=True))
            archive.files[REST] = json.dumps(rest, separators=(",", ":")).encode()
        (folder / "lean" / f"{name}{PACKED}").write_bytes(archive.written(lean, lean, lean=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
