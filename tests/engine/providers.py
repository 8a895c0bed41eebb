"""The providers that every engine test runs on."""

from __future__ import annotations

import pytest

from tests.support import require

NUMPY, WASM, WEBGPU = "NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"
PROVIDERS = [
    pytest.param(NUMPY, id="numpy"),
    pytest.param(WASM, id="wasm"),
    pytest.param(WEBGPU, id="webgpu"),
]


def require_provider(name: str) -> None:
    """Skip the test, or fail it in CI, where a provider's platform is missing."""
    if name == WEBGPU:
        require("webgpu")
