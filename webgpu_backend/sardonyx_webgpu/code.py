"""What the device runs: shaders that cover a grid with threads, whatever they were made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.code.program import Expression
from sardonyx.common.cached import cached_property
from sardonyx.common.record import record
from sardonyx_webgpu.extents import compiled
from sardonyx_webgpu.gpu.interface import Shader

WORKGROUP = 64
"""Threads of a workgroup; a code without a grid has one thread."""


@record(frozen=True)
class Code:
    """A code for this device.

    `grid` holds an expression over constants and parameters per axis, of which there are `params`; `trips` is how often
    the loops of a thread turn at most. `shader` gives the text for buffers of which, for each, the first one at the
    same place is known, and for a device that has shader-f16 or not; `same` is that for the buffers that are expected.
    Where the GPU is a processor, `software` takes its place, if there is one.

    A code with `steps` may do some of them in a dispatch, and the others in later ones: its last two parameters are the
    number of the first step, and how many there are, 0 for all.
    """

    name: str
    key: str
    params: int
    grid: Sequence[Expression]
    trips: Expression
    same: tuple[int, ...]
    shader: Callable[[Sequence[int], bool], Shader]
    software: Code | None = None
    steps: Expression | None = None

    @cached_property
    def points(self) -> Callable[[Sequence[Any]], tuple[int, ...]]:
        """The extents of the grid, for parameters."""
        return compiled(self.grid)

    @cached_property
    def turns(self) -> Callable[[Sequence[Any]], tuple[int, ...]]:
        """How often the loops of a thread turn at most, for parameters: the only one of a tuple."""
        return compiled([self.trips])
