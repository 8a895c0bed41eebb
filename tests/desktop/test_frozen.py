"""Programs that bring Python along: the example, frozen with our hooks for PyInstaller; the engine without sources."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import ImageGrab

from sardonyx.common import sources
from sardonyx.demo import assets
from tests.support import absent, require
from tests.support.wheel import ROOT

from .seen import ACCENT, EXAMPLE, LINES, SEVEN

BARE = """
import sys
import numpy as np
import sardonyx.ops as ops
from sardonyx import InferenceSession

assert ".zip" in ops.__file__
assert "microsoft" in ops.find("com.microsoft", "MatMulNBits").__module__
assert ops.find("", "NoSuchOperator") is None
session = InferenceSession(open(sys.argv[1], "rb").read(), providers=["NumpyExecutionProvider"])
print(session.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})[0].shape)
"""
LIMIT = 120
"""Seconds for the window to show something."""


@pytest.fixture(scope="module")
def program(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as a program, made with the installed wheel as a user would."""
    try:
        import PyInstaller  # noqa: F401
    except ImportError:
        absent("the package pyinstaller is not installed")
    folder = tmp_path_factory.mktemp("frozen")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(wheel)], check=True, timeout=500)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), *filter(None, sys.path)])}
    freeze = [sys.executable, "-m", "PyInstaller", "--windowed", "--name", "reads", str(EXAMPLE / "app.py")]
    done = subprocess.run(
        freeze, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500
    )
    assert done.returncode == 0, done.stdout.decode()
    return folder / "dist" / "reads" / "reads"


def alone(folder: Path, **more: str) -> dict[str, str]:
    """An environment that knows of no Python."""
    kept = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR",) if name in os.environ}
    return {"PATH": os.defpath, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), **kept, **more}


def printed(program: Path, folder: Path, *arguments: object) -> str:
    command = [str(program), "--print", *map(str, arguments)]
    done = subprocess.run(command, env=alone(folder), cwd=folder, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.nightly
def test_reads_text(program: Path, models: Path, page: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time with the plans that the first has kept
        assert printed(program, tmp_path, page, "--models", models).splitlines() == LINES
        assert any((tmp_path / "cache" / "sardonyx").iterdir())


@pytest.mark.nightly
def test_runs_shaders(program: Path, tmp_path: Path) -> None:
    require("webgpu")
    assert printed(program, tmp_path, SEVEN, "--provider", "WebGpuExecutionProvider") == "7\n"


@pytest.mark.nightly
def test_has_a_window(program: Path, display: str, tmp_path: Path) -> None:
    environment = alone(tmp_path, DISPLAY=display)
    with subprocess.Popen([str(program), SEVEN], env=environment, cwd=tmp_path) as running:
        end = time.monotonic() + LIMIT
        try:
            while time.monotonic() < end and running.poll() is None:
                time.sleep(0.5)
                if (np.asarray(ImageGrab.grab(xdisplay=display)) == ACCENT).all(axis=2).sum() > 500:
                    return  # the box
        finally:
            running.terminate()
    pytest.fail("the window shows no box")


@pytest.mark.slow
def test_operators_are_found_without_sources(tmp_path: Path) -> None:
    source = ROOT / "core" / "sardonyx"
    target = tmp_path / "sardonyx.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for file in source.rglob("*.py"):
            compiled = tmp_path / "compiled.pyc"
            if "__pyinstaller" not in file.parts:
                py_compile.compile(str(file), str(compiled), doraise=True)
                archive.write(compiled, f"{file.relative_to(source.parent)}c")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(target), *filter(None, sys.path)])}
    command = [sys.executable, "-c", BARE, str(assets() / "digits.onnx")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "(2, 10)\n"


def test_the_program_stands_for_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    releases = set()
    for text in ("one", "other"):
        (tmp_path / text).write_text(text)
        monkeypatch.setattr(sys, "executable", str(tmp_path / text))
        releases |= {sources.release.__wrapped__(packages) for packages in (("sardonyx",), ("sardonyx", "nowhere"))}
    assert len(releases) == 2
