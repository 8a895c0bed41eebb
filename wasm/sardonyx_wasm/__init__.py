"""WebAssembly for Sardonyx: an assembler, a generator of kernels and the hosts that run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from sardonyx.dtypes import DType

if TYPE_CHECKING:
    from sardonyx.device import Device


class WasmProvider:
    """Runs every primitive on every element type but strings and complex numbers."""

    name = "WasmExecutionProvider"
    form = "program"
    max_buffers = 64
    routines: frozenset[str] = frozenset()

    def available(self) -> bool:
        from .hosts import available

        return available()

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        types = (*inputs, *outputs)
        if any(dtype.kind in ("string", "complex") for dtype in types):
            return False
        narrow = any(not dtype.is_native and dtype.name != "bfloat16" for dtype in types)
        return not narrow or primitive in _MOVES or params.get("function") == "where"

    def device(self, options: Mapping[str, str]) -> Device:
        return _device()

    def describe(self) -> dict[str, str]:
        """What `sardonyx info` prints."""
        from .hosts import host

        return {"host": host().name, "features": ", ".join(sorted(host().features))}


_MOVES = frozenset({"bitcast", "reshape", "transpose", "broadcast", "slice", "concat", "gather"})
"""What the element types that NumPy lacks, being bits here, can take part in."""


@cache
def _device() -> Device:
    from .device import WasmDevice
    from .hosts import host

    return WasmDevice(host())


provider = WasmProvider()
