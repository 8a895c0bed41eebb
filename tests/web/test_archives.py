"""Bytecode in archives, lean ones, and what fetches what they leave out: with a library and wheels of a few lines."""

from __future__ import annotations

import gzip
import io
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from zipfile import ZipFile

import pytest

from sardonyx.web import bytecode, interpreter
from sardonyx.web.bytecode import REST, STDLIB, Archive, zipped
from sardonyx.web.rest import Rest

WEBGPU, TRAINING = bytecode.PARTS
LONG = '"""First line.\n\n    And more.\n    """'
NUMPY, OWN = "numpy-1-cp3-none-any.whl", "sardonyx-1-py3-none-any.whl"
FILES: Mapping[str, Mapping[str, str]] = {
    STDLIB: {
        "pyodide/__init__.py": "import used",
        "used.py": f"def f():\n    {LONG}\n    raise ValueError(1)\ndef g():\n    import late\n",
        "late.py": "",
        "deep.py": "import doctest\nclass C:\n    from package import part\n",
        "package/__init__.py": "",
        "package/part.py": "from . import sibling",
        "package/sibling.py": "",
        "package/other.py": "",
        "cold/__init__.py": "import doctest",
        "doctest.py": "",
        "cold/too.py": "",
    },
    NUMPY: {
        "numpy/__init__.py": "",
        "numpy/_core/_add_newdocs.py": "1 / 0",
        "numpy/random/__init__.py": "seed = 7",
        "numpy/linalg/lapack_lite.cpython-3-wasm.so": "",
        "numpy/tests/test_it.py": "import cold",
        "numpy/f2py/__init__.py": "",
        "numpy-1.dist-info/RECORD": "",
    },
    OWN: {
        "sardonyx/__init__.py": "def f():\n    import deep\n",
        "sardonyx/cli/__init__.py": "import cold",
        "sardonyx/training/__init__.py": "rate = 0.1",
        "sardonyx_webgpu/__init__.py": "import deep",
        "sardonyx_webgpu/device.py": "adapter = None",
        REST: "{}",
    },
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder with archives, and what is made of them."""
    folder = tmp_path / "made"
    folder.mkdir()
    for name, files in FILES.items():
        (folder / name).write_bytes(zipped({path: text.encode() for path, text in files.items()}))
    bytecode.main(folder)
    return folder


def unpacked(made: Path, part: str, name: str) -> bytes:
    """A zip file as it comes to Python."""
    if part == "whole":
        return (made / part / name).read_bytes()
    return gzip.decompress((made / part / f"{name}.packed").read_bytes())


def opened(made: Path, part: str, name: str) -> ZipFile:
    return ZipFile(io.BytesIO(unpacked(made, part, name)))


def names(made: Path, part: str, name: str) -> set[str]:
    with opened(made, part, name) as archive:
        return {*archive.namelist()}


def code_of(made: Path, part: str, archive: str, name: str) -> CodeType:
    with opened(made, part, archive) as file:
        data = file.read(name)
    assert data[:4] == MAGIC_NUMBER
    assert data[4:8] == b"\x01\0\0\0"  # by hash, unchecked
    code = marshal.loads(data[16:])
    assert isinstance(code, CodeType)
    return code


def test_what_compiling_loads_is_bytecode_and_the_rest_stays(made: Path) -> None:
    hot = {"pyodide/__init__.pyc", "used.pyc", "deep.pyc"}
    hot |= {f"package/{name}.pyc" for name in ("__init__", "part", "sibling")}
    assert names(made, "lean", STDLIB) == hot
    assert names(made, "whole", STDLIB) == hot | {
        *("late.py", "package/other.py", "cold/__init__.py", "cold/too.py", "doctest.py")
    }
    assert names(made, "lean", OWN) == {"sardonyx/__init__.pyc", REST}
    assert names(made, "lean", WEBGPU) == {"sardonyx_webgpu/__init__.pyc", "sardonyx_webgpu/device.pyc"}
    assert names(made, "lean", TRAINING) == {"sardonyx/training/__init__.pyc"}
    core = {"numpy/__init__.pyc", "numpy/_core/_add_newdocs.pyc"}
    whole = core | {
        "numpy/random/__init__.py",
        "numpy/linalg/lapack_lite.cpython-3-wasm.so",
        "numpy-1.dist-info/RECORD",
    }
    assert names(made, "lean", NUMPY) == core
    assert names(made, "whole", NUMPY) == whole
    with opened(made, "lean", OWN) as lean, opened(made, "whole", OWN) as archive:
        assert json.loads(archive.read(REST)) == {}
        rest = {
            STDLIB: ["cold", "doctest", "late", "package.other"],
            NUMPY: ["numpy.linalg.lapack_lite", "numpy.random"],
            OWN: ["sardonyx.cli"],
            f"{TRAINING}.packed": ["sardonyx.training"],
            f"{WEBGPU}.packed": ["sardonyx_webgpu"],
        }
        assert json.loads(lean.read(REST)) == rest
    with opened(made, "whole", NUMPY) as archive:
        record = archive.read("numpy-1.dist-info/RECORD").decode()
    assert {line.partition(",")[0] for line in record.splitlines()} == whole


def test_code_knows_its_lines_and_lean_code_where_it_begins(made: Path) -> None:
    found = {}
    for part in ("whole", "lean"):
        space: dict[str, object] = {}
        exec(code_of(made, part, STDLIB, "used.pyc"), space)
        found[part] = function = space["f"]
        assert callable(function)
        with pytest.raises(ValueError, match="1") as caught:
            function()
        frame = caught.traceback[-1]
        first = frame.frame.code.raw.co_firstlineno
        assert first < 5
        assert (frame.lineno, frame.frame.code.raw.co_filename[:5]) == (5 if part == "whole" else first - 1, "/lib/")
    assert found["whole"].__doc__ == LONG.strip('"')
    assert found["lean"].__doc__ == "First line."
    exec(code_of(made, "lean", NUMPY, "numpy/_core/_add_newdocs.pyc"))
    with pytest.raises(ZeroDivisionError):
        exec(code_of(made, "whole", NUMPY, "numpy/_core/_add_newdocs.pyc"))


def test_what_was_made_stays_and_is_the_same_in_another_process(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    for name in FILES:
        source = made if name == OWN else made / "whole"
        (again / name).write_bytes((source / name).read_bytes())
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, bytecode.__file__, str(again)], check=True, env=environment, timeout=500)
    for part in ("whole", "lean"):
        for name in FILES:
            assert unpacked(again, part, name) == unpacked(made, part, name)


def test_docstrings_that_others_extend_stay_whole() -> None:
    code = compile("def f():\n    '''+\n    more'''\n", "f", "exec")
    (function,) = (each for each in bytecode._brief(code).co_consts if isinstance(each, CodeType))
    assert function.co_consts[0] == "+\n    more"


@pytest.fixture
def rest(made: Path, tmp_path: Path) -> Iterator[tuple[Rest, list[str]]]:
    """The finder, on archives that lie as they do in Pyodide, and what it fetched."""
    stdlib, packages = tmp_path / "lib.zip", tmp_path / "site-packages"
    stdlib.write_bytes(unpacked(made, "lean", STDLIB))
    with opened(made, "lean", NUMPY) as archive:
        archive.extractall(packages)
    fetched: list[str] = []

    def fetch(name: str) -> bytes:
        fetched.append(name)
        return (made / ("lean" if name.endswith(".packed") else "whole") / name).read_bytes()

    with opened(made, "lean", OWN) as archive:
        absent = json.loads(archive.read(REST))
    before = {*sys.modules}, [*sys.path], [*sys.meta_path]
    finder = Rest(absent, fetch, packages, stdlib)
    sys.path.insert(0, str(stdlib))
    sys.meta_path.append(finder)
    yield finder, fetched
    sys.path[:], sys.meta_path[:] = before[1:]
    for name in {*sys.modules} - before[0]:
        del sys.modules[name]


def test_what_is_left_out_is_fetched_once(rest: tuple[Rest, list[str]]) -> None:
    finder, fetched = rest
    __import__("used")
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        __import__("nowhere")
    assert fetched == []
    __import__("package.other")  # whose package is in the lean archive
    __import__("cold.too")
    assert fetched == [STDLIB]
    spec = finder.find_spec("numpy.random", [str(finder.packages / "numpy")])
    assert spec is not None
    assert spec.origin == str(finder.packages / "numpy" / "random" / "__init__.py")
    assert fetched == [STDLIB, NUMPY]
    assert finder.find_spec("numpy.random", None) is None
    sys.path.insert(0, str(finder.packages))
    spec = finder.find_spec("sardonyx_webgpu", None)
    assert spec is not None
    assert spec.origin == str(finder.packages / "sardonyx_webgpu" / "__init__.pyc")
    assert (finder.packages / "sardonyx_webgpu" / "device.pyc").exists()
    assert fetched == [STDLIB, NUMPY, f"{WEBGPU}.packed"]


def test_a_python_of_another_version_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ".".join(map(str, sys.version_info[:3]))
    assert interpreter.native(own) == sys.executable
    for name, says in {"python3.98": "CPython 3 98 0b1", "python3.99": "CPython 3 99 2", "python3.97": ""}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {says}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert interpreter.native("3.99.0") == str(tmp_path / "python3.99")
    assert interpreter.native("3.98.0") is None
    assert interpreter.native("3.97.0") is None


def test_imports_are_told_as_python_resolves_them(made: Path) -> None:
    archive = Archive(made / STDLIB)
    assert {*archive.imports("package/part.py", deep=False)} == {"package", "package.sibling"}
    assert {*archive.imports("used.py", deep=False)} == set()
    assert {*archive.imports("used.py", deep=True)} == {"late"}
