"""The wheel: what it holds, and that it installs and runs beside nothing but NumPy."""

from __future__ import annotations

import email
import io
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.wheel import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TARGET = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
ROOMS = ("genai", "training", "quantization", "vision", "web", "demo")
BESIDES = ("sardonyx_wasm/", "sardonyx_webgpu/", *(f"sardonyx/{room}/" for room in ROOMS))
"""What may be deleted where a board has no room and NumPy alone runs models, as edge/README.md says."""
PACKAGES = [ROOT / folder for folder in TARGET["packages"]]

RUN = """
import numpy as np
import sardonyx as ort
from sardonyx.demo import assets

session = ort.InferenceSession((assets() / "digits.onnx").read_bytes())
image = np.zeros((2, 1, 28, 28), np.float32)
image[:, 0, 4:24, 13:15] = 1
(probabilities,) = session.run(None, {"image": image})
assert probabilities.argmax(1).tolist() == [1, 1], probabilities
assert session.get_providers() == ["CPUExecutionProvider", "NumpyExecutionProvider"]
"""
ALONE = f"""
import numpy as np
import sardonyx as ort

session = ort.InferenceSession({str(ROOT / "examples/digits/digits.onnx")!r})
assert session.get_providers() == ["CPUExecutionProvider", "NumpyExecutionProvider"]
session.run(None, {{"image": np.zeros((1, 1, 28, 28), np.float32)}})
"""
AGAIN = """
import sys
from sardonyx.web.wheel import wheel

sys.stdout.buffer.write(wheel()[1])
"""


@pytest.fixture(scope="module")
def contents(wheel: Path) -> Iterator[ZipFile]:
    with ZipFile(wheel) as archive:
        yield archive


def read(contents: ZipFile, name: str) -> str:
    """The text of a file of the wheel's dist-info folder."""
    (path,) = (path for path in contents.namelist() if path.endswith(f".dist-info/{name}"))
    return contents.read(path).decode()


def test_is_pure_and_small(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 2_130_000  # a page downloads it


def test_holds_every_file_of_the_packages_and_no_others(contents: ZipFile) -> None:
    files = (path.relative_to(package.parent) for package in PACKAGES for path in package.rglob("*") if path.is_file())
    sources = {path.as_posix() for path in files if not re.search(r"__pycache__|/\.|\.md$", path.as_posix())}
    included = set()
    for source, target in TARGET["force-include"].items():
        below = [path for path in (ROOT / source).rglob("*") if path.is_file()]
        included |= {f"{target}/{path.relative_to(ROOT / source).as_posix()}" for path in below} or {target}
    found = {name for name in contents.namelist() if ".dist-info/" not in name}
    assert found == sources | included


def test_metadata(contents: ZipFile) -> None:
    metadata = email.message_from_string(read(contents, "METADATA"))
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert required == ["numpy>=1.24"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert read(contents, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()


def test_entry_points(contents: ZipFile) -> None:
    points = read(contents, "entry_points.txt")
    project = PYPROJECT["project"]
    for group in (project["scripts"], *project["entry-points"].values()):
        for name, target in group.items():
            assert f"{name} = {target}" in points


@pytest.mark.slow
@pytest.mark.parametrize(
    "numpy",
    [
        "numpy",
        pytest.param(
            "numpy==1.24.*",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="NumPy 1.24 has no wheel for this Python"),
        ),
    ],
)
def test_runs_in_an_environment_of_its_own(wheel: Path, numpy: str, tmp_path: Path) -> None:
    environment = venv.EnvBuilder(with_pip=True, symlinks=sys.platform != "win32")
    environment.create(tmp_path / "venv")
    python = environment.ensure_directories(tmp_path / "venv").env_exe
    subprocess.run([python, "-m", "pip", "install", "-qq", str(wheel), numpy], check=True, timeout=500)
    subprocess.run([python, "-I", "-W", "error", "-c", RUN], check=True, cwd=tmp_path, timeout=500)
    demo = subprocess.run(
        [python, "-I", "-m", "sardonyx", "demo"], check=True, cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert "20 of 20 right" in demo.stdout
    again = subprocess.run([python, "-I", "-c", AGAIN], check=True, cwd=tmp_path, capture_output=True, timeout=500)
    with ZipFile(wheel) as first, ZipFile(io.BytesIO(again.stdout)) as second:
        assert set(first.namelist()) == set(second.namelist())
    for folder in BESIDES:
        (installed,) = (tmp_path / "venv").glob(f"**/site-packages/{folder}")
        shutil.rmtree(installed)
    subprocess.run([python, "-I", "-W", "error", "-c", ALONE], check=True, cwd=tmp_path, timeout=500)


@pytest.mark.parametrize(("left_out", "limit"), [((), 5_455_000), (BESIDES, 2_915_000)])
def test_takes_little_room(contents: ZipFile, left_out: tuple[str, ...], limit: int) -> None:
    """Unpacked, as it is and without what NumPy alone does not need."""
    sizes = [item.file_size for item in contents.infolist() if not item.filename.startswith(left_out or "?")]
    assert 1_000_000 < sum(sizes) < limit
