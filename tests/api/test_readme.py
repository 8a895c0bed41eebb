"""The Python that README.md shows runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx.parser

README = Path("README.md")

CHECK = """
model = sys.argv[1]
session = ort.InferenceSession(bytes.fromhex(model))
(y,) = session.run(None, {"x": np.array([0.2, 0.9], np.float32)})
x = np.array([0.2, 0.9])
np.testing.assert_allclose(y, np.round(x * np.tanh(np.log1p(np.exp(2 * x))) / 0.5) * 0.5, rtol=1e-6)
"""
MODEL = """<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
g (float[N] x) => (float[N] y) { m = my.domain.Mish <beta = 2.0> (x)  y = my.domain.Snap <step = 0.5> (m) }"""


def test_its_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    model = onnx.parser.parse_model(MODEL).SerializeToString().hex()
    script = "\n".join(["import sys", *blocks, CHECK])
    command = [sys.executable, "-W", "error", "-c", script, model]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "this is a 1" in done.stdout
