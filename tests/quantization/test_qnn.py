"""Configurations for QNN, against onnxruntime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime.quantization as theirs
import onnxruntime.quantization.execution_providers.qnn as their_qnn
import pytest

import sardonyx.quantization as ours
import sardonyx.quantization.execution_providers.qnn as qnn
from tests.quantization import both
from tests.quantization.models import Builder

WIDE, NARROW, SIGNED = "QuantType.QUInt16", "QuantType.QUInt8", "QuantType.QInt16"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x -> Abs -> a -> MatMul -> m -> Sigmoid -> s -> Add(s, b) -> y, and b = Tanh(a), z = Neg(m)"""
    b = Builder(2, 3)
    b.node("Abs", ["x"], "a", name="abs")
    b.node("MatMul", ["a", b.constant("w", 3, 3)], "m", name="product")
    b.node("Sigmoid", ["m"], "s", name="sigmoid")
    b.node("Tanh", ["a"], "b", name="tanh")
    b.node("Add", ["s", "b"], "y", name="sum")
    b.node("Neg", ["m"], "z", name="negative")
    b.node("LayerNormalization", ["z", b.constant("ls", 3), b.constant("lb", 3)], "n", name="norm")
    onnx.save(b.model("y", "n"), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


CASES: list[dict[str, Any]] = [
    {},
    {"activation_type": WIDE},
    {"activation_type": SIGNED, "weight_type": "QuantType.QInt8", "per_channel": True},
    {"init_overrides": {"m": [{"quant_type": WIDE}]}},
    {"init_overrides": {"a": [{"quant_type": WIDE}]}, "weight_type": "QuantType.QInt8"},
    {"init_overrides": {"s": [{"quant_type": WIDE}], "b": [{"quant_type": WIDE}]}},
    {"init_overrides": {"s": [{"quant_type": WIDE}]}, "add_qtype_converts": False},
    {"init_overrides": {"x": [{"symmetric": True}]}, "op_types_to_quantize": ["Abs"], "stride": 2},
    {"init_overrides": {"z": [{"quant_type": WIDE}]}, "nodes_to_exclude": ["tanh"], "weight_type": "QuantType.QInt4"},
]


@pytest.mark.parametrize("case", CASES)
def test_configurations_are_theirs(case: dict[str, Any], model: Path) -> None:
    with both.quiet():
        found = vars(qnn.get_qnn_qdq_config(model, both.Reader([]), **both.named(case, ours)))
        expected = vars(their_qnn.get_qnn_qdq_config(model, both.Reader([]), **both.named(case, theirs)))
    assert found.keys() == expected.keys()
    for key in found.keys() - {"calibration_data_reader"}:
        mine, its = found[key], expected[key]
        if isinstance(mine, list):
            mine, its = sorted(mine), sorted(its)
        assert plain(mine) == plain(its), key


def plain(value: Any) -> Any:
    """What can be compared: sets in order, arrays as lists, enumerations by name."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (set, list)):
        return sorted(map(str, value)) if isinstance(value, set) else [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else str(value)


def test_types_that_clash(model: Path) -> None:
    clash = {"s": [{"quant_type": ours.QuantType.QUInt16}], "b": [{"quant_type": ours.QuantType.QInt16}]}
    with pytest.raises(ValueError, match="Tensor y has multiple types"):
        qnn.get_qnn_qdq_config(model, both.Reader([]), init_overrides=clash)
