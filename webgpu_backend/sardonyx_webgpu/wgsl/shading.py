"""A shader being written: bindings, parameters, functions, entry point.

It is valid for naga and for Tint, under WebGPU's default limits.

The buffers are in group 0; in group 1 is a uniform with the parameters, words that functions call p0, p1, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sardonyx.code.approximation import Approximation
from sardonyx.code.program import Expression
from sardonyx.errors import EngineError
from sardonyx_webgpu.code import WORKGROUP
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.wgsl import prelude
from sardonyx_webgpu.wgsl.bindings import Bindings
from sardonyx_webgpu.wgsl.expression import Printer, variable
from sardonyx_webgpu.wgsl.statements import Body, block, walk
from sardonyx_webgpu.wgsl.values import WGSL, kind, literal

_BUILTINS = [
    ("workgroup_id", "group", "vec3<u32>"),
    ("num_workgroups", "groups", "vec3<u32>"),
    ("local_invocation_index", "thread", "u32"),
]


class Shading:
    """Writes the shader of a code with so many parameters."""

    def __init__(self, name: str, params: int, bindings: Bindings) -> None:
        self.name = name
        self.bindings = bindings
        self._params = params
        self._written: dict[str, Approximation] = {}

    def printer(self) -> Printer:
        """What prints the expressions of one function."""
        return Printer(self.bindings.load, self._written)

    def params(self, codes: Iterable[Expression]) -> list[str]:
        """The statements that name the parameters which these expressions use."""
        used = sorted({code[2] for code in walk(codes) if code[0] == "param"})
        return [f"let p{k} = params[{k // 4}].{'xyzw'[k % 4]};" for k in used]

    def entry(self, lines: Iterable[str], has_grid: bool = True, threads: int = WORKGROUP) -> str:
        """The entry point, whose statements know `group`, `groups` and `thread` if it has a grid."""
        threads = threads if has_grid else 1
        inputs = ", ".join(f"@builtin({name}) {word}: {wgsl}" for name, word, wgsl in _BUILTINS) if has_grid else ""
        return f"@compute @workgroup_size({threads})\nfn main({inputs}) {block(lines)}\n"

    def finish(self, *texts: str) -> Shader:
        """The shader with these functions, the last one being the entry point."""
        functions = _functions(self._written)
        body = "\n".join(part for part in (self.bindings.functions(), *functions, *texts) if part)
        declared = self.bindings.declarations()
        if "params[" in body:
            words = -(-self._params // 4)
            declared += f"@group(1) @binding(0) var<uniform> params: array<vec4<i32>, {words}>;\n"
        parts = [f"// {' '.join(self.name.split())}\n{declared}", *prelude.needed(body), body]
        return Shader(self.name, "\n".join(parts), self.bindings.count)


def points(printer: Printer, grid: Sequence[Expression], step: int = 1, together: bool = False) -> list[str]:
    """The statements that give a thread its place g0, g1, ... in the grid, and send those beyond it home.

    Along the last axis places are so many elements apart. The threads of a workgroup may be `together` at one place:
    then all of them stay, or go, and what follows is in uniform control flow.
    """
    lines, extents = printer.print(*grid)
    lines += [f"let n{axis} = u32({extent});" for axis, extent in enumerate(extents)]
    each = "" if together else f" * {WORKGROUP}u + thread"
    lines.append(f"let point = (group.y * groups.x + group.x){each};")
    lines.append(f"if (point >= {' * '.join(f'n{axis}' for axis in range(len(grid)))}) {{ return; }}")
    return lines + _places("point", len(grid), step)


def _places(number: str, rank: int, step: int = 1) -> list[str]:
    """The statements that name the coordinates of a number, of which the last axis' are so many elements apart."""
    lines, rest = [], number
    for axis in range(rank - 1, 0, -1):
        scale = f" * {step}" if step > 1 and axis == rank - 1 else ""
        lines.append(f"let g{axis} = i32({rest} % n{axis}){scale};")
        lines.append(f"let rest{axis} = {rest} / n{axis};")
        rest = f"rest{axis}"
    return [*lines, f"let g0 = i32({rest}){f' * {step}' if step > 1 and rank == 1 else ''};"]


def _functions(wanted: dict[str, Approximation]) -> list[str]:
    """The functions that a shader brings along, as they are written in the language of programs."""

    def impossible(*parameters: object) -> str:
        raise EngineError("a function of scalars has no buffers")

    texts = []
    everything = wanted | {f.beyond.function.name: f.beyond.function for f in wanted.values() if f.beyond}
    for function in everything.values():
        params = ", ".join(f"{variable(name)}: {WGSL[kind(dtype).family]}" for name, dtype in function.params)
        lines = Body(Printer(impossible), impossible, function.body).lines(function.body)
        if function.beyond:
            far = f"return {function.beyond.function.name}(x);"
            lines.insert(0, f"if (abs(x) > {literal('float32', function.beyond.limit)}) {block([far])}")
        texts.append(f"fn {function.name}({params}) -> {WGSL[kind(function.dtype).family]} {block(lines)}\n")
    return texts
