"""Four neighbours at once: nodes of a kernel as functions, called for four elements along an axis.

What does not depend on that axis is computed once for the four. A load whose index walks with the axis by ones, from
multiples of four on, loads a vector. Drivers inline the functions, so that only loads and stores become wider: that is
what costs on processors that play GPUs, and saves instructions on others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sardonyx.code.kernel import Kernel
from sardonyx.code.program import Expression, Value, call
from sardonyx_webgpu.extents import size
from sardonyx_webgpu.wgsl.expression import Printer
from sardonyx_webgpu.wgsl.shading import Shading
from sardonyx_webgpu.wgsl.statements import block
from sardonyx_webgpu.wgsl.values import WGSL, kind

LANES = 4


class Line:
    """The nodes `roots` of a kernel along an axis, -1 where there is none. `first` is added to the numbers of buffers.

    Statements around the functions know the places along all axes as g0, g1, ..., results of routines and folds as the
    variables v0, v1, ... of their nodes, and what earlier kernels of Rows made as `row_variable` says.
    """

    def __init__(self, kernel: Kernel, axis: int, roots: Sequence[int], first: int = 0) -> None:
        self.kernel = kernel
        self.axis = axis
        self.roots = roots
        self.first = first
        self.varies = self._varying()
        used = self._used()
        loads = [number for number in used if kernel.nodes[number][0] == "load" and self.varies[number]]
        self.fours = [number for number in loads if self._is_vector(*kernel.nodes[number])]
        self.shared = [number for number in used if not self.varies[number] and self._is_needed(number, used)]
        self.results = [number for number in used if kernel.nodes[number][0] == "acc"]

    def _varying(self) -> list[bool]:
        """Whether each node depends on the axis, or on the result of a routine or a fold."""
        result: list[bool] = []
        for function, _, operands, detail in self.kernel.nodes:
            varies = function == "acc" or any(result[operand] for operand in operands)
            if function in ("index", "load"):
                _, axes, extra = detail if function == "index" else detail[1]
                varies |= any(axis == self.axis for axis, _ in axes) or any(result[node] for node, _ in extra)
            result.append(varies)
        return result

    def _used(self) -> list[int]:
        used, stack = set(), [*self.roots]
        while stack:
            if (number := stack.pop()) not in used:
                used.add(number)
                stack += self._operands(number)
        return sorted(used)

    def _operands(self, number: int) -> list[int]:
        function, _, operands, detail = self.kernel.nodes[number]
        if function not in ("index", "load"):
            return list(operands)
        return [node for node, _ in (detail if function == "index" else detail[1])[2]]

    def _is_needed(self, number: int, used: Sequence[int]) -> bool:
        """Whether what varies needs this node, which does not; constants are simpler anew."""
        if self.kernel.nodes[number][0] == "const":
            return False
        return number in self.roots or any(number in self._operands(other) for other in used if self.varies[other])

    def _is_vector(self, _: str, dtype: str, operands: Sequence[int], detail: Any) -> bool:
        """Whether a load goes by fours; not from what is written, which may be stored singly."""
        buffer, index = detail
        return buffer < len(self.kernel.reads) and kind(dtype).stored < 64 and self._is_four(index)

    def is_multiple(self, value: int | str) -> bool:
        """Whether a size is known to be a multiple of four."""
        if isinstance(value, int):
            return value % LANES == 0
        return bool(self.kernel.multiples) and self.kernel.multiples[int(value[1:])] % LANES == 0

    def _is_four(self, index: Any) -> bool:
        """Whether an index walks by ones from multiples of four on."""
        offset, axes, extra = index
        steps = dict(axes)
        if steps.pop(self.axis, 0) != 1 or any(self.varies[node] for node, _ in extra):
            return False
        return all(map(self.is_multiple, [offset, *steps.values(), *(stride for _, stride in extra)]))

    def stores_fours(self, place: Any, node: int) -> bool:
        """Whether whole vectors of an element can be stored at these places."""
        return kind(self.kernel.nodes[node][1]).stored < 64 and self._is_four(place)

    def buffers(self) -> set[int]:
        """The buffers that are loaded by fours."""
        return {self.first + self.kernel.nodes[number][3][0] for number in self.fours}

    # ---- text

    def function(self, shading: Shading, name: str, root: int) -> str:
        """The function that gives a root for one element, of places and what is `shared` and loaded by `fours`."""
        code = self._codes(inside=True)[root]
        lines, (text,) = shading.printer().print(code)
        lines = [*shading.params([code]), *lines, f"return {text};"]
        params = ", ".join([*(f"g{axis}: i32" for axis in self._axes()), *map(self._param, self._arguments())])
        return f"fn {name}({params}) -> {self._wgsl(root)} {block(lines)}\n"

    def _axes(self) -> list[int]:
        """The axes that the functions know."""
        axes = {self.axis} if self.axis >= 0 else set()
        for number in self._used():
            function, _, _, detail = self.kernel.nodes[number]
            if function in ("index", "load"):
                axes |= {axis for axis, _ in (detail if function == "index" else detail[1])[1]}
        return sorted(axes)

    def _arguments(self) -> list[int]:
        return [*self.results, *self.shared, *self.fours]

    def _wgsl(self, number: int) -> str:
        return WGSL[kind(self.kernel.nodes[number][1]).family]

    def _param(self, number: int) -> str:
        return f"v{number}: {self._wgsl(number)}"

    def calls(self, name: str, count: int = LANES) -> list[str]:
        """A function for so many elements, from what `shares` and `loads` have named."""
        result = []
        for lane in range(count):
            places = [f"g{axis}{f' + {lane}' if lane and axis == self.axis else ''}" for axis in self._axes()]
            wide = {*self.fours, *self.results} if count > 1 else set()
            values = [f"v{k}[{lane}]" if k in wide else f"v{k}" for k in self._arguments()]
            result.append(f"{name}({', '.join([*places, *values])})")
        return result

    def shares(self, printer: Printer) -> list[str]:
        """The statements that name what does not depend on the axis."""
        codes = self._codes(inside=False)
        lines = []
        for number in self.shared:
            more, (text,) = printer.print(codes[number])
            lines += [*more, f"let v{number} = {text};"]
        return lines

    def loads(self, shading: Shading, printer: Printer, count: int = LANES, loaded: Collection[int] = ()) -> list[str]:
        """The statements that load vectors from a place on, or the elements there, but for what is `loaded`."""
        codes = self._codes(inside=False)
        lines = []
        for number in sorted(set(self.fours) - set(loaded)):
            buffer, index = self.kernel.nodes[number][3]
            more, (place,) = printer.print(self._where(index, codes))
            load = shading.bindings.load4(self.first + buffer, f"({place}) >> 2u") if count > 1 else ""
            load = load or shading.bindings.load(self.first + buffer, place)
            lines += [*more, f"let v{number} = {load};"]
        return lines

    def place(self, printer: Printer, index: Any) -> tuple[list[str], str]:
        """The statements and the text of an index."""
        lines, (text,) = printer.print(self._where(index, self._codes(inside=False)))
        return lines, text

    def _where(self, index: Any, codes: Sequence[Expression]) -> Expression:
        """Where an index leads, given the expressions of all nodes."""
        return index_of(index, codes)

    def expressions(self) -> list[Expression]:
        """All that is computed outside of the functions."""
        codes = self._codes(inside=False)
        places = [self.kernel.nodes[number][3][1] for number in self.fours]
        places += [place for _, place, _ in self.kernel.stores]
        return [*(codes[number] for number in self.shared), *(self._where(place, codes) for place in places)]

    def _codes(self, inside: bool) -> list[Expression]:
        """The expression of every node; inside the functions, what they are given is a variable."""
        return expressions(self.kernel, self.first, set(self._arguments()) if inside else set())


def row_variable(part: int, node: int) -> str:
    """What holds the value of a node of an earlier kernel of Rows."""
    return f"r{part}_{node}"


def expressions(kernel: Kernel, first: int = 0, named: Collection[int] = ()) -> list[Expression]:
    """The expression of every node of a kernel; those `named`, and results of folds, are variables."""
    codes: list[Expression] = []
    for number, (function, dtype, operands, detail) in enumerate(kernel.nodes):
        if number in named or function == "acc":
            codes.append(["var", dtype, f"v{number}"])
        elif function == "const":
            codes.append(["const", dtype, detail])
        elif function == "row":
            codes.append(["var", dtype, row_variable(*detail)])
        elif function == "index":
            codes.append(index_of(detail, codes))
        elif function == "load":
            codes.append(["load", dtype, first + detail[0], index_of(detail[1], codes)])
        elif function in ("cast", "bitcast"):
            codes.append([function, dtype, codes[operands[0]]])
        else:
            codes.append(call(function, *(Value(codes[operand]) for operand in operands)).code)
    return codes


def index_of(index: Any, codes: Sequence[Expression]) -> Expression:
    """An index of places along axes, and of nodes with these expressions."""
    offset, axes, extra = index
    terms = [(Value(["grid", "int32", axis]), stride) for axis, stride in axes]
    terms += [(Value(codes[node]), stride) for node, stride in extra]
    total: Value | None = None
    for value, stride in terms:
        part = value if stride == 1 else value * Value(size(stride))
        total = part if total is None else total + part
    if total is None:
        return size(offset)
    return total.code if offset == 0 else (total + Value(size(offset))).code
