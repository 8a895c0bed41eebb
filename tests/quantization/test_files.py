"""The files of both tools, graph by graph: nodes, names, initializers, types, versions."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import sardonyx
import sardonyx.quantization as ours
from tests.quantization import both
from tests.quantization.models import MODELS, samples
from tests.quantization.options import DYNAMIC, STATIC

THEIRS_FAILS = {
    ("choices", "qop u8s8", "qop s8s8", "qop channels", "qop symmetric", "qop of a node"): (
        "Where takes tensors that no node gives back in floats, unless it is forced"
    ),
    ("products", "qdq channels", "qop channels"): "a bias of two axes has no channels",
    ("products", "qdq channels of 4 bits", "qdq axis"): "a bias of two axes has its channels along the first",
    ("products", *DYNAMIC): "a weight of two nodes is transposed twice",
    ("factors", *STATIC): "beta is taken for a part of the scale of C, and alpha is forgotten",
    ("shared", *(each for each in STATIC if each.startswith("qop"))): "a bias of two nodes has the scale of the first",
    ("halves", *STATIC, *DYNAMIC): "float16 is given to operators that take float32",
    ("attention", *(each for each in STATIC if each.startswith("qop"))): "what is quantized has no range",
}
"""A model and option sets with which onnxruntime's tool fails, or makes a model that is wrong."""
OFTEN = ("qdq u8s8", "qop channels", "qop forced", "dynamic channels")
"""Option sets that are tried in each run of the tests; the others wait for the night."""
CASES = [
    pytest.param(model, options, marks=() if options in OFTEN else pytest.mark.nightly)
    for model in MODELS
    for options in [*STATIC, *DYNAMIC]
    if not any(model == name and options in sets for name, *sets in THEIRS_FAILS)
]


def files(name: str, options: str, folder: Path) -> tuple[Path, Path, Path]:
    """The model, and the files of both tools."""
    model = MODELS[name]()
    path = folder / "model.onnx"
    onnx.save(model, path)
    if options in STATIC:
        return path, *both.static(path, folder, samples(model), STATIC[options])
    return path, *both.dynamic(path, folder, DYNAMIC[options])


@pytest.mark.parametrize(("name", "options"), CASES)
def test_files_are_the_same(name: str, options: str, tmp_path: Path) -> None:
    _, mine, its = files(name, options, tmp_path)
    assert both.differences(mine, its) == []


@cache
def _unoptimized() -> Any:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return options


def outputs(path: Path, feeds: dict[str, Any], runtime: Any = onnxruntime) -> list[np.ndarray]:
    if runtime is onnxruntime:
        return list(
            onnxruntime.InferenceSession(path, _unoptimized(), providers=["CPUExecutionProvider"]).run(None, feeds)
        )
    return list(sardonyx.InferenceSession(path, providers=["NumpyExecutionProvider"]).run(None, feeds))


@pytest.mark.parametrize(
    ("name", "options"),
    [("choices", "qop forced"), ("choices", "qop channels"), ("products", "qdq channels"), ("products", "dynamic u8")],
)
def test_where_theirs_fails_ours_is_near_the_floats(name: str, options: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path, mine = tmp_path / "model.onnx", tmp_path / "ours.onnx"
    onnx.save(model, path)
    with both.quiet():
        if options in STATIC:
            ours.quantize_static(path, mine, both.Reader(samples(model)), **both.named(STATIC[options], ours))
        else:
            ours.quantize_dynamic(path, mine, **both.named(DYNAMIC[options], ours))
    feeds = samples(model)[0]
    expected, found = outputs(path, feeds)[0], outputs(mine, feeds)[0]
    cosine = np.vdot(expected, found) / np.linalg.norm(expected) / np.linalg.norm(found)
    assert cosine > 0.97


@pytest.mark.parametrize("name", ["convolutions", "activations", "movements", "embeddings", "recurrent", "pools"])
@pytest.mark.parametrize("options", ["qdq channels", "qop forced", "dynamic u8"])
def test_both_runtimes_agree_on_the_files(name: str, options: str, tmp_path: Path) -> None:
    """Scaled sums are added in another order, so that a number may be rounded to the next step.

    Weights are unsigned, or of 7 bits: where a processor has no VNNI, onnxruntime's products of others saturate.
    """
    path, mine, _ = files(name, options, tmp_path)
    feeds = samples(onnx.load(path))[0]
    expected, found = outputs(mine, feeds), outputs(mine, feeds, sardonyx)
    for one, other in zip(found, expected, strict=True):
        spread = float(other.max() - other.min()) or 1.0
        np.testing.assert_allclose(one, other, atol=0.02 * spread, rtol=0)


def integers(op_type: str, tmp_path: Path, runtime: Any) -> list[np.ndarray]:
    """What the quantized operator of a file gives, in integers."""
    name = {"QLinearMatMul": "activations", "QLinearConv": "convolutions"}[op_type]
    path, mine, _ = files(name, "qop forced", tmp_path)
    quantized = onnx.load(mine)
    node = next(each for each in quantized.graph.node if each.op_type == op_type)
    quantized.graph.output.append(helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, None))
    onnx.save(quantized, tmp_path / "watched.onnx")
    return [outputs(tmp_path / "watched.onnx", each, runtime)[-1] for each in samples(onnx.load(path))]


@pytest.mark.parametrize("op_type", ["QLinearMatMul", "QLinearConv"])
def test_quantized_operators_agree_to_the_last_integer(op_type: str, tmp_path: Path) -> None:
    expected = integers(op_type, tmp_path, onnxruntime)
    for found, other in zip(integers(op_type, tmp_path, sardonyx), expected, strict=True):
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, other)
