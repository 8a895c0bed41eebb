"""Optimized models, put back into their operator sets: ONNX accepts them, and onnxruntime computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sardonyx import ops
from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write
from sardonyx.passes.downgrade import lower
from sardonyx.passes.pipeline import prepare
from tests.models import SHORT, assert_close, inputs, path, reference
from tests.models.oracle import session_of


def test_operators_know_when_they_came():
    first: dict[tuple[str, str], int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        first.setdefault((schema.domain, schema.name), schema.since_version)
        first[schema.domain, schema.name] = min(first[schema.domain, schema.name], schema.since_version)
    wrong = {key: operator.since for key, operator in ops.load().items() if first.get(key, 1) != operator.since}
    assert not wrong, "`since` is where ONNX has the operator first; leave it out where ONNX does not have it"


def put_back(model):
    prepared = prepare(model, SessionOptions())
    return lower(prepared, model.opset_imports)


@pytest.mark.slow
def test_onnx_models_stay_valid(onnx_cases):
    raised = []
    for name, data, _ in onnx_cases:
        model = read(data)
        result = put_back(model)
        onnx.checker.check_model(onnx.load_from_string(write(result)))
        if result.opset_imports.get("", 1) > max(7, model.opset_imports.get("", 1)):
            raised.append(name)
    # Set 6's way to broadcast is gone; Scatter has another name now, and what was Upsample is a Resize.
    assert all("scatter" in name or "upsample" in name for name in raised), raised


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (10, "y = ReduceMean <axes = [1], keepdims = 0> (x)"),
        (17, "y = ReduceMax <axes = [-1]> (x)"),
        (11, "y = Unsqueeze <axes = [0, 3]> (x)"),
        (10, "y = Clip <min = -0.5, max = 0.25> (x)"),
        (9, "y = Slice <starts = [1], ends = [3], axes = [1]> (x)"),
        (10, "y = Pad <pads = [1, 0, 0, 2], value = 1.5> (x)"),
        (12, "a, y = Split <axis = 1, split = [1, 3]> (x)"),
        (12, "y = Softmax <axis = 1> (x)"),
        (9, "y, places = TopK <k = 2> (x)"),
        (11, "y, mask = Dropout <ratio = 0.25> (x)"),
        (8, "s = Constant <value = int64[2] {6, 2}> () y = Reshape (x, s)"),
    ],
)
def test_forms_go_back(opset, body):
    text = f'<ir_version: 8, opset_import: ["" : {opset}]> main (float32[3,4] x) => (float32 y) {{ {body} }}'
    model = parse_model(text)
    model.graph.outputs[0].type = None
    result = put_back(model)
    assert result.opset_imports[""] == opset
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    found, expected = (
        onnxruntime.InferenceSession(write(each), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for each in (result, model)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("id", SHORT)
def test_onnxruntime_runs_what_was_optimized(id: str, tmp_path: Path):
    target = tmp_path / "optimized.onnx"
    model = read(path(id))
    save(put_back(model), target)
    assert_close(id, session_of(target).run(None, inputs(id)), reference(id))


def test_session_writes_it(tmp_path: Path):
    options = SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    session = InferenceSession("examples/digits/digits.onnx", options, providers=["NumpyExecutionProvider"])
    feeds = {"image": np.random.default_rng(0).random((2, 1, 28, 28), np.float32)}
    again = InferenceSession(options.optimized_model_filepath, providers=["NumpyExecutionProvider"])
    np.testing.assert_allclose(again.run(None, feeds)[0], session.run(None, feeds)[0], rtol=1e-6)
