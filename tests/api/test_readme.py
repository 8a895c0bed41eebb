"""The Python that README.md shows runs, each piece as a file of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx.parser
import pytest

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
CHECK = """
import sys

session = sardonyx.InferenceSession(bytes.fromhex(sys.argv[1]))
(y,) = session.run(None, {"x": np.array([0.2, 0.9], np.float32)})
x = np.array([0.2, 0.9])
np.testing.assert_allclose(y, np.round(x * np.tanh(np.log1p(np.exp(2 * x))) / 0.5) * 0.5, rtol=1e-6)
"""
MODEL = """<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
g (float[N] x) => (float[N] y) { m = my.domain.Mish <beta = 2.0> (x)  y = my.domain.Snap <step = 0.5> (m) }"""


def run(script: str, folder: Path, *arguments: str) -> str:
    """What a file with this text prints; it runs from the repository's root, as README.md does."""
    (folder / "snippet.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(folder / "snippet.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_each_runs_as_it_stands(number: int, tmp_path: Path) -> None:
    assert len(SNIPPETS) >= 3
    printed = run(SNIPPETS[number], tmp_path)
    comments = re.findall(r"print\(.*\)  # (.*)", SNIPPETS[number])
    assert printed.splitlines() == comments


def test_its_operators_compute_what_they_say(tmp_path: Path) -> None:
    (snippet,) = (each for each in SNIPPETS if "custom_op" in each)
    run(snippet + CHECK, tmp_path, onnx.parser.parse_model(MODEL).SerializeToString().hex())
