"""The command line of onnxruntime's static_quantize_runner: the same arguments, the same file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import static_quantize_runner as theirs

from sardonyx.errors import InvalidArgument
from sardonyx.quantization import static_quantize_runner as ours
from tests.quantization import both
from tests.quantization.models import MODELS, samples

ARGUMENTS = [
    [],
    ["--activation_type", "quint8", "--weight_type", "quint8", "--quant_format", "qoperator"],
    ["--per_channel", "--disable_quantize_bias", "--minimum_real_range", "0.5"],
    ["--nodes_to_exclude", "Conv_0", "--qdq_keep_removable_activations", "--dedicated_qdq_pair"],
    ["--nodes_to_quantize", "Conv_0", "Gemm_7", "--add_qdq_pair_to_weight"],
    ["--op_types_to_exclude_output_quantization", "Conv", "Gemm", "--calib_tensor_range_symmetric"],
    ["--activation_type", "qint16", "--use_qdq_contrib_ops", "--qdq_disable_weight_adjust_for_int32_bias"],
    ["--force_quantize_no_input_check", "--matmul_const_b_only", "--calib_moving_average"],
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model and two samples beside it, as ONNX's own tests have them."""
    made = MODELS["convolutions"]()
    onnx.save(made, tmp_path / "model.onnx")
    for k, feeds in enumerate(samples(made, 2)):
        (tmp_path / f"test_data_set_{k}").mkdir()
        for number, array in enumerate(feeds.values()):
            data = numpy_helper.from_array(array).SerializeToString()
            (tmp_path / f"test_data_set_{k}" / f"input_{number}.pb").write_bytes(data)
    return tmp_path


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_files_are_the_same(arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges are learned apart, so scales may differ by what the order of sums leaves."""
    given = ["-i", str(folder / "model.onnx"), *arguments, "-o"]
    with both.quiet():
        ours.main([*given, str(folder / "ours.onnx")])
        monkeypatch.setattr(sys, "argv", ["runner", *given, str(folder / "theirs.onnx")])
        theirs.main()
    mine, its = (onnx.load(folder / name) for name in ("ours.onnx", "theirs.onnx"))
    assert [(n.op_type, list(n.input), list(n.output)) for n in mine.graph.node] == [
        (n.op_type, list(n.input), list(n.output)) for n in its.graph.node
    ]
    scales = [
        {each.name: numpy_helper.to_array(each) for each in model.graph.initializer if each.name.endswith("_scale")}
        for model in (mine, its)
    ]
    assert scales[0].keys() == scales[1].keys()
    for name, array in scales[0].items():
        assert array == pytest.approx(scales[1][name], rel=1e-5), name


def test_overrides_and_axes_come_from_the_command_line(folder: Path) -> None:
    (folder / "overrides.json").write_text(json.dumps({"x": [{"scale": 0.005, "zero_point": 2}]}))
    given = ["-i", str(folder / "model.onnx"), "-o", str(folder / "ours.onnx"), "--per_channel"]
    with both.quiet():
        ours.main(
            [*given, "--tensor_quant_overrides", str(folder / "overrides.json"), "--op_per_channel_axis", "Gemm", "1"]
        )
    held = {each.name: numpy_helper.to_array(each) for each in onnx.load(folder / "ours.onnx").graph.initializer}
    assert float(held["x_scale"]) == pytest.approx(0.005)
    assert int(held["x_zero_point"]) == 2


def test_without_samples(tmp_path: Path) -> None:
    onnx.save(MODELS["convolutions"](), tmp_path / "model.onnx")
    with pytest.raises(InvalidArgument, match=r"has no test_data_set_0/input_0\.pb"):
        ours.main(["-i", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "ours.onnx")])
