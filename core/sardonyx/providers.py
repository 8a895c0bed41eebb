"""Execution providers by name: found through entry points, read when the first session asks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

from sardonyx.device import Provider
from sardonyx.errors import InvalidArgument

GROUP = "sardonyx.execution_providers"
CPU = "CPUExecutionProvider"
NUMPY, WASM, WEBGPU = "NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"
ORDER = (WEBGPU, WASM, NUMPY)
_OTHERS = """
ACL Azure CANN CUDA CoreML Dml DNNL JS MIGraphX NvTensorRTRTX OpenVINO QNN ROCM Rknpu SNPE TVM Tensorrt VSINPU Vitis
VitisAI WebNN Xnnpack
"""
ELSEWHERE = frozenset(f"{name}ExecutionProvider" for name in _OTHERS.split())
"""onnxruntime's other providers: scripts name them in front of the CPU, and expect to run without them."""


@cache
def installed() -> dict[str, metadata.EntryPoint]:
    """The entry points of all providers by name, ours first."""
    points = {point.name: point for point in metadata.entry_points(group=GROUP)}
    known = [name for name in ORDER if name in points]
    return {name: points[name] for name in (*known, *(name for name in points if name not in known))}


@cache
def load(name: str) -> Provider:
    """The provider of this name."""
    point = installed().get(name)
    if point is None:
        raise InvalidArgument(f"no execution provider is called {name!r}; there are {', '.join(available())}")
    provider: Provider = point.load()
    return provider


def available() -> list[str]:
    """The names that a session accepts here, in the order in which it would try them."""
    names = [name for name in installed() if load(name).available()]
    return [*(name for name in names if name not in (WASM, NUMPY)), CPU, *(n for n in names if n in (WASM, NUMPY))]


def resolve(
    names: Sequence[str | tuple[str, Mapping[str, Any]]] | None, options: Sequence[Mapping[str, Any]] | None = None
) -> list[tuple[Provider, dict[str, str]]]:
    """The providers of a session with their options: `CPUExecutionProvider` is WASM where it runs, NumPy beneath.

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
        wanted += [(each, merged) for each in ((WASM, NUMPY) if name == CPU else (name,))]
    wanted.append((NUMPY, {}))
    chosen: dict[str, tuple[Provider, dict[str, str]]] = {}
    for name, given in wanted:
        if name not in chosen and load(name).available():
            chosen[name] = (load(name), given)
    return list(chosen.values())
