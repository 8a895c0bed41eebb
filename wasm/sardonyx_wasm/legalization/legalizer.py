"""What the rules of legalization share."""

from __future__ import annotations

from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.primitives.array import Array
from sardonyx.primitives.trace import Trace

from ..routines.tile import panel_width


class Legalizer(ChannelsLast):
    """Rewrites a trace for a host's compiler, "wasmtime" or "v8", whose tiles are `width` columns wide."""

    def __init__(self, trace: Trace, target: str) -> None:
        super().__init__(trace)
        self.target = target
        self.width = panel_width(target)
        self.largest: dict[Array, int] = {}
        """How large the integers can be that an Array has from float32, which holds them."""
