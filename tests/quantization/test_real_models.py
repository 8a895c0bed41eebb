"""Real models made ready, and made of float16: both runtimes give what the model gives."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.quantization.auto_mixed_precision import auto_convert_mixed_precision
from sardonyx.quantization.float16 import convert_float_to_float16
from sardonyx.quantization.shape_inference import quant_pre_process
from tests.models import inputs, path, reference
from tests.quantization.weights import by_onnxruntime, by_sardonyx

pytestmark = pytest.mark.slow
HALF = {"ppocr2-cls": 1e-2, "minilm-l3": 2e-3, "romanizer-dec": 2e-3, "silero-vad-seq": 4e-3}
READY = {"ppocr2-cls": 1e-5, "minilm-l3": 1e-5, "eeg-spindle-unet": 1e-5, "romanizer-dec": 1e-5, "silero-vad-seq": 1e-5}


def near(model: Any, id: str, tolerance: float) -> None:
    for runtime in (by_onnxruntime, by_sardonyx):
        for found, wanted in zip(runtime(model, inputs(id)), reference(id), strict=True):
            assert found.shape == wanted.shape
            scale = max(float(np.abs(wanted).max(initial=0)), 1e-9)
            np.testing.assert_allclose(found.astype(float), wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("id", HALF)
def test_float16(id: str) -> None:
    model = onnx.load(path(id))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* elements are beyond")
        found = convert_float_to_float16(model, keep_io_types=True)
    assert len(found.SerializeToString()) < 0.7 * len(model.SerializeToString())
    near(found, id, HALF[id])


@pytest.mark.parametrize("id", READY)
def test_ready_for_quantizing(id: str, tmp_path: Path) -> None:
    quant_pre_process(path(id), tmp_path / "ready.onnx")
    found, model = onnx.load(tmp_path / "ready.onnx"), onnx.load(path(id))
    assert len(found.graph.node) <= len(model.graph.node)
    assert {node.domain for node in found.graph.node} <= {node.domain for node in model.graph.node}
    assert found.opset_import[0].version == model.opset_import[0].version
    near(found, id, READY[id])


@pytest.mark.nightly
def test_sums_beyond_float16_are_found() -> None:
    """magika sums to 126,082, beyond float16: two nodes of 95 keep float32."""
    id, model = "magika", onnx.load(path("magika"))
    found = auto_convert_mixed_precision(model, inputs(id), rtol=1e-2, atol=1e-2, keep_io_types=True)
    near(found, id, 1e-2)
    inferred = onnx.shape_inference.infer_shapes(found)
    kinds = {value.name: value.type.tensor_type.elem_type for value in inferred.graph.value_info}
    sums = [node for node in found.graph.node if node.op_type == "ReduceSum"]
    assert 0 < sum(kinds.get(node.output[0]) == onnx.TensorProto.FLOAT for node in sums) < len(sums)
