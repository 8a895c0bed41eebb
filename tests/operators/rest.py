"""Models for operators of which there are no other cases, or none that tells."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
I64 = np.array(1, np.int64)


def _model(body: str, inputs: str = "float[2,3] x", output: str = "float[2,3] y") -> str:
    opsets = '"" : 21, "ai.onnx.ml" : 3, "com.microsoft" : 1, "ai.onnx.preview.training" : 1'
    return f"<ir_version: 10, opset_import: [{opsets}]>\ng ({inputs}) => ({output}) {{ {body} }}"


def _of_x(body: str, output: str = "float[2,3] y") -> list[tuple[str, dict[str, Any]]]:
    return [(_model(body, output=output), {"x": X})]


_TREE = """nodes_falsenodeids = [2, 0, 0], nodes_featureids = [0, 0, 0], nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
  nodes_nodeids = [0, 1, 2], nodes_treeids = [0, 0, 0], nodes_truenodeids = [1, 0, 0], nodes_values = [0.5, 0.0, 0.0]"""

MODELS: dict[tuple[str, str], list[tuple[str, dict[str, Any]]]] = {
    ("", "ConcatFromSequence"): _of_x(
        "s = SequenceConstruct (x, x)  y = ConcatFromSequence <axis = 0> (s)", "float[4,3] y"
    ),
    ("", "Multinomial"): _of_x("y = Multinomial <sample_size = 4, seed = 1.0> (x)", "int32[2,4] y"),
    ("", "Optional"): _of_x("o = Optional (x)  y = OptionalGetElement (o)"),
    ("", "RandomNormal"): _of_x("r = RandomNormal <shape = [2, 3]> ()  y = Add (x, r)"),
    ("", "RandomNormalLike"): _of_x("r = RandomNormalLike (x)  y = Add (x, r)"),
    ("", "RandomUniform"): _of_x("r = RandomUniform <shape = [2, 3]> ()  y = Add (x, r)"),
    ("", "RandomUniformLike"): _of_x("r = RandomUniformLike (x)  y = Add (x, r)"),
    ("", "SequenceAt"): _of_x(
        "s = SequenceConstruct (x, x)  i = Constant <value_int = 1> ()  t = SequenceAt (s, i)  y = Neg (t)"
    ),
    ("", "SequenceConstruct"): _of_x(
        "t = Neg (x)  s = SequenceConstruct (t, x)  y = ConcatFromSequence <axis = 0> (s)", "float[4,3] y"
    ),
    ("", "SequenceErase"): _of_x(
        "s = SequenceConstruct (x, x)  t = SequenceErase (s)  y = ConcatFromSequence <axis = 0> (t)"
    ),
    ("", "SequenceEmpty"): _of_x(
        "e = SequenceEmpty <dtype = 1> ()  s = SequenceInsert (e, x)  y = ConcatFromSequence <axis = 0> (s)"
    ),
    ("", "SequenceLength"): _of_x("s = SequenceConstruct (x, x)  y = SequenceLength (s)", "int64 y"),
    ("ai.onnx.ml", "ZipMap"): _of_x(
        "y = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 4, 5]> (x)", "seq(map(int64, float)) y"
    ),
    ("ai.onnx.ml", "DictVectorizer"): [
        (
            _model(
                "y = ai.onnx.ml.DictVectorizer <int64_vocabulary = [1, 2, 3]> (m)",
                "map(int64, float) m",
                "float[1,3] y",
            ),
            {"m": {1: 0.5, 3: 2.0}},
        )
    ],
    ("ai.onnx.ml", "CastMap"): [
        (_model("y = ai.onnx.ml.CastMap (m)", "map(int64, float) m", "float[1,2] y"), {"m": {1: 0.5, 3: 2.0}})
    ],
    ("ai.onnx.ml", "TreeEnsembleRegressor"): _of_x(
        f"y = ai.onnx.ml.TreeEnsembleRegressor <{_TREE}, n_targets = 1, target_ids = [0, 0], target_nodeids = [1, 2], "
        "target_treeids = [0, 0], target_weights = [1.0, 2.0]> (x)",
        "float[2,1] y",
    ),
    ("ai.onnx.ml", "TreeEnsembleClassifier"): _of_x(
        f"y, p = ai.onnx.ml.TreeEnsembleClassifier <{_TREE}, classlabels_int64s = [0, 1], class_ids = [0, 1], "
        "class_nodeids = [1, 2], class_treeids = [0, 0], class_weights = [1.0, 2.0]> (x)",
        "int64[2] y, float[2,2] p",
    ),
    ("ai.onnx.preview.training", "Gradient"): _of_x(
        's = Exp (x)  y = ai.onnx.preview.training.Gradient <xs = ["x"], y = "s"> (x)'
    ),
    ("com.microsoft", "SimplifiedLayerNormalization"): [
        (
            _model("y = com.microsoft.SimplifiedLayerNormalization (x, w)", "float[2,3] x, float[3] w"),
            {"x": X, "w": X[0]},
        )
    ],
    ("com.microsoft", "QLinearReduceMean"): [
        (
            _model(
                """s = Constant <value_float = 0.5> ()  z = Constant <value = uint8 {3}> ()
                q = QuantizeLinear (x, s, z)
                y = com.microsoft.QLinearReduceMean <axes = [1], keepdims = 1> (q, s, z, s, z)""",
                output="uint8[2,1] y",
            ),
            {"x": X},
        )
    ],
}
