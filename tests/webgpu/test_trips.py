"""Loops that turn more often than a driver lets them are refused, and work elsewhere."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from sardonyx import InferenceSession
from sardonyx.code.program import Builder, Program, const
from sardonyx.errors import EPFail
from sardonyx_webgpu.gpu.interface import Adapter
from sardonyx_webgpu.kernels.trips import trips
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.engine.providers import WEBGPU
from tests.webgpu.harness import run


def nested(depth: int) -> Program:
    """Count the trips of the innermost of loops in one another, each as long as its parameter says."""
    builder = Builder([], ["int32"])
    total = builder.let(const("int32", 0))

    def loops(rest: int) -> None:
        if rest == 0:
            builder.set(total, total + 1)
            return
        with builder.loop(builder.param()):
            loops(rest - 1)

    loops(depth)
    builder.store(0, const("int32", 0), total)
    return builder.program("nested")


def counted(device: WebGpuDevice, *counts: int) -> int:
    (found,) = run(device, nested(len(counts)), [], [np.zeros(1, np.int32)], counts)
    return int(found[0])


@pytest.mark.parametrize("counts", [(65535,), (1, 65533), (21845, 1), (200, 325), (40, 40, 38)])
def test_what_every_driver_runs(device: WebGpuDevice, counts: tuple[int, ...]) -> None:
    assert trips(nested(len(counts)), counts) <= 65536
    assert counted(device, *counts) == np.prod(counts)


@pytest.mark.parametrize("counts", [(70000,), (300, 300), (40000, 1)])
def test_what_is_refused(device: WebGpuDevice, counts: tuple[int, ...]) -> None:
    if "llvmpipe" in device.gpu.adapter.name:
        with pytest.raises(EPFail, match=r"nested may turn loops .* after 65,535; use CPUExecutionProvider"):
            counted(device, *counts)
    else:
        assert counted(device, *counts) == np.prod(counts)


def test_turns() -> None:
    one = const("int32", 1)
    builder = Builder(["int32"], ["int32"])
    size = builder.param()
    with builder.loop(size * 2):
        with builder.while_(builder.load(0, one) > 0):
            pass
        with builder.if_(builder.load(0, one) > 0), builder.loop(builder.load(0, one)):
            pass
        with builder.else_(), builder.loop(const("int32", 3)):
            pass
    program = builder.program("mixed")
    assert trips(program, [5]) == 10 * (1 + (10 + 1) + (10 + 1)) + 1
    assert trips(program, [0]) == trips(program, [-1]) == 1


def test_adapters() -> None:
    assert Adapter("llvmpipe (LLVM 15.0.6, 256 bits)").most_trips == 65535
    assert Adapter("SwiftShader").most_trips == Adapter("V3D 7.1").most_trips == np.inf


LONG_ONES = {
    "lines": """agraph (float[2,300000] x) => (float[2,300000] y) { y = Softmax(x) }""",
    "images": """agraph (float[1,3,330,330] x, float[4,3,1,1] w) => (float[1,4,1,1] y) {
        image = Conv(x, w)
        y = GlobalAveragePool(image)
    }""",
    "largest of images": """agraph (float[1,2,330,330] x, float[4,2,1,1] w) => (float[1,4] y) {
        image = Conv(x, w)
        axes = Constant<value_ints = [2, 3]>()
        y = ReduceMax<keepdims = 0>(image, axes)
    }""",
}


@pytest.mark.parametrize("name", LONG_ONES)
def test_what_is_shared(name: str) -> None:
    """Of more elements than a thread may take, many threads take some."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {LONG_ONES[name]}')
    rng = np.random.default_rng(0)
    shapes = {v.name: [dim.dim_value for dim in v.type.tensor_type.shape.dim] for v in model.graph.input}
    feeds = {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}
    session = InferenceSession(model.SerializeToString(), providers=[WEBGPU])
    session.disable_fallback()
    (found,) = session.run(None, feeds)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())
