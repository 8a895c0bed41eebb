"""The result of a kernel by fours: of one that has no folds, or of what is done to results of routines and folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.kernel import Kernel
from sardonyx.code.program import Expression
from sardonyx_webgpu.wgsl.expression import Printer
from sardonyx_webgpu.wgsl.line import LANES, Line
from sardonyx_webgpu.wgsl.shading import Shading


class Lanes(Line):
    """The one result of a kernel, along the last axis of its space.

    A kernel that is flat, walking through all its buffers alike, needs no multiple of four elements, since buffers have
    room for that. If `numbered`, elements have a number in row-major order, the variable `at`.
    """

    def __init__(self, kernel: Kernel, first: int = 0, numbered: bool = False) -> None:
        self.numbered = numbered
        ((self.buffer, self.target_index, self.node),) = kernel.stores
        super().__init__(kernel, len(kernel.space) - 1, [self.node], first)
        self.dtype: str = kernel.nodes[self.node][1]
        self.is_flat = len(kernel.space) == 1 and self.target_index == [0, [[0, 1]], []]

    @property
    def is_aligned(self) -> bool:
        """Whether the elements that are stored are whole fours."""
        whole = self.axis >= 0 and (self.is_flat or self.is_multiple(self.kernel.space[self.axis]))
        return whole and self.stores_fours(self.target_index, self.node)

    def _where(self, index: Any, codes: Sequence[Expression]) -> Expression:
        if self.numbered and index == self._in_order():
            return ["var", "int32", "at"]
        return super()._where(index, codes)

    def _in_order(self) -> Any:
        """The index that is the number of an element, None where that is not seen."""
        space = self.kernel.space
        strides = [*space[1:], 1]
        return [0, [[axis, stride] for axis, stride in enumerate(strides)], []] if 0 < len(space) < 3 else None

    def alike(self) -> list[int]:
        """The nodes that are loaded by fours for all rows alike."""
        indices = {number: self.kernel.nodes[number][3][1] for number in self.fours}
        return [number for number, (_, axes, extra) in indices.items() if axes == [[self.axis, 1]] and not extra]

    def element(self, shading: Shading, name: str) -> str:
        """The function that gives one element."""
        return self.function(shading, name, self.node)

    def arguments(
        self, shading: Shading, printer: Printer, count: int = LANES, loaded: Sequence[int] = ()
    ) -> list[str]:
        """The statements that name what the function needs but for what is `loaded`, where g0, g1, ... are places."""
        return [*self.shares(printer), *self.loads(shading, printer, count, loaded)]

    def target(self, printer: Printer) -> tuple[list[str], str]:
        """The statements and the text of where the element goes."""
        return self.place(printer, self.target_index)
