"""The same in Pyodide, by the micropip that installs packages there.

What its local distribution has is NumPy, so of the packages it is magika that runs: rapidocr, ddddocr and nudenet want
OpenCV, silero-vad PyTorch, and piper-tts has a compiled part.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.packages.__main__ import ROOT
from tests.packages.installed import wheel
from tests.packages.programs import FILES
from tests.packages.test_packages import differences, reported
from tests.support import absent, require, run_in_pyodide

WHEELS = {"micropip": "0.7.2", "packaging": "24.2", "click": "8.5.1", "magika": "1.0.3"}
CODE = """
import json, sys, zipfile
from pathlib import Path
import sardonyx
import sardonyx.compat

names = json.loads(Path("names.json").read_text())
here = Path.cwd()
sys.path.append(str(here / "installer"))
for name in names:
    if name.startswith(("micropip", "packaging")):
        zipfile.ZipFile(name).extractall("installer")
sardonyx.compat.install()
import micropip

assert "onnxruntime" in micropip.list_mock_packages()
await micropip.install([f"emfs:{here / name}" for name in names if name.startswith(("click", "magika"))])
from magika import Magika
import onnxruntime

assert onnxruntime.InferenceSession is sardonyx.InferenceSession
magika = Magika()
results = [magika.identify_bytes((here / str(k)).read_bytes()) for k in range(%d)]
print(json.dumps([[str(result.output.label), float(result.score)] for result in results]))
"""


@pytest.mark.nightly
def test_magika() -> None:
    require("pyodide")
    wanted = reported("magika", "onnxruntime")["answer"][: len(FILES)]
    try:
        wheels = [wheel(name, version) for name, version in WHEELS.items()]
    except subprocess.CalledProcessError as error:
        absent(f"micropip cannot be downloaded: {error.stderr.strip()}")
    files = {str(k): Path(ROOT, name).read_bytes() for k, name in enumerate(FILES)}
    files |= {each.name: each.read_bytes() for each in wheels}
    files["names.json"] = json.dumps([each.name for each in wheels]).encode()
    printed = run_in_pyodide(CODE % len(FILES), files)
    assert differences(json.loads(printed.splitlines()[-1]), wanted) == []
