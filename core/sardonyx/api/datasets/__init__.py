"""The three small models that onnxruntime's documentation is about, made when they are asked for."""

from __future__ import annotations

import os
import tempfile
from functools import cache

from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.writer import save

EXAMPLES = {
    "mul_1.onnx": """
        <ir_version: 3, opset_import: ["" : 7]>
        mul (float[3,2] X) => (float[3,2] Y) <float[3,2] W = {1, 2, 3, 4, 5, 6}> { Y = Mul (X, W) }
    """,
    "sigmoid.onnx": """
        <ir_version: 3, opset_import: ["" : 9]>
        sigmoid (float[3,4,5] x) => (float[3,4,5] y) { y = Sigmoid (x) }
    """,
    "logreg_iris.onnx": """
        <ir_version: 3, opset_import: ["ai.onnx.ml" : 1]>
        logreg_iris (float[3,2] float_input) => (int64[3] label, seq(map(int64, float[])) probabilities) {
          label, scores = ai.onnx.ml.LinearClassifier <
            classlabels_ints = [0, 1, 2],
            coefficients = [
              0.38574114, 1.3805406, -2.13145, -0.9928048, 0.6427745, -1.7489388,
              0.5150966, -1.4053476, -1.7241192, -1.1595137, 2.2478848, 2.4283915],
            intercepts = [0.2496292, 0.5820278, -0.94161665],
            multi_class = 0,
            post_transform = "LOGISTIC"> (float_input)
          normalized = ai.onnx.ml.Normalizer <norm = "L1"> (scores)
          probabilities = ai.onnx.ml.ZipMap <classlabels_int64s = [0, 1, 2]> (normalized)
        }
    """,
}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where they are, until Python ends."""
    return tempfile.TemporaryDirectory(prefix="sardonyx-datasets-")


def get_example(name: str) -> str:
    """The path of the example of this name; FileNotFoundError where there is none.

    >>> os.path.basename(get_example("mul_1.onnx"))
    'mul_1.onnx'
    """
    if name not in EXAMPLES:
        raise FileNotFoundError(f"Unable to find example {name!r}; there are {', '.join(EXAMPLES)}")
    path = os.path.join(_folder().name, name)
    if not os.path.exists(path):
        save(parse_model(EXAMPLES[name]), path)
    return path
