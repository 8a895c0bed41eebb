"""float16 as f16 in memory, where the device has shader-f16: the same bits as from pairs in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.code.program import cast
from sardonyx.errors import EPFail
from sardonyx_webgpu import provider
from sardonyx_webgpu.gpu.interface import Adapter, wants_half
from sardonyx_webgpu.kernels.programs import shader
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support import require
from tests.webgpu.folds import model
from tests.webgpu.harness import apply, edges, elementwise

require("webgpu")
HALF = np.float16


@pytest.fixture(scope="module")
def device() -> WebGpuDevice:
    found = provider.device({"float16": "native"})
    if not found.gpu.half:
        pytest.skip("this GPU has no shader-f16")
    return found


def codes() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(HALF)


def test_every_code(device: WebGpuDevice) -> None:
    array = codes()
    known = ~np.isnan(array)
    wide = apply(device, ["float16"], "float32", lambda x: cast("float32", x), array)
    np.testing.assert_array_equal(wide, array.astype(np.float32))
    back = apply(device, ["float32"], "float16", lambda x: cast("float16", x), wide)
    assert back[known].tobytes() == array[known].tobytes()
    assert np.isnan(back[~known]).all()


def test_rounding(device: WebGpuDevice, rng: np.random.Generator) -> None:
    middles = (codes()[:0x7BFF].astype(np.float64) + codes()[1:0x7C00]) / 2
    array = np.concatenate([middles, rng.standard_normal(5000) * 1e3, [65519.9, 65520, 1e30]]).astype(np.float32)
    array = np.concatenate([array, -array])
    with np.errstate(over="ignore"):
        expected = array.astype(HALF)
    found = apply(device, ["float32"], "float16", lambda x: cast("float16", x), array)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("other", ["bfloat16", "int8", "uint16", "int64", "bool"])
def test_beside_other_types(device: WebGpuDevice, other: str) -> None:
    array = edges("float16")
    array = array[np.isfinite(array) & (np.abs(array) < 100) & (array >= 0)]
    found = apply(device, ["float16"], other, lambda x: cast(other, x), array)
    expected = array.astype(ml_dtypes.bfloat16).view(np.uint16) if other == "bfloat16" else array.astype(other)
    assert found.tobytes() == expected.tobytes()


def test_only_where_it_is_needed() -> None:
    for reads, enabled in ((["float16"], True), (["float32"], False), (["bfloat16"], False)):
        program = elementwise(reads, "float32", lambda x: cast("float32", x))
        assert ("enable f16;" in shader(program, half=True).wgsl) == enabled
        assert "f16>" not in shader(program, half=False).wgsl


def test_option(monkeypatch: pytest.MonkeyPatch) -> None:
    graphics, processor = Adapter("a GPU"), Adapter("llvmpipe")
    assert wants_half({}, graphics)
    assert not wants_half({}, processor)
    assert not wants_half({"float16": "packed"}, graphics)
    monkeypatch.setenv("SARDONYX_FLOAT16", "native")
    assert wants_half({}, processor)
    with pytest.raises(EPFail, match="'native' or 'packed', not 'bf16'"):
        wants_half({"float16": "bf16"}, graphics)


def results(data: bytes, feeds: Mapping[str, np.ndarray], how: str) -> list[np.ndarray]:
    session = InferenceSession(data, providers=[("WebGpuExecutionProvider", {"float16": how})])
    found = session.run(None, dict(feeds))
    assert set(session.plans[0].placement) <= {0, -1}
    return [np.asarray(array) for array in found]


def weights(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(HALF)


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


CASES: dict[str, tuple[Sequence[Any], dict[str, np.ndarray]]] = {
    "product": ([node("MatMul", "a b")], {"a": weights(16, 64), "b": weights(64, 32)}),
    "odd_product": ([node("MatMul", "a b")], {"a": weights(7, 65), "b": weights(65, 33)}),
    "gemv": ([node("MatMul", "a b")], {"a": weights(1, 300), "b": weights(300, 71)}),
    "epilogue": (
        [node("MatMul", "a b", "t"), node("Add", "t c", "s"), node("Relu", "s")],
        {"a": weights(8, 64), "b": weights(64, 40), "c": weights(40)},
    ),
    "convolution": (
        [node("Conv", "a b c", pads=[1, 1, 1, 1])],
        {"a": weights(1, 5, 9, 11), "b": weights(7, 5, 3, 3, scale=0.2), "c": weights(7)},
    ),
    "winograd": (
        [node("Conv", "a b", pads=[1, 1, 1, 1])],
        {"a": weights(1, 32, 28, 28), "b": weights(32, 32, 3, 3, scale=0.1)},
    ),
    "depthwise": (
        [node("Conv", "a b", pads=[1, 1, 1, 1], group=8)],
        {"a": weights(1, 8, 9, 9), "b": weights(8, 1, 3, 3)},
    ),
    "turned": ([node("Transpose", "a", "t"), node("Neg", "t")], {"a": weights(37, 61)}),
    "softmax": ([node("Softmax", "a")], {"a": weights(5, 77)}),
    "normalization": ([node("LayerNormalization", "a b")], {"a": weights(6, 65), "b": weights(65)}),
    "columns": ([node("ReduceSum", "a k")], {"a": weights(130, 12), "k": np.array([0])}),
    "sort": ([node("TopK", "a k", "y i")], {"a": weights(3, 500), "k": np.array([7])}),
    "scatter": (
        [node("ScatterND", "a i b", reduction="add")],
        {"a": weights(9, 5), "i": np.array([[3], [0], [3]]), "b": weights(3, 5)},
    ),
    "attention": (
        [node("Attention", "a b c")],
        {"a": weights(1, 2, 9, 16), "b": weights(1, 2, 11, 16), "c": weights(1, 2, 11, 8)},
    ),
    "recurrent": (
        [node("LSTM", "a b c", "y", hidden_size=6)],
        {"a": weights(5, 2, 4), "b": weights(1, 24, 4), "c": weights(1, 24, 6)},
    ),
    "sums": ([node("CumSum", "a k")], {"a": weights(2, 700, scale=0.1), "k": np.array(1)}),
    "nothing": ([node("Add", "a b")], {"a": weights(0, 3), "b": weights(3)}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("device")
def test_same_bits(name: str) -> None:
    nodes, feeds = CASES[name]
    tensors = {key: numpy_helper.from_array(array) for key, array in feeds.items() if key == "k"}
    constants = [helper.make_node("Constant", [], [key], value=tensor) for key, tensor in tensors.items()]
    fed = {key: array for key, array in feeds.items() if key != "k"}
    wanted = {key: TensorProto.FLOAT16 if key == "y" else TensorProto.INT64 for key in nodes[-1].output}
    data = model([*constants, *nodes], {key: (array.dtype, array.shape) for key, array in fed.items()}, wanted)
    native, packed = (results(data, fed, how) for how in ("native", "packed"))
    for one, other in zip(native, packed, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
