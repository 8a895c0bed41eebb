"""Models and pictures to give to the commands, and both kinds of screen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

Save = Callable[..., Path]


@pytest.fixture(params=["rich", "plain"])
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with rich and without it, on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    if request.param == "plain":
        without(monkeypatch, "rich")
    return str(request.param)


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages look as if they were not installed."""
    for package in packages:
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)


@pytest.fixture
def model(tmp_path: Path) -> Save:
    """Writes a model of one node: `model("Relu", [("x", float32, ["N", 3])], [("y", float32, ["N", 3])])`."""

    def save(op_type: str, inputs: list[Any], outputs: list[Any], name: str = "model.onnx", **attributes: Any) -> Path:
        ins, outs = ([helper.make_tensor_value_info(*port) for port in some] for some in (inputs, outputs))
        domain = attributes.pop("domain", "")
        node = helper.make_node(
            op_type, [p[0] for p in inputs], [p[0] for p in outputs], "n", domain=domain, **attributes
        )
        opsets = [helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])]
        proto = helper.make_model(helper.make_graph([node], "g", ins, outs), opset_imports=opsets, ir_version=9)
        path = tmp_path / name
        onnx.save(proto, path)
        return path

    return save


@pytest.fixture
def relu(model: Save) -> Path:
    """`y = max(x, 0)`, float32 [N, 3]."""
    return model("Relu", [("x", TensorProto.FLOAT, ["N", 3])], [("y", TensorProto.FLOAT, ["N", 3])])


@pytest.fixture
def graph(tmp_path: Path) -> Save:
    """Writes a model in the text form of ONNX: `graph("g (float[N] x) => (float[N] y) { y = Relu (x) }")`."""

    def save(text: str, opset: int = 20, **metadata: str) -> Path:
        head = f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1, "ai.onnx.ml" : 3]>\n'
        proto = onnx.parser.parse_model(head + text)
        helper.set_model_props(proto, metadata)
        path = tmp_path / "graph.onnx"
        onnx.save(proto, path)
        return path

    return save


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """An RGB picture, 6 high and 8 wide, as PNG."""
    path = tmp_path / "picture.png"
    pixels = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    Image.fromarray(pixels).save(path)
    return path
