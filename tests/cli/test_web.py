"""`sardonyx web`: the folder, and the wheel that it makes again."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from sardonyx.cli import main
from sardonyx.web import archive, distribution
from sardonyx.web.folder import write
from sardonyx.web.known import known
from sardonyx.web.linking import served
from sardonyx.web.wheel import METADATA, wheel
from tests.support import require

SCRIPTS = {
    *("runtime.js", "downloads.js", "picture.js", "vision.js", "training.js", "ort/index.js", "ort/small.js"),
    *("genai/chat.js", "host.js", "helper.js", "training_host.js"),
}
"""What pages name, workers start and scripts import when they want it; the rest is inside of these."""
COMPILING = {"compile.js", "compiler.js", "compile.d.ts", "ort/deferred.js"}
TYPES = {"runtime.d.ts", "training.d.ts", "vision.d.ts", "ort/index.d.ts", "package.json"}


@pytest.fixture
def pyodide(tmp_path: Path) -> Path:
    """Something with the form of a distribution."""
    folder = tmp_path / "distribution"
    folder.mkdir()
    for name in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide.d.ts"):
        (folder / name).write_text(name)
    packages = {}
    needs = {"numpy": ["blas"], "blas": [], "scipy": ["numpy"], "micropip": ["packaging"], "packaging": []}
    for name, depends in needs.items():
        (folder / f"{name}.whl").write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        packages[name] = {"name": name, "file_name": f"{name}.whl", "sha256": digest, "depends": depends}
    (folder / "pyodide-lock.json").write_text(json.dumps({"info": {"python": "3.14.2"}, "packages": packages}))
    return folder


def test_holds_what_pages_need_and_nothing_else(
    pyodide: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "site"
    assert main(["web", str(target), "--pyodide", str(pyodide), "--sources", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["files"]
    files = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
    assert {name: path.stat().st_size for name, path in files.items()} == told
    engine = json.loads(files["sardonyx/engine.json"].read_bytes())
    own = (target / "sardonyx" / engine["wheel"]).resolve()
    core = {"pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json"}
    wheels = {"numpy.whl", "blas.whl", "micropip.whl", "packaging.whl", own.name}
    scripts = {f"sardonyx/{name}" for name in SCRIPTS | TYPES | COMPILING | {"engine.json", "known.json"}}
    assert set(files) == scripts | {f"pyodide/{name}" for name in core | wheels}
    lock = json.loads(files["pyodide/pyodide-lock.json"].read_bytes())
    assert set(lock["packages"]) == {"numpy", "blas", "micropip", "packaging", "sardonyx"}
    assert json.loads(files["sardonyx/package.json"].read_bytes())["type"] == "module"
    assert json.loads(files["sardonyx/known.json"].read_bytes()) == known()
    assert lock["packages"]["sardonyx"]["sha256"] == engine["digest"] == hashlib.sha256(own.read_bytes()).hexdigest()
    fetched = {name for name in told if name.startswith("pyodide/") and not name.endswith("js")}
    fetched -= {"pyodide/micropip.whl", "pyodide/packaging.whl"}  # which compiling does without
    assert engine["bytes"] == sum(told[name] for name in fetched)
    assert {*engine["core"], engine["stdlib"], *engine["packages"]} == {f"../{name}" for name in fetched} | {
        "../pyodide/pyodide.asm.mjs"
    }
    assert engine["rest"] == []


@pytest.mark.parametrize("absent", ["micropip.whl", "packaging.whl", "pyodide-lock.json"])
def test_a_distribution_without_micropip_is_told_of(absent: str, pyodide: Path, tmp_path: Path) -> None:
    if absent.endswith(".whl"):
        (pyodide / absent).unlink()
    else:
        lock = json.loads((pyodide / absent).read_bytes())
        del lock["packages"]["micropip"]
        (pyodide / absent).write_text(json.dumps(lock))
    with pytest.warns(UserWarning, match="has no micropip: PyScript and JupyterLite cannot install packages"):
        write(tmp_path / "site", pyodide, bytecode=False)
    lock = json.loads((tmp_path / "site" / "pyodide" / "pyodide-lock.json").read_bytes())
    assert set(lock["packages"]) == {"numpy", "blas", "sardonyx"}


def test_without_an_interpreter_sources_stay(pyodide: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"no bytecode, so pages start slower: install Python 3\.14, or Node"):
        told = write(tmp_path / "site", pyodide)
    assert told == write(tmp_path / "sources", pyodide, bytecode=False)


def test_for_bundles_the_runtime_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", str(tmp_path), "--bundles-only"]) == 0
    assert "runtime.js" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["sardonyx"]
    made = {path.relative_to(tmp_path / "sardonyx").as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert made == SCRIPTS | TYPES


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda folder: (folder / "pyodide.asm.wasm").unlink(), "pyodide.asm.wasm is missing"),
        (lambda folder: (folder / "numpy.whl").unlink(), "numpy.whl is missing"),
        (lambda folder: (folder / "blas.whl").write_text("else"), "SHA-256 is"),
        (lambda folder: (folder / "pyodide-lock.json").unlink(), "no whole distribution of Pyodide with NumPy"),
        (lambda folder: (folder.parent / "site").write_text("a file"), "cannot be written"),
    ],
)
def test_errors(
    spoil: object, complaint: str, pyodide: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(spoil)
    spoil(pyodide)
    assert main(["web", str(tmp_path / "site"), "--pyodide", str(pyodide)]) == 1
    assert complaint in capsys.readouterr().err


def test_without_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(archive.CLIENTS, "pypi", lambda *_: [sys.executable, "-c", "exit(1)"])
    assert main(["web", str(tmp_path)]) == 1
    assert "name a distribution: --pyodide DIR" in capsys.readouterr().err


def test_the_runtime_is_small() -> None:
    assert len(served()["runtime.js"]) <= 100_000


def test_the_wheel_is_what_the_build_makes() -> None:
    from tests.support import build_wheel

    name, data = wheel()
    assert wheel() == (name, data)
    built = build_wheel()
    own = Path(built.parent / "again.whl")
    own.write_bytes(data)
    with ZipFile(built) as first, ZipFile(own) as second:
        assert name == built.name
        names = {each for each in first.namelist() if ".dist-info/" not in each}
        assert names == {each for each in second.namelist() if ".dist-info/" not in each}
        assert [each for each in names if first.read(each) != second.read(each)] == []
        kept = {each.partition(".dist-info/")[2] for each in second.namelist() if ".dist-info/" in each}
        assert kept == {*METADATA, "RECORD"}
        assert b"Root-Is-Purelib: true" in second.read(name.replace("-py3-none-any.whl", ".dist-info/WHEEL"))


@pytest.mark.slow
def test_the_downloaded_pyodide_is_its_release() -> None:
    require("pyodide")
    from tests.pyodide.assemble import assemble

    for name, digest in distribution.DIGESTS.items():
        if name != distribution.LOCK:
            assert hashlib.sha256((assemble() / name).read_bytes()).hexdigest() == digest
    lock = json.loads(dict(distribution.taken(assemble()))["pyodide-lock.json"])
    assert set(lock["packages"]) == {"numpy", "micropip", "packaging"}
