"""Sessions that come and go leave nothing: neither memory of the process nor buffers of the GPU."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import helper, numpy_helper

import sardonyx as ort
from sardonyx.demo import assets
from sardonyx_webgpu.runtime import device as devices
from sardonyx_webgpu.runtime.device import WebGpuDevice

DIGITS = (assets() / "digits.onnx").read_bytes()


def resident() -> int:
    """The bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def buffers() -> int:
    """The buffers of the GPU that are alive."""
    gc.collect()
    return sum(type(each).__name__ == "GPUBuffer" for each in gc.get_objects())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what a process holds")
def test_sessions_leave_nothing(native: WebGpuDevice) -> None:
    """200 are created, run with inputs of two shapes, and closed; after the first 50, memory stays within 5 %."""
    rng = np.random.default_rng(0)

    def work() -> None:
        session = ort.InferenceSession(DIGITS, providers=["WebGpuExecutionProvider"])
        binding = session.io_binding()
        for count in (1, 3, 3):
            image = rng.random((count, 1, 28, 28), np.float32)
            session.run(None, {"image": image})
            binding.bind_ortvalue_input("image", ort.OrtValue.ortvalue_from_numpy(image, "gpu"))
            binding.bind_output("probabilities", "gpu")
            session.run_with_iobinding(binding)

    held = []
    for count in (50, 75, 75):
        for _ in range(count):
            work()
        alive = buffers()
        held.append((resident(), alive, len(native._pipelines), len(native._compiled), len(native._keys)))
    first, last = held[0], held[-1]
    assert last[0] <= 1.05 * first[0], [size >> 20 for size, *_ in held]
    assert all(b <= 1.05 * a + 1 for a, b in zip(first[1:], last[1:], strict=True)), held


def test_pipelines_used_long_ago_are_forgotten(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "PIPELINES", 4)
    x = np.arange(6, dtype=np.float32)
    for turn in range(2):
        for by in range(8):
            nodes = [helper.make_node("Add", ["x", "by"], ["t"]), *[helper.make_node("Tanh", ["t"], ["t1"])] * (by > 0)]
            nodes += [helper.make_node("Tanh", [f"t{k}"], [f"t{k + 1}"]) for k in range(1, by)]
            declared = [helper.make_tensor_value_info(name, 1, [6]) for name in ("x", f"t{by}" if by else "t")]
            weights = [numpy_helper.from_array(np.array(1.0, np.float32), "by")]
            graph = helper.make_graph(nodes, "many", declared[:1], declared[1:], weights)
            made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
            session = ort.InferenceSession(made.SerializeToString(), providers=["WebGpuExecutionProvider"])
            expected = x.astype(float) + 1
            for _ in range(by):
                expected = np.tanh(expected)
            np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5, err_msg=str((turn, by)))
    assert len(native._pipelines) <= 4
    assert len(native._compiled) <= 4
