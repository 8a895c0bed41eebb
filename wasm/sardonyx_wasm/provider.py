"""The execution provider: what it can run, and its devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sardonyx.common import threads
from sardonyx.common.dtypes import DType
from sardonyx.providers.contract import Bundler, Device, Provider

if TYPE_CHECKING:
    from sardonyx.primitives.trace import Trace


ROUTINES = frozenset(
    {
        "accumulate",
        "attend",
        "attention",
        "block_extremes",
        "matmul",
        "matmul_int8",
        "matmul_nbits",
        "matmul_packed",
        "matmul_panels",
        "matmul_quads",
        "conv_grouped",
        "conv_line_int8",
        "conv_packed",
        "conv_panels",
        "conv_weights",
        "conv_winograd",
        "conv_winograd_int8",
        "depthwise",
        "extremes",
        "im2col",
        "lookup",
        "nonzero",
        "pool",
        "recurrent",
        "requantize",
        "resample",
        "scatter_updates",
        "select",
        "sort_lines",
        "suppress",
        "suppression",
        "top_k",
        "tree_ensemble",
        "walk_trees",
    }
)
"""The primitives of `primitives`, which cost an import, and the composite ones of core that there is a routine for."""
_MOVES = frozenset({"bitcast", "reshape", "transpose", "broadcast", "slice", "concat", "gather"})
"""What the element types that NumPy lacks, being bits here, can take part in."""


class WasmProvider(Provider):
    """Runs every primitive on every element type but strings and complex numbers."""

    name = "WasmExecutionProvider"
    form = "kernel"
    max_buffers = 64
    routines = ROUTINES
    takes_threads = True
    options = frozenset({"intra_op_num_threads"})
    prefers_integers = True

    def __init__(self) -> None:
        self._devices: dict[tuple[int, bool], Device] = {}

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

    def rewrite(self, trace: Trace, origins: Collection[int]) -> None:
        """Have all be routines that there is one for, if the host has SIMD."""
        from .hosts import host

        self.legalize(trace, origins, host().target if "simd" in host().features else "")

    def legalize(self, trace: Trace, origins: Collection[int], target: str) -> None:
        """Have all be routines that there is one for, on a host with the compiler `target`, "" for no SIMD."""
        from sardonyx.compiler.rewriting import expand_composites

        from .legalization import legalize, takes

        expand_composites(
            trace, lambda equation: equation.origin not in origins or (target != "" and takes(equation, target))
        )
        if target:
            legalize(trace, origins, target)

    def bundler(self) -> Bundler:
        """What makes its code part of bundles."""
        from .bundles import Bundler

        return Bundler(PageProvider())

    def device(self, options: Mapping[str, str]) -> Device:
        """The device for these options, of which `intra_op_num_threads` counts, and `allow_spinning` where it is "0";
        EPFail where the first is no number."""
        key = threads.number(self.name, options), options.get("allow_spinning") != "0"
        if key not in self._devices:
            from .device import WasmDevice
            from .hosts import host

            self._devices[key] = WasmDevice(host(), *key)
        return self._devices[key]

    def fingerprint(self) -> str:
        """What plans depend on besides the sources."""
        from .device import blas
        from .hosts import host

        return f"{host().name} {sorted(host().features)} {blas.in_blocks()}"

    def describe(self) -> dict[str, str]:
        """What `sardonyx info` prints."""
        from .hosts import host

        return {"host": host().name, "features": ", ".join(sorted(host().features))}


class PageProvider(WasmProvider):
    """Compiles for browsers wherever it runs: for their registers, and without BLAS."""

    def available(self) -> bool:
        return True

    def rewrite(self, trace: Trace, origins: Collection[int]) -> None:
        self.legalize(trace, origins, "v8")


provider = WasmProvider()
