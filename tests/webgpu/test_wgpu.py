"""wgpu-py in another version than that whose inner names are known, and how it is written to."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from wgpu.backends import wgpu_native as library

from sardonyx import InferenceSession
from sardonyx.demo import assets
from sardonyx.errors import EngineError
from sardonyx_webgpu import gpu, provider
from sardonyx_webgpu.gpu import native as module
from sardonyx_webgpu.gpu import wgpu_native, wgpu_public
from sardonyx_webgpu.gpu.interface import Binding, Shader
from sardonyx_webgpu.runtime.device import WebGpuDevice

DIGITS = str(assets() / "digits.onnx")
LACKING = {
    "a function of Python": ("wgpu.backends.wgpu_native._api", {}),
    "a class": ("wgpu.backends.wgpu_native", {"ffi": library.ffi, "lib": library.lib}),
    "a function of the library": (
        "wgpu.backends.wgpu_native",
        {"ffi": library.ffi, "lib": SimpleNamespace(), "GPUShaderModule": library.GPUShaderModule},
    ),
}
"""A module of wgpu-py, and what it has left."""


@pytest.fixture(params=LACKING)
def other(request: pytest.FixtureRequest, alone: None, monkeypatch: pytest.MonkeyPatch) -> WebGpuDevice:
    """A device of a wgpu-py that lacks a name."""
    name, names = LACKING[request.param]
    stand_in = ModuleType(name)
    stand_in.__path__ = []
    vars(stand_in).update(names)
    monkeypatch.setitem(sys.modules, name, stand_in)
    monkeypatch.delitem(sys.modules, wgpu_native.__name__)
    monkeypatch.delattr(gpu, "wgpu_native")
    return provider.device({})


def test_public_functions_do_the_same(other: WebGpuDevice) -> None:
    assert other.gpu._functions is wgpu_public
    assert other.gpu.clock is None
    session = InferenceSession(DIGITS, providers=["WebGpuExecutionProvider"])
    judge = onnxruntime.InferenceSession(DIGITS)
    for count in (1, 3):
        image = np.random.default_rng(0).random((count, 1, 28, 28), np.float32)
        np.testing.assert_allclose(
            session.run(None, {"image": image})[0], judge.run(None, {"image": image})[0], rtol=1e-4, atol=1e-6
        )
    with pytest.raises(EngineError, match="WebGPU refused the shader of 'wrong'"):
        other.gpu.pipelines([Shader("wrong", "@compute @workgroup_size(1) fn main() { nothing(); }", 0)])


def test_inner_names_are_taken_where_they_are(native: WebGpuDevice) -> None:
    assert native.gpu._functions is wgpu_native
    assert module.functions(SimpleNamespace()) is wgpu_public


def test_what_is_written_in_slices_arrives(native: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 64)
    data = np.random.default_rng(0).integers(0, 256, 1000, np.uint8)
    buffer, found = native.gpu.buffer(1000), bytearray(1000)
    for _ in range(2):
        native.gpu.write(buffer, 0, memoryview(data))
    native.gpu.read([Binding(buffer, 0, 1000)])([memoryview(found)])
    np.testing.assert_array_equal(np.frombuffer(found, np.uint8), data)
