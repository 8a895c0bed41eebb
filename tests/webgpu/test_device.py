"""Segments, caches, threads, errors, and what the provider says of itself."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sardonyx.code.program import Builder, Program, call
from sardonyx.common import dtypes
from sardonyx.errors import EngineError, EPFail
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx_webgpu import WebGpuProvider, provider
from sardonyx_webgpu.gpu.interface import Binding, Copy, Shader
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.support.needs import require
from tests.webgpu.harness import elementwise, put

F4 = np.dtype("f4")


def step(dtype: str = "float32") -> Program:
    """x * 2 + 1, element by element."""
    return elementwise([dtype], dtype, lambda x: x * 2 + 1, "step")


def shift() -> Program:
    """y[i] = x[(i + offset) % size]"""
    builder = Builder(["float32"], ["float32"])
    size, offset, index = builder.param(), builder.param(), builder.grid(0)
    builder.store(1, index, builder.load(0, (index + offset) % size))
    return builder.program("shift", [size])


def test_launches_run_in_order(device: WebGpuDevice) -> None:
    a, b = put(device, np.arange(100, dtype=np.float32)), put(device, np.zeros(100, np.float32))
    segments = [
        [SegmentLaunch(0, "first"), SegmentLaunch(1, "turn"), SegmentLaunch(0), SegmentLaunch(1)],
        [SegmentLaunch(1)],
    ]
    executable = device.load([step(), shift()], segments)
    run = executable.bind(0, [[a, b], [b, a], [a, b], [b, a]], [[100], [100, 7], [100], [100, 90]])
    last = executable.bind(1, [[a, b]], [[100, 1]])
    expected = np.arange(100, dtype=np.float32)
    for _ in range(3):
        run()
        expected = np.roll(np.roll(expected * 2 + 1, -7) * 2 + 1, -90)
    last()
    np.testing.assert_array_equal(device.download(a, F4, (100,)), expected)
    np.testing.assert_array_equal(device.download(b, F4, (100,)), np.roll(expected, -1))


def test_a_segment_may_be_bound_for_other_sizes(device: WebGpuDevice) -> None:
    a, b = put(device, np.arange(64, dtype=np.float32)), put(device, np.zeros(64, np.float32))
    executable = device.load([step()], [[SegmentLaunch(0), SegmentLaunch(0)]])
    small = executable.bind(0, [[a, b], [b, a]], [[5], [5]])
    nothing = executable.bind(0, [[a, b], [b, a]], [[0], [0]])
    large = executable.bind(0, [[a, b], [b, a]], [[64], [0]])
    small()
    nothing()
    large()
    expected = np.arange(64, dtype=np.float32)
    expected[:5] = expected[:5] * 4 + 3
    np.testing.assert_array_equal(device.download(a, F4, (64,)), expected)
    np.testing.assert_array_equal(device.download(b, F4, (64,)), expected * 2 + 1)


def test_equal_programs_and_groups_are_made_once(native: WebGpuDevice) -> None:
    a, b = put(native, np.zeros(4, np.float32)), put(native, np.zeros(4, np.float32))
    native.load([step()], [[SegmentLaunch(0)]]).bind(0, [[a, b]], [[4]])
    pipelines, groups = dict(native._pipelines), dict(native._groups)
    native.load([step()], [[SegmentLaunch(0)]]).bind(0, [[a, b]], [[3]])
    assert native._pipelines == pipelines
    assert native._groups == groups
    native.free(b.chunk)
    assert len(native._groups) == len(groups) - 1
    assert not native._keys[a.chunk.number]


def test_groups_bound_long_ago_are_forgotten(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sardonyx_webgpu.runtime.device.GROUPS", 8)
    chunk = native.allocate(256 * 40)
    executable = native.load([step()], [[SegmentLaunch(0)]])
    target = Address(chunk, 0, 16)
    for k in range(1, 40):
        executable.bind(0, [[Address(chunk, 256 * k, 16), target]], [[4]])()
    assert len(native._keys[chunk.number]) <= 8
    native.free(chunk)


def test_chunks_go_with_their_last_reference(native: WebGpuDevice) -> None:
    executable = native.load([step()], [[SegmentLaunch(0)]])
    a, b = put(native, np.arange(4, dtype=np.float32)), put(native, np.zeros(4, np.float32))
    run = executable.bind(0, [[a, b]], [[4]])
    number = a.chunk.number
    del a
    gc.collect()
    run()
    assert native.download(b, F4, (4,)).tolist() == [1, 3, 5, 7]
    assert number in native._keys
    del run
    gc.collect()
    native.allocate(4)
    assert number not in native._keys


def test_threads_share_a_device(native: WebGpuDevice) -> None:
    executable = native.load([step()], [[SegmentLaunch(0)] * 10])

    def work(seed: int) -> bool:
        array = np.random.default_rng(seed).integers(0, 100, 1000).astype(np.float32)
        a, b = put(native, array), put(native, array)
        run = executable.bind(0, [[a, b], [b, a]] * 5, [[1000]] * 10)
        run()
        found = native.download(a, F4, (1000,))
        return bool((found == (array + 1) * 1024 - 1).all())

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(40)))


def test_generated_code_is_shown(
    native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SARDONYX_DEBUG", "4")
    program = elementwise(["float32"], "float32", lambda x: call("sqrt", x) + 12.25, "shown")
    native.load([program], [[SegmentLaunch(0)]])
    text = capsys.readouterr().err
    assert text.startswith("// shown\n")
    assert "b1[g0] = float_sqrt(b0[g0]) + 12.25f;" in text
    native.load([program], [[SegmentLaunch(0)]])
    assert capsys.readouterr().err == ""


def test_errors_of_shaders_name_the_program_and_the_line(device: WebGpuDevice) -> None:
    with pytest.raises(EngineError, match=r"(?s)oops.*(wgsl:2:|line 2).*nonsense"):
        device.gpu.pipelines([Shader("oops", "@compute @workgroup_size(1) fn main() {\n  let a = nonsense;\n}", 0)])


def test_what_webgpu_refuses_is_raised(device: WebGpuDevice) -> None:
    buffer = device.gpu.buffer(64)
    with pytest.raises(EngineError, match=r"(?is)WebGPU refused .*copy"):
        device.gpu.submit([Copy(Binding(buffer, 0, 128), Binding(device.gpu.buffer(64), 0, 128))])


def test_what_is_bound_outlives_its_chunk(native: WebGpuDevice) -> None:
    """wgpu ends the process where work on destroyed buffers is submitted."""
    a, b = put(native, np.zeros(4, np.float32)), put(native, np.zeros(4, np.float32))
    run = native.load([step()], [[SegmentLaunch(0)]]).bind(0, [[a, b]], [[4]])
    native.free(b.chunk)
    native.free(a.chunk)
    run()
    native.synchronize()


def test_the_provider() -> None:
    assert provider.name == "WebGpuExecutionProvider"
    assert (provider.form, provider.max_buffers, provider.lanes) == ("kernel", 8, 4)
    moves = {dtype.name for dtype in dtypes.ALL if provider.supports("reshape", [dtype], [dtype], {})}
    runs = {dtype.name for dtype in dtypes.ALL if provider.supports("cast", [dtype], [dtypes.float32], {})}
    assert moves - runs == {dtype.name for dtype in dtypes.ALL if dtype.is_float and dtype.bits <= 8}
    assert runs == {
        *("float32", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2"),
    }
    assert not provider.supports("cast", [dtypes.float32], [dtypes.float64], {})


def test_provider_options(monkeypatch: pytest.MonkeyPatch) -> None:
    require("webgpu")
    default = provider.device({})
    assert provider.device({}) is default
    name = default.gpu.adapter.name
    named = provider.device({"adapter": name[:8].upper(), "limits": "max"})
    assert named is not default
    assert named.gpu.limits["maxStorageBuffersPerShaderStage"] >= 8
    assert default.gpu.limits["maxStorageBuffersPerShaderStage"] == 8
    assert default.gpu.limits["minUniformBufferOffsetAlignment"] == 256
    with pytest.raises(EPFail, match="no adapter has 'no such GPU' in its name: choose one of"):
        provider.device({"adapter": "no such GPU"})
    monkeypatch.setenv("SARDONYX_ADAPTER", "another")
    with pytest.raises(EPFail, match="'another'"):
        provider.device({"power_preference": "low-power"})
    with pytest.raises(EPFail, match="no option 'adaptor'; there are adapter, float16, limits, power_preference"):
        provider.device({"adaptor": "x"})


@pytest.mark.skipif(sys.platform == "win32", reason="Direct3D is what is missing elsewhere")
def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    require("webgpu")
    monkeypatch.setenv("WGPU_BACKEND_TYPE", "D3D12")
    with pytest.raises(EPFail, match="no GPU was found: install a Vulkan"):
        WebGpuProvider().device({})
    monkeypatch.setattr(WebGpuProvider, "available", lambda self: False)
    with pytest.raises(EPFail, match=r"wgpu is not installed; pip install wgpu"):
        WebGpuProvider().device({})


def test_the_provider_describes_its_device() -> None:
    require("webgpu")
    described = provider.describe()
    assert described["adapter"] == provider.device({}).gpu.adapter.name
    assert described["largest tensor"] == "128 MiB"
    assert provider.is_software(provider.device({})) == (described["kind"] == "software")
