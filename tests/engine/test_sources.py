"""What a process has computed counts for another as long as the sources that it was computed by are as they were."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sardonyx.common import bytecode, cache, sources
from tests.engine.test_plan_cache import convolution
from tests.support.wheel import ROOT

PACKAGE = "some_backend"


def as_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on be a process that has seen nothing."""
    monkeypatch.setattr(sources, "_relied", {})
    monkeypatch.setattr(sources, "_looked_at", {})


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    as_another(monkeypatch)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package, two of whose three modules are imported."""
    folder = tmp_path / PACKAGE
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__.py", "one.py", "other.py", "inner/__init__.py", "inner/shader.wgsl", "inner/notes.txt"):
        (folder / name).write_text("# nothing\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module(f"{PACKAGE}.one")
    importlib.import_module(f"{PACKAGE}.inner")
    return folder


def test_what_is_imported_is_used_and_what_it_reads(package: Path) -> None:
    names = {str(Path(path).relative_to(package)) for path in sources.used([PACKAGE])}
    assert names == {"__init__.py", "one.py", "inner/__init__.py", "inner/shader.wgsl"}
    assert sources.used(["another"]) == {}


@pytest.mark.parametrize("name", ["one.py", "inner/shader.wgsl", "inner/__init__.py"])
@pytest.mark.parametrize("change", ["size", "time", "gone"])
def test_a_change_ends_it(
    name: str, change: str, package: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.keep(b"key", [PACKAGE], b"some", b" bytes")
    found = cache.recall(b"key")
    assert found is not None
    assert bytes(found) == b"some bytes"
    path = package / name
    match change:
        case "size":
            time = path.stat().st_mtime_ns
            path.write_text("# something else\n")
            os.utime(path, ns=(time, time))
        case "time":
            os.utime(path, ns=(path.stat().st_mtime_ns + 1,) * 2)
        case "gone":
            path.unlink()
    cache.keep(b"other key", [PACKAGE], b"of one that recalled the former")
    as_another(monkeypatch)
    assert cache.recall(b"key") is None
    assert cache.recall(b"other key") is None
    as_another(monkeypatch)
    cache.keep(b"key", [PACKAGE], b"others")
    assert bytes(cache.recall(b"key") or b"") == b"others"


def test_what_is_not_used_may_change(package: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.keep(b"key", [PACKAGE], b"bytes")
    (package / "other.py").write_text("# something else\n")
    as_another(monkeypatch)
    assert cache.recall(b"key") is not None


def test_what_was_recalled_rests_on_more(
    package: Path, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this process keeps of it depends on sources that another had imported."""
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.touch()
    stamp = elsewhere.stat().st_size, elsewhere.stat().st_mtime_ns
    assert sources.rely({str(elsewhere): stamp})
    cache.keep(b"key", [PACKAGE], b"bytes")
    as_another(monkeypatch)
    assert cache.recall(b"key") is not None
    elsewhere.write_text("# something")
    as_another(monkeypatch)
    assert cache.recall(b"key") is None


def test_code_that_was_loaded_earlier_is_what_counts(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process works by the source that it has imported, whatever is written there later."""
    path = package / "one.py"
    monkeypatch.setitem(bytecode.seen, str(path), path.stat())
    before = sources.used([PACKAGE])
    path.write_text("# something else\n")
    as_another(monkeypatch)
    assert sources.used([PACKAGE]) == before
    assert sources.rely(before)


def test_an_archive_stands_for_what_lies_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(f"{PACKAGE}/__init__.py", "")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module(PACKAGE)
    assert [*sources.used([PACKAGE])] == [str(archive)]


@pytest.mark.parametrize("stored", [b"", b"1", b"\xff" * 80, bytes(80), b"\x05\0\0\0i\1\0\0\0"])
def test_other_contents_are_removed(stored: bytes, own_cache: Path) -> None:
    cache.write(b"key", stored)
    assert cache.recall(b"key") is None
    assert cache.read(b"key") is None


def test_installations_differ(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = sources.installation((PACKAGE,))
    assert here == sources.installation((PACKAGE,)) != sources.installation(("sardonyx",))
    monkeypatch.setattr(sources, "__version__", "another")
    assert sources.installation((PACKAGE,)) != here


@pytest.mark.slow
def test_plans_are_made_anew_when_what_made_them_changes(tmp_path: Path, own_cache: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "core" / "sardonyx", tree / "sardonyx")
    model = tmp_path / "model.onnx"
    model.write_bytes(convolution())
    os.utime(model, (model.stat().st_mtime - 5,) * 2)
    script = f"""
import numpy as np, sardonyx
assert sardonyx.__file__.startswith({str(tree)!r})
session = sardonyx.InferenceSession({str(model)!r}, providers=["NumpyExecutionProvider"])
session.run(None, {{"x": np.ones((1, 3, 9, 9), np.float32)}})
print(session.compiled)
"""

    def compiled() -> int:
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=500)
        return int(done.stdout)

    assert [compiled() for _ in range(2)] == [1, 0]
    for name, count in {
        "passes/pipeline.py": 1,
        "ops/__init__.py": 1,
        "runtime/executor.py": 1,
        "ops/microsoft/attention.py": 0,
        "quantization/watch.py": 0,
    }.items():
        with open(tree / "sardonyx" / name, "a") as file:
            file.write("# more\n")
        assert [compiled() for _ in range(2)] == [count, 0], name
