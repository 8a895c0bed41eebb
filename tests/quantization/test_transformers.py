"""onnxruntime.transformers' names for element types, and those that are there to be imported."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import sardonyx.compat
from sardonyx.quantization.transformers.io_binding_helper import TypeHelper
from tests.support import require

NAMES = (
    *("float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32"),
    *("uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2"),
    *("float8e5m2fnuz", "uint4", "int4", "float4e2m1"),
)


def test_numbers_are_those_of_onnx() -> None:
    numbers = {f"tensor({name})": number for name, number in onnx.TensorProto.DataType.items()}
    spelled = {"float": "FLOAT", "double": "DOUBLE"}
    for name in NAMES:
        wanted = numbers[f"tensor({spelled.get(name, name.upper())})"]
        assert TypeHelper.ort_type_to_onnx_type(f"tensor({name})") == wanted


def test_names_in_onnxruntime_s_session() -> None:
    """What a helper says of onnxruntime's own session is what that session takes and gives."""
    kinds = {"f": 1, "i": 7, "b": 9, "h": 10}
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in kinds]
    ports = [[info(f"{name}{end}", kind, [1]) for name, kind in kinds.items()] for end in ("", "_out")]
    graph = helper.make_graph(nodes, "types", *ports)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = TypeHelper.get_io_numpy_type_map(session)
    feeds = {name: np.zeros(1, found[name]) for name in kinds}
    for name, result in zip(kinds, session.run(None, feeds), strict=True):
        assert result.dtype == found[f"{name}_out"]
    assert TypeHelper.get_io_onnx_type_map(session) == {
        f"{n}{end}": k for n, k in kinds.items() for end in ("", "_out")
    }
    assert TypeHelper.get_input_type(session, "h") == "tensor(float16)"
    assert TypeHelper.get_output_type(session, "b_out") == "tensor(bool)"
    with pytest.raises(ValueError, match="input name x not found; there are f, i, b, h"):
        TypeHelper.get_input_type(session, "x")
    with pytest.raises(ValueError, match=r"tensor\(bfloat16\) not found"):
        TypeHelper.ort_type_to_numpy_type("tensor(bfloat16)")


@pytest.mark.nightly
def test_torch_s_types_are_those_that_onnxruntime_finds() -> None:
    require("torch")
    import torch
    from onnxruntime.transformers.io_binding_helper import TypeHelper as Theirs

    def said(function: Any, asked: object) -> object:
        try:
            return function(asked)
        except ValueError:
            return None

    for asked in [f"tensor({name})" for name in (*NAMES, "such")]:
        for name in ("ort_type_to_numpy_type", "ort_type_to_torch_type"):
            assert said(getattr(TypeHelper, name), asked) == said(getattr(Theirs, name), asked), asked
    for torch_type in (torch.float32, torch.bool, torch.uint8, torch.complex64, torch.bfloat16):
        numpy_type = said(Theirs.torch_type_to_numpy_type, torch_type)
        assert said(TypeHelper.torch_type_to_numpy_type, torch_type) == numpy_type
        assert said(TypeHelper.numpy_type_to_torch_type, numpy_type) == said(
            Theirs.numpy_type_to_torch_type, numpy_type
        )


@pytest.mark.parametrize(
    "path",
    [
        "fusion_options.FusionOptions",
        "onnx_model.OnnxModel",
        "onnx_model_bert.BertOnnxModel",
        "optimizer.optimize_model",
    ],
)
def test_what_fuses_beforehand_says_what_to_do(path: str) -> None:
    module, name = path.split(".")
    assert hasattr(importlib.import_module(f"onnxruntime.transformers.{module}"), name)
    sardonyx.compat.install()
    try:
        refused = getattr(importlib.import_module(f"onnxruntime.transformers.{module}"), name)
    finally:
        sardonyx.compat.uninstall()
    with pytest.raises(NotImplementedError, match=f"{name} fuses a model .* give InferenceSession the model as it is"):
        refused("bert")
