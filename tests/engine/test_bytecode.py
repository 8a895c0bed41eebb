"""A package's bytecode in one file: it serves as Python's own does, and where it is not sound, Python's own serves."""

from __future__ import annotations

import importlib
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from sardonyx.common import bytecode
from sardonyx.common.bytecode import Finder, Loader

SCRIPT = """
import sys
import sardonyx
import sardonyx_some.plain, sardonyx_some.inner.deep
from sardonyx.common.bytecode import Loader
modules = [sys.modules[name] for name in ("sardonyx_some.plain", "sardonyx_some.inner", "sardonyx_some.inner.deep")]
print(*(int(isinstance(module.__spec__.loader, Loader)) for module in modules), *(module.VALUE for module in modules))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules and a package, which processes can import."""
    folder = tmp_path / "sardonyx_some"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("plain", "inner/__init__", "inner/deep"):
        (folder / f"{name}.py").write_text("VALUE = 1\n")
    paths = [str(tmp_path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    return folder


def run(*options: str) -> str:
    """What the script tells: which modules came from the file, and their values."""
    done = subprocess.run(
        [sys.executable, *options, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=500
    )
    assert done.stderr == ""
    return done.stdout.strip()


def kept(package: Path) -> Path:
    """The file."""
    return Path(cache_from_source(str(package / "modules.py"))).with_suffix(".pack")


def test_the_second_process_opens_one_file(package: Path) -> None:
    assert run() == "0 0 0 1 1 1"
    assert run() == "1 1 1 1 1 1"
    assert [path.name for path in package.rglob("*.pack")] == [kept(package).name]
    written = kept(package).read_bytes()
    shutil.rmtree(package / "inner" / "__pycache__")
    assert run() == "1 1 1 1 1 1", "Python's own files are not needed"
    assert kept(package).read_bytes() == written


def test_a_changed_source_counts(package: Path) -> None:
    run()
    (package / "inner" / "deep.py").write_text("VALUE = 2  # other\n")
    assert run() == "1 1 0 1 1 2"
    assert run() == "1 1 1 1 1 2"
    path = package / "plain.py"
    path.write_text("VALUE = 3\n")  # of the same size
    os.utime(path, (path.stat().st_mtime + 7,) * 2)
    assert run() == "0 1 1 3 1 2"
    assert run() == "1 1 1 3 1 2"


def test_modules_that_are_gone_are_dropped(package: Path) -> None:
    (package / "old.py").write_text("VALUE = " + "1 + " * 2000 + "1\n")
    subprocess.run([sys.executable, "-c", "import sardonyx, sardonyx_some.old"], check=True, timeout=500)
    assert b"sardonyx_some.old" in kept(package).read_bytes()
    (package / "old.py").unlink()
    run()
    assert b"sardonyx_some.old" not in kept(package).read_bytes()
    assert run() == "1 1 1 1 1 1"


@pytest.mark.parametrize("options", [["-B"], ["-O"]])
def test_it_is_written_as_bytecode_is(options: list[str], package: Path) -> None:
    run(*options)
    files = [path.name for path in package.rglob("*.pack")]
    assert files == ([] if options == ["-B"] else [kept(package).name.replace(".pack", ".opt-1.pack")])
    assert run() == "0 0 0 1 1 1"


def test_it_lies_where_bytecode_does(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "elsewhere"))
    run()
    assert run() == "1 1 1 1 1 1"
    assert not [*package.rglob("*.pack")]
    assert len([*(tmp_path / "elsewhere").rglob("sardonyx_some/*.pack")]) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"1",
        lambda data: data[:6],
        lambda data: bytes(4) + data[4:],
        lambda data: data[:4] + b"\xff" * 4 + data[8:],
        lambda data: data[:8] + bytes(len(data) - 8),
        lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
        lambda data: data[:4] + (1).to_bytes(4, "little") + b"N",
    ],
)
def test_damage_is_passed_over(damage: Callable[[bytes], bytes], package: Path) -> None:
    run()
    whole = kept(package).read_bytes()
    kept(package).write_bytes(damage(whole))
    assert run().endswith(" 1 1 1")


def test_bytecode_that_is_checked_by_contents_stays_python_s(package: Path) -> None:
    compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(package)]
    subprocess.run(compiling, check=True, timeout=500)
    assert run() == run() == "0 0 0 1 1 1"
    assert not kept(package).exists()


def test_a_folder_that_refuses_is_no_error(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    kept(package).unlink()
    kept(package).mkdir()
    assert run() == run() == "0 0 0 1 1 1"


def test_modules_can_be_loaded_again_and_shown(package: Path, tmp_path: Path) -> None:
    run()
    script = """
import importlib, inspect, pathlib
import sardonyx
import sardonyx_some.plain as plain
assert isinstance(plain.__spec__.loader, sardonyx.common.bytecode.Loader)
assert inspect.getsource(plain) == "VALUE = 1\\n"
assert plain.__spec__.loader.get_code("sardonyx_some.plain").co_filename == plain.__file__
pathlib.Path(plain.__file__).write_text("VALUE = 42\\n")
for _ in range(2):
    importlib.invalidate_caches()
    assert importlib.reload(plain).VALUE == 42
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=500)
    assert run() == "1 1 1 42 1 1"


def test_the_library_itself_is_found_by_it() -> None:
    finders = [finder for finder in sys.meta_path if isinstance(finder, Finder)]
    assert len(finders) == 1
    assert finders[0].find_spec("numpy.linalg", ["/nowhere"]) is None
    assert finders[0].find_spec("sardonyx") is None
    script = (
        "import sys, sardonyx; sardonyx.InferenceSession; print(sys.modules['sardonyx.api.session'].__spec__.loader)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=500
        )
    assert Loader.__name__ in done.stdout, done.stderr


def test_what_is_loaded_stays_in_memory_once(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the file go back to the system; what is read after that is the same."""
    run()
    dropped: list[int] = []

    class Counted(mmap.mmap):
        def madvise(self, option: int, *place: int) -> None:
            dropped.append(option)
            super().madvise(option, *place)

    monkeypatch.setattr(bytecode.mmap, "mmap", Counted)
    monkeypatch.setattr(bytecode, "_RESIDENT", 0)
    monkeypatch.syspath_prepend(str(package.parent))
    importlib.import_module(package.name)
    monkeypatch.setitem(sys.modules, package.name, sys.modules.pop(package.name))
    finder = Finder()
    for name, folder in (("plain", package), ("inner", package), ("inner.deep", package / "inner")):
        spec = finder.find_spec(f"{package.name}.{name}", [str(folder)])
        assert spec is not None
        assert isinstance(spec.loader, Loader)
        scope: dict[str, object] = {}
        exec(spec.loader.get_code(spec.name) or "", scope)
        assert scope["VALUE"] == 1
    assert dropped == [mmap.MADV_DONTNEED] * 3


def test_where_there_are_no_files_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
    monkeypatch.setattr(sys, "meta_path", list(before))
    for name, value in (("platform", "emscripten"), ("frozen", True)):
        with monkeypatch.context() as patched:
            patched.setattr(sys, name, value, raising=False)
            bytecode.install()
    assert sys.meta_path == before
    monkeypatch.setattr("atexit.register", lambda function: None)
    for _ in range(2):  # as when a module is loaded again
        bytecode.install()
    assert len(sys.meta_path) == len(before) + 1
