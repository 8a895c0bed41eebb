"""Four neighbours at once: an element of a kernel as a function, called for four elements along the last axis.

What does not depend on that axis is computed once for the four. A load whose index walks with the axis by ones, from
multiples of four on, loads a vector. Drivers inline the function, so that only loads and stores become wider: that is
what costs on processors that play GPUs, and saves instructions on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sardonyx.compiler.kernel import Kernel
from sardonyx.compiler.program import Expression, Value, call
from sardonyx_webgpu.code import size
from sardonyx_webgpu.expression import Printer
from sardonyx_webgpu.shading import Shading
from sardonyx_webgpu.statements import block
from sardonyx_webgpu.values import WGSL, kind

LANES = 4


class Lanes:
    """The one result of a kernel without folds, along the last axis of its space.

    `first` is added to the numbers of buffers. A kernel that is flat, walking through all its buffers alike, needs no
    multiple of four elements, since buffers have room for that.
    """

    def __init__(self, kernel: Kernel, first: int = 0) -> None:
        self.kernel = kernel
        self.first = first
        self.axis = len(kernel.space) - 1
        ((self.buffer, self.place, self.node),) = kernel.stores
        self.dtype: str = kernel.nodes[self.node][1]
        self.varies = self._varying()
        self.is_flat = len(kernel.space) == 1 and self.place == [0, [[0, 1]], []]
        used = self._used()
        loads = [number for number in used if kernel.nodes[number][0] == "load"]
        self.fours = [number for number in loads if self.varies[number] and self._is_four(kernel.nodes[number][3][1])]
        self.shared = [number for number in used if not self.varies[number] and self._is_needed(number, used)]

    def _varying(self) -> list[bool]:
        """Whether each node depends on the last axis, or on a routine's result."""
        result: list[bool] = []
        for function, _, operands, detail in self.kernel.nodes:
            varies = function == "acc" or any(result[operand] for operand in operands)
            if function in ("index", "load"):
                _, axes, extra = detail if function == "index" else detail[1]
                varies |= any(axis == self.axis for axis, _ in axes) or any(result[node] for node, _ in extra)
            result.append(varies)
        return result

    def _used(self) -> list[int]:
        found, stack = set(), [self.node]
        while stack:
            if (number := stack.pop()) not in found:
                found.add(number)
                stack += self._operands(number)
        return sorted(found)

    def _operands(self, number: int) -> list[int]:
        function, _, operands, detail = self.kernel.nodes[number]
        if function not in ("index", "load"):
            return list(operands)
        return [node for node, _ in (detail if function == "index" else detail[1])[2]]

    def _is_needed(self, number: int, used: Sequence[int]) -> bool:
        """Whether what varies needs this node, which does not; constants are simpler anew."""
        if self.kernel.nodes[number][0] == "const":
            return False
        return any(number in self._operands(other) for other in used if self.varies[other]) or number == self.node

    def _is_multiple(self, value: int | str) -> bool:
        if isinstance(value, int):
            return value % LANES == 0
        return bool(self.kernel.multiples) and self.kernel.multiples[int(value[1:])] % LANES == 0

    def _is_four(self, index: Any) -> bool:
        """Whether an index walks by ones from multiples of four on."""
        offset, axes, extra = index
        steps = dict(axes)
        if steps.pop(self.axis, 0) != 1:
            return False
        return all(map(self._is_multiple, [offset, *steps.values(), *(stride for _, stride in extra)]))

    @property
    def is_aligned(self) -> bool:
        """Whether the elements that are stored are whole fours."""
        narrow = kind(self.dtype).stored < 64
        whole = self.axis >= 0 and (self.is_flat or self._is_multiple(self.kernel.space[self.axis]))
        return narrow and whole and self._is_four(self.place) and all(self._has_lanes(number) for number in self.fours)

    def _has_lanes(self, number: int) -> bool:
        return kind(self.kernel.nodes[number][1]).stored < 64

    def buffers(self) -> set[int]:
        """The buffers that are loaded and stored by fours."""
        return {self.first + self.kernel.nodes[number][3][0] for number in self.fours}

    # ---- text

    def element(self, shading: Shading, name: str) -> str:
        """The function that gives one element, of the places g0, g1, ... and what is `shared` and loaded by `fours`."""
        codes = self._codes(inside=True)
        printer = shading.printer()
        lines, (text,) = printer.print(codes[self.node])
        lines = [*shading.params([codes[self.node]]), *lines, f"return {text};"]
        params = ", ".join([*(f"g{k}: i32" for k in range(self.axis + 1)), *map(self._param, self._given())])
        return f"fn {name}({params}) -> {WGSL[kind(self.dtype).family]} {block(lines)}\n"

    def _given(self) -> list[int]:
        results = [k for k, node in enumerate(self.kernel.nodes) if node[0] == "acc"]
        return [*results, *self.shared, *self.fours]

    def _param(self, number: int) -> str:
        return f"v{number}: {WGSL[kind(self.kernel.nodes[number][1]).family]}"

    def calls(self, name: str, count: int = LANES) -> list[str]:
        """The function for so many elements, from what `given` has named."""
        result = []
        for lane in range(count):
            places = [f"g{k}" for k in range(self.axis + 1)]
            if lane:
                places[self.axis] += f" + {lane}"
            values = [
                f"v{k}[{lane}]" if count > 1 and (k in self.fours or self.kernel.nodes[k][0] == "acc") else f"v{k}"
                for k in self._given()
            ]
            result.append(f"{name}({', '.join([*places, *values])})")
        return result

    def given(self, shading: Shading, printer: Printer, count: int = LANES) -> list[str]:
        """The statements that name what the function needs, where g0, g1, ... are places."""
        codes = self._codes(inside=False)
        lines = []
        for number in self.shared:
            more, (text,) = printer.print(codes[number])
            lines += [*more, f"let v{number} = {text};"]
        for number in self.fours:
            buffer, index = self.kernel.nodes[number][3]
            more, (place,) = printer.print(self._index(index, codes))
            load = shading.bindings.load4(self.first + buffer, f"({place}) >> 2u") if count > 1 else ""
            load = load or shading.bindings.load(self.first + buffer, place)
            lines += [*more, f"let v{number} = {load};"]
        return lines

    def target(self, printer: Printer) -> tuple[list[str], str]:
        """The statements and the text of where the element goes."""
        lines, (text,) = printer.print(self._index(self.place, self._codes(inside=False)))
        return lines, text

    def expressions(self) -> list[Expression]:
        """All that is computed outside of the function."""
        codes = self._codes(inside=False)
        places = [self.kernel.nodes[number][3][1] for number in self.fours]
        shared = [codes[number] for number in self.shared]
        return [*shared, *(self._index(place, codes) for place in [*places, self.place])]

    def _codes(self, inside: bool) -> list[Expression]:
        """The expression of every node; inside the function, what it is given is a variable."""
        given = set(self._given()) if inside else set()
        codes: list[Expression] = []
        for number, (function, dtype, operands, detail) in enumerate(self.kernel.nodes):
            if number in given or function == "acc":
                codes.append(["var", dtype, f"v{number}"])
            elif function == "const":
                codes.append(["const", dtype, detail])
            elif function == "index":
                codes.append(self._index(detail, codes))
            elif function == "load":
                codes.append(["load", dtype, self.first + detail[0], self._index(detail[1], codes)])
            elif function in ("cast", "bitcast"):
                codes.append([function, dtype, codes[operands[0]]])
            else:
                codes.append(call(function, *(Value(codes[operand]) for operand in operands)).code)
        return codes

    def _index(self, index: Any, codes: Sequence[Expression]) -> Expression:
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
