"""Execution providers by name: those of this distribution, and others found through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any

from sardonyx.device import Provider
from sardonyx.errors import InvalidArgument

GROUP = "sardonyx.execution_providers"
CPU = "CPUExecutionProvider"
NUMPY, WASM, WEBGPU = "NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"
OURS = {WEBGPU: "sardonyx_webgpu", WASM: "sardonyx_wasm", NUMPY: "sardonyx.numpy_backend"}
"""Packages with a `provider`. To look through all that is installed takes longer than to import these."""
FASTEST = (WASM, NUMPY)
"""What `CPUExecutionProvider` stands for."""
_OTHERS = """
ACL Azure CANN CUDA CoreML Dml DNNL JS MIGraphX NvTensorRTRTX OpenVINO QNN ROCM Rknpu SNPE TVM Tensorrt VSINPU Vitis
VitisAI WebNN Xnnpack
"""
ELSEWHERE = frozenset(f"{name}ExecutionProvider" for name in _OTHERS.split())
"""onnxruntime's other providers: scripts name them in front of the CPU, and expect to run without them."""


@cache
def installed() -> dict[str, Callable[[], Provider]]:
    """What loads each provider by its name, ours first."""
    from importlib import metadata

    others = {point.name: point.load for point in metadata.entry_points(group=GROUP) if point.name not in OURS}
    return {name: partial(load, name) for name in OURS} | others


@cache
def load(name: str) -> Provider:
    """The provider of this name."""
    if name in OURS:
        provider: Provider = import_module(OURS[name]).provider
        return provider
    loader = installed().get(name)
    if loader is None:
        raise InvalidArgument(f"no execution provider is called {name!r}; there are {', '.join(available())}")
    return loader()


def available() -> list[str]:
    """The names that a session accepts here, in the order in which it would try them."""
    names = [name for name in installed() if load(name).available()]
    return [*(name for name in names if name not in (WASM, NUMPY)), CPU, *(n for n in names if n in (WASM, NUMPY))]


def resolve(
    names: Sequence[str | tuple[str, Mapping[str, Any]]] | None, options: Sequence[Mapping[str, Any]] | None = None
) -> list[tuple[Provider, dict[str, str]]]:
    """The providers of a session with their options; `CPUExecutionProvider` is `FASTEST`, where that runs.

    NumPy always comes last, since there is nothing that it cannot run. Without names, the CPU is taken.
    """
    wanted: list[tuple[str, dict[str, str]]] = []
    for k, item in enumerate(names or [CPU]):
        name, given = (item, {}) if isinstance(item, str) else item
        extra = options[k] if options and k < len(options) else {}
        merged = {str(key): str(value) for key, value in {**given, **extra}.items()}
        if name in ELSEWHERE or (name != CPU and not load(name).available()):
            warnings.warn(f"{name} is not available here; there are {', '.join(available())}", stacklevel=3)
            continue
        wanted += [(each, merged) for each in (FASTEST if name == CPU else (name,))]
    wanted.append((NUMPY, {}))
    chosen: dict[str, tuple[Provider, dict[str, str]]] = {}
    for name, given in wanted:
        if name not in chosen and load(name).available():
            chosen[name] = (load(name), given)
    return list(chosen.values())
