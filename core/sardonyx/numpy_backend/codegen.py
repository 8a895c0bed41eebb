"""Kernels as Python source: loads are views, every node is one NumPy call, the last writes to the output.

The source is that of `make(buffers, p)`, a function of buffers and parameters, which `makers` compiles. It makes the
views, and evaluates once what depends on indices alone; what it returns runs the rest, whole or in parts. Arrays have
the rank of space and reduction together, with size 1 along axes on which they do not depend; a chain of nodes with one
reader each is computed in the output itself. Large arrays are worked through in blocks that stay in the cache from one
call to the next; what is the same for all blocks is computed before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.code.folds import identity
from sardonyx.code.kernel import Kernel
from sardonyx.common import dtypes


def source(kernel: Kernel) -> str:
    """The Python source of `make(buffers, p)`."""
    return _Writer(kernel).text()


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.extents = [*kernel.space, *kernel.reduce]
        self.rank = len(self.extents)
        self.setup: list[str] = []
        self.once: list[str] = []
        self.body: list[str] = []
        self.arrays: list[str] = []
        self.flats: list[str] = []
        self.fixed = [False] * len(kernel.nodes)
        self.still = [False] * len(kernel.nodes)
        self.uses = [0] * len(kernel.nodes)
        self.occupant: int | None = None
        self.clips: dict[int, tuple[int, int, int]] = {}
        self.joined: set[int] = set()

    def text(self) -> str:
        kernel = self.kernel
        for axis, extent in enumerate(self.extents):
            self.setup.append(f"d{axis} = {self.size(extent)}")
        ((buffer, place, value),) = kernel.stores
        self._count_uses(value)
        self.clips = self._find_clips()
        self.joined = {kernel.nodes[number][2][0] for number in self.clips}
        self._output(buffer, place)
        depths = kernel.depths()
        for depth in (0, 1, 2):
            for number, node in enumerate(kernel.nodes):
                if depths[number] == depth:
                    self._node(number, node, number == value and depths[value] != 1)
            if depth == 1:
                self._fold()
        if self.occupant != value:
            self.body.append(f"np.copyto(out, n{value})")
        lines = ["def make(buffers, p):"]
        lines += [f"    {line}" for line in self.setup]
        names = _tuple(["out", *self.arrays])
        lines += ["    def run(parts):"]
        if self.once:
            lines += [f"        {line}" for line in (f"{names} = parts[0]", *self.once)]
        lines += [f"        for {names} in parts:"]
        lines += [f"            {line}" for line in self.body]
        outer = len(kernel.space)
        is_long = len(self.body) > 1 and outer > 0
        return "\n".join([*lines, f"    return bound(run, {outer}, ({names}), ({_tuple(self.flats)}), {is_long})"])

    def _count_uses(self, value: int) -> None:
        for function, _, operands, detail in self.kernel.nodes:
            indices = [detail] if function == "index" else [detail[1]] if function == "load" else []
            for operand in [*operands, *(node for _, _, extra in indices for node, _ in extra)]:
                self.uses[operand] += 1
        for _, _, node in self.kernel.folds:
            self.uses[node] += 1
        self.uses[value] += 1

    def _find_clips(self) -> dict[int, tuple[int, int, int]]:
        """The floats that are bounded on both sides by constants: np.clip takes half as long as two bounds."""
        nodes, found = self.kernel.nodes, {}
        for number, (function, dtype, operands, _) in enumerate(nodes):
            if function != "min" or not dtype.startswith("float"):
                continue
            inner, high = operands
            if nodes[inner][0] == "max" and self.uses[inner] == 1 and nodes[high][0] == "const":
                x, low = nodes[inner][2]
                if nodes[low][0] == "const" and nodes[x][0] != "const":
                    found[number] = x, low, high
        return found

    def _holds(self, number: int, dtype: str) -> bool:
        """Whether an integer type of 16 bits at most has all that a node is, as its bounds tell."""
        kind = dtypes.by_name(dtype)
        if number not in self.clips or kind.bits > 16 or not kind.is_int:
            return False
        _, low, high = self.clips[number]
        least = -(1 << kind.bits - 1) if kind.kind == "int" else 0
        bounds = [float(self.kernel.nodes[k][3]) for k in (low, high)]
        return least <= bounds[0] and bounds[1] < least + (1 << kind.bits)

    def size(self, size: int | str) -> str:
        return f"p[{size[1:]}]" if isinstance(size, str) else str(size)

    def _output(self, buffer: int, target: Any) -> None:
        offset, axes, _ = target
        strides = dict(map(tuple, axes))
        shape = [f"d{axis}" for axis in range(len(self.kernel.space))] + ["1"] * len(self.kernel.reduce)
        steps = [self.size(strides.get(axis, 0)) for axis in range(self.rank)]
        self.dtype = self.kernel.writes[buffer - len(self.kernel.reads)]
        place = f"{self.size(offset)}, ({_tuple(shape)}), ({_tuple(steps)})"
        self.setup.append(f"out = strided(buffers[{buffer}], t_{self.dtype}, {place})")

    def _node(self, number: int, node: Any, last: bool) -> None:
        function, dtype, operands, detail = node
        if number in self.joined:
            return
        if number in self.clips:
            function, operands = "clip", list(self.clips[number])
        fixed = all(self.fixed[operand] for operand in operands)
        still = not (fixed or last) and all(self.fixed[operand] or self.still[operand] for operand in operands)
        if function == "load":
            code, view = self._load(dtype, detail)
            if view:
                self.arrays.append(f"n{number}")
                self.still[number] = not detail[1][1]
            (self.setup if view else self.body).append(f"n{number} = {code}")
            return
        if function == "acc":
            self.body.append(f"n{number} = acc{detail}")
            return
        if function == "const":
            code = _literal(dtype, detail)
        elif function == "index":
            fixed = all(self.fixed[k] for k, _ in detail[2])
            code = self._index(detail, fixed)
        elif function == "cast":
            code = f"{'narrowed' if self._holds(operands[0], dtype) else 'cast'}(n{operands[0]}, t_{dtype})"
        elif function == "bitcast":
            of = operands[0]
            narrow = f"np.asarray(n{of}, np.int32)" if self.kernel.nodes[of][0] == "index" else f"n{of}"
            code = f"{narrow}.view(t_{dtype})"
        else:
            arguments = ", ".join(f"n{operand}" for operand in operands)
            out = "" if fixed or still else self._destination(number, dtype, operands, last)
            code = f"{'np.' if function == 'clip' else 'f_'}{function}({arguments}{out})"
        self.fixed[number] = fixed
        if fixed and function != "const":
            code = f"np.asarray({code})"
            self.arrays.append(f"n{number}")
        self.still[number] = still
        (self.setup if fixed else self.once if still else self.body).append(f"n{number} = {code}")

    def _destination(self, number: int, dtype: str, operands: list[int], last: bool) -> str:
        """`, out=out` where the output's memory is free to hold this node."""
        for operand in operands:
            self.uses[operand] -= 1
        free = self.occupant is None or (self.occupant in operands and self.uses[self.occupant] == 0)
        if dtype != self.dtype or not free or (self.kernel.folds and not last):
            return ""
        if not last and self.uses[number] != 1:
            return ""
        self.occupant = number
        return ", out=out"

    def _load(self, dtype: str, detail: Any) -> tuple[str, bool]:
        """The code of a load, and whether it is a view that can be made once."""
        buffer, (offset, axes, extra) = detail
        if extra:
            self.setup.append(f"b{buffer} = flat(buffers[{buffer}], t_{dtype})")
            self.flats.append(f"b{buffer}")
            fixed = all(self.fixed[node] for node, _ in extra)
            index = self._index([offset, axes, extra], fixed)
            if fixed:
                index = self._kept(index)
            return f"b{buffer}.take({index}, mode='clip')", False
        strides = dict(map(tuple, axes))
        shape = [f"d{axis}" if axis in strides else "1" for axis in range(self.rank)]
        steps = [self.size(strides.get(axis, 0)) for axis in range(self.rank)]
        arguments = f"{self.size(offset)}, ({_tuple(shape)}), ({_tuple(steps)})"
        return f"strided(buffers[{buffer}], t_{dtype}, {arguments})", True

    def _kept(self, code: str) -> str:
        """The name of an array that is made once."""
        name = f"x{len(self.setup)}"
        self.setup.append(f"{name} = {code}")
        self.arrays.append(name)
        return name

    def _index(self, index: Any, fixed: bool) -> str:
        offset, axes, extra = index
        terms = [self.size(offset)] if offset != 0 or not (axes or extra) else []
        for axis, stride in axes:
            term = f"axis_index({self.rank}, {axis}, d{axis}) * {self.size(stride)}"
            terms.append(term if fixed else self._kept(term))
        terms += [f"n{node} * {self.size(stride)}" for node, stride in extra]
        return f"np.asarray({' + '.join(terms)}, np.intp)"

    def _fold(self) -> None:
        for number, (function, dtype, node) in enumerate(self.kernel.folds):
            inner = [f"d{axis}" for axis in range(len(self.kernel.space), self.rank)]
            axes = _tuple([str(axis) for axis in range(len(self.kernel.space), self.rank)])
            if not inner:
                value = f"n{node}" if not function.startswith("arg") else f"np.zeros_like(n{node}, np.int32)"
                self.body.append(f"acc{number} = {value}")
                continue
            outer = len(self.kernel.space)
            self.body.append(f"wide = widened(n{node}, {outer}, ({_tuple(inner)}))")
            if function.startswith("arg"):
                self.body.append(f"acc{number} = place(wide, {outer}, {function!r})")
                continue
            start = _literal(dtype, identity(function, dtypes.by_name(dtype)))
            self.body.append(
                f"acc{number} = np.{_UFUNC[function]}.reduce(wide, axis=({axes}), keepdims=True, "
                f"dtype=t_{dtype}, initial={start})"
            )


_UFUNC = {
    "sum": "add",
    "prod": "multiply",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}


def _tuple(items: Sequence[str]) -> str:
    return "".join(f"{item}, " for item in items)


def _literal(dtype: str, number: Any) -> str:
    parse = "complex" if dtype.startswith("complex") else "float"
    text = f"{parse}({str(number)!r})" if isinstance(number, (float, str)) else str(number)
    return f"t_{dtype}.type({text})"
