"""Models compiled ahead: where no provider compiles nodes, both sides do the same."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from onnx import helper

import sardonyx
from sardonyx.errors import Fail, InvalidArgument, NotImplemented
from tests.api.sides import inner

SIDES = pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
TEXT = f"""<ir_version: 8, opset_import: ["" : 17]>
g (float[N,300] x) => (float[N,300] y) <float[300] w = {{{", ".join(map(str, range(300)))}}}> {{
  t = Add (x, w)
  i = Identity (t)
  y = Relu (i)
}}
"""
X = np.ones((2, 300), np.float32)


def model() -> Any:
    proto = onnx.parser.parse_model(TEXT)
    helper.set_model_props(proto, {"ep_compatibility_info.SomeExecutionProvider": "version 3"})
    return proto


def native(side: ModuleType) -> Any:
    return inner(side, "capi._pybind_state")


def check(data: Any) -> list[str]:
    (y,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    np.testing.assert_array_equal(y, X + np.arange(300))
    proto = onnx.load_from_string(data) if isinstance(data, bytes) else onnx.load(data)
    return [node.op_type for node in proto.graph.node]


@SIDES
def test_the_model_compiler(side: ModuleType, tmp_path: Path) -> None:
    options, path = side.SessionOptions(), tmp_path / "m.onnx"
    onnx.save(model(), path)
    compiler = side.ModelCompiler(options, path.read_bytes())
    assert check(compiler.compile_to_bytes()) == ["Add", "Identity", "Relu"]
    streamed: list[bytes] = []
    compiler.compile_to_stream(streamed.append)
    assert check(b"".join(streamed)) == ["Add", "Identity", "Relu"]
    if side is sardonyx:  # onnxruntime documents that the path may be left out, and raises TypeError
        side.ModelCompiler(options, str(path)).compile_to_file()
        assert check(str(tmp_path / "m_ctx.onnx")) == ["Add", "Identity", "Relu"]
    level = side.GraphOptimizationLevel.ORT_ENABLE_BASIC
    compiler = side.ModelCompiler(options, str(path), graph_optimization_level=level)
    compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert check(str(tmp_path / "made.onnx")) == ["Add", "Relu"]
    compiler = side.ModelCompiler(options, str(path), external_initializers_file_path="made.bin")
    compiler.compile_to_file(str(tmp_path / "outside.onnx"))
    assert (tmp_path / "made.bin").stat().st_size >= 1200
    check(str(tmp_path / "outside.onnx"))


@SIDES
def test_flags_of_the_model_compiler(side: ModuleType, tmp_path: Path) -> None:
    options, flags = side.SessionOptions(), side.OrtCompileApiFlags
    data = model().SerializeToString()
    (tmp_path / "made.onnx").touch()
    compiler = side.ModelCompiler(options, data, flags=flags.ERROR_IF_OUTPUT_FILE_EXISTS)
    with pytest.raises(Exception, match="exist") as caught:
        compiler.compile_to_file(str(tmp_path / "made.onnx"))
    assert type(caught.value).__name__ == "Fail"
    compiler = side.ModelCompiler(options, data, flags=flags.ERROR_IF_NO_NODES_COMPILED)
    with pytest.raises(Exception, match="compile") as caught:
        compiler.compile_to_bytes()
    assert type(caught.value).__name__ == "Fail"
    for wrong, kind in ((b"", ValueError), ("", ValueError), (3, TypeError)):
        with pytest.raises(kind):
            side.ModelCompiler(options, wrong)


def test_what_the_model_compiler_refuses() -> None:
    options, data = sardonyx.SessionOptions(), model().SerializeToString()
    with pytest.raises(NotImplemented, match="give external_initializers_file_path instead"):
        sardonyx.ModelCompiler(options, data, get_initializer_location_func=print)
    with pytest.raises(InvalidArgument, match="the model came as bytes"):
        sardonyx.ModelCompiler(options, data).compile_to_file()
    with pytest.raises(InvalidArgument, match="bytes have no folder"):
        sardonyx.ModelCompiler(options, data, external_initializers_file_path="a.bin").compile_to_bytes()
    with pytest.raises(Fail, match="`sardonyx compile` makes a bundle"):
        sardonyx.ModelCompiler(options, data, flags=1).compile_to_bytes()


@SIDES
def test_what_a_compiled_model_is_for(side: ModuleType, tmp_path: Path) -> None:
    names, data = native(side), model().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    assert names.get_compatibility_info_from_model_bytes(data, "SomeExecutionProvider") == "version 3"
    assert names.get_compatibility_info_from_model_bytes(data, "CPUExecutionProvider") is None
    assert names.get_compatibility_info_from_model(str(tmp_path / "m.onnx"), "SomeExecutionProvider") == "version 3"
    with pytest.raises(RuntimeError, match="Invalid argument"):
        names.get_compatibility_info_from_model_bytes(data, "")
    (device,) = (each for each in side.get_ep_devices() if each.ep_name == "CPUExecutionProvider")
    told = names.get_model_compatibility_for_ep_devices([device], "version 3")
    assert told.name == names.OrtCompiledModelCompatibility.EP_NOT_APPLICABLE.name
    with pytest.raises(RuntimeError, match="Invalid argument"):
        names.get_model_compatibility_for_ep_devices([], "version 3")
    (hardware,) = (each for each in names.get_hardware_devices() if each.type.name == "CPU")
    details = names.get_hardware_device_ep_incompatibility_details("CPUExecutionProvider", hardware)
    assert details == {"reasons_bitmask": 0, "notes": None, "error_code": 0}
    where = side.OrtExternalInitializerInfo("weights.bin", 64, 128)
    assert (where.filepath, where.file_offset, where.byte_size) == ("weights.bin", 64, 128)
