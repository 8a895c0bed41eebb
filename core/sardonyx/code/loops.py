"""From kernels to programs: one run of the program per point of the kernel's space, loops for the reduction.

Of Rows, one run per row.
"""

from __future__ import annotations

from typing import Any

from sardonyx.code.folds import identity
from sardonyx.code.kernel import Kernel, Rows
from sardonyx.code.program import Builder, Program, Value, call, const
from sardonyx.common import dtypes


def program(code: Kernel | Rows) -> Program:
    """The program that computes a kernel, or the kernels of Rows."""
    b = Builder(code.reads, code.writes)
    params = [b.param() for _ in range(code.params)]
    if isinstance(code, Kernel):
        loops = _Loops(code, b, params, len(code.space), {})
        loops.run()
        return b.program(code.name, [loops.size(extent) for extent in code.space])
    known: dict[tuple[int, int], Value] = {}
    for k, kernel in enumerate(code.parts()):
        loops = _Loops(kernel, b, params, len(code.rows), known)
        loops.run()
        known |= {(k, node): value for node, value in loops.values.items()}
    return b.program(code.name, [loops.size(extent) for extent in code.rows])


class _Loops:
    """One kernel: the first `grid` axes of its space are the program's; `known` are nodes of the kernels before it."""

    def __init__(
        self, kernel: Kernel, b: Builder, params: list[Value], grid: int, known: dict[tuple[int, int], Value]
    ) -> None:
        self.kernel = kernel
        self.b = b
        self.params = params
        self.known = known
        self.axes = [b.grid(k) for k in range(grid)]
        self.values: dict[int, Value] = {}
        self.accumulators: list[Value] = []
        self.depths = kernel.depths()

    def run(self) -> None:
        if len(self.axes) < len(self.kernel.space):
            with self.b.loop(self.size(self.kernel.space[len(self.axes)])) as k:
                self.axes.append(k)
                self.run()
            return
        self._let(0)
        if self.kernel.folds:
            self._fold()
            self._let(2)
        self._store(0, 2)

    def _store(self, *depths: int) -> None:
        for buffer, place, node in self.kernel.stores:
            if self.depths[node] in depths:
                self.b.store(buffer, self.index(place), self.values[node])

    def _let(self, depth: int) -> None:
        """A variable for every node of one depth: what is used twice is computed once, and printers need not nest."""
        for number, node in enumerate(self.kernel.nodes):
            if self.depths[number] == depth:
                value = self._expression(*node)
                self.values[number] = value if value.code[0] in _SIMPLE else self.b.let(value)

    def size(self, size: int | str) -> Value:
        return self.params[int(size[1:])] if isinstance(size, str) else const("int32", size)

    def index(self, index: Any) -> Value:
        offset, axes, extra = index
        total: Value | None = None
        terms = [(self.axes[axis], stride) for axis, stride in axes]
        terms += [(self.values[node], stride) for node, stride in extra]
        for value, stride in terms:
            part = value if stride == 1 else value * self.size(stride)
            total = part if total is None else total + part
        if total is None:
            return self.size(offset)
        if offset == 0:
            return total
        return total + self.size(offset)

    def _expression(self, function: str, dtype: str, operands: list[int], detail: Any) -> Value:
        if function == "const":
            return Value(["const", dtype, detail])
        if function == "index":
            return self.index(detail)
        if function == "load":
            return self.b.load(detail[0], self.index(detail[1]))
        if function == "acc":
            return self.accumulators[int(detail)]
        if function == "row":
            return self.known[tuple(detail)]
        values = [self.values[operand] for operand in operands]
        if function in ("cast", "bitcast"):
            return Value([function, dtype, values[0].code])
        return call(function, *values)

    def _fold(self) -> None:
        """The reduction loops: outermost axis first; `argmax` keeps the best element and where it was."""
        b, kernel = self.b, self.kernel
        best: list[Value] = []
        for function, dtype, _ in kernel.folds:
            start = identity(ELEMENT.get(function, function), dtypes.by_name(dtype))
            best.append(b.let(const(dtype, start)))
            self.accumulators.append(b.let(const("int32", 0)) if function in ELEMENT else best[-1])
        self._loop(list(kernel.reduce), const("int32", 0), best)

    def _loop(self, extents: list[Any], position: Value, best: list[Value]) -> None:
        if extents:
            with self.b.loop(self.size(extents[0])) as k:
                self.axes.append(k)
                place = position * self.size(extents[0]) + k if len(self.axes) > len(self.kernel.space) + 1 else k
                self._loop(extents[1:], place, best)
            return
        self._let(1)
        self._store(1)
        for (function, _, node), value, found in zip(self.kernel.folds, best, self.accumulators, strict=True):
            element = self.values[node]
            if function in ELEMENT:
                self._keep_best(function, element, value, found, position)
            else:
                self.b.set(value, call(COMBINE[function], value, element))

    def _keep_best(self, function: str, element: Value, value: Value, found: Value, position: Value) -> None:
        b = self.b
        element = b.let(element)
        better = element > value if function == "argmax" else element < value
        if dtypes.by_name(element.dtype).is_float:
            better = better | (call("isnan", element) & ~call("isnan", value))
        first = call("eq", position, const("int32", 0))
        with b.if_(better | first):
            b.set(value, element)
            b.set(found, position)


_SIMPLE = frozenset({"const", "param", "grid", "var"})
ELEMENT = {"argmax": "max", "argmin": "min"}
"""What folds that give a place keep of the elements."""
COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The scalar function that folds two results into one."""
