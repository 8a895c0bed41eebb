"""Where elements are not zero: a thread writes the places of a block."""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.extents import call, constant, size
from sardonyx_webgpu.routines.frame import Frame, text
from sardonyx_webgpu.wgsl import functions
from sardonyx_webgpu.wgsl.values import literal

_BLOCK = 64


def find(routine: Routine) -> Code:
    """x, and how many are not zero up to the end of each block, to the count, and the places [rank, count]."""
    shape, (blocks,) = routine.inputs
    dtype = routine.reads[0]
    differs = functions.apply("ne", "bool", dtype, ["x", literal(dtype, 0)])
    sizes = [text(extent or 1) for extent in shape]
    lines = []
    for axis in reversed(range(len(shape))):
        place = f"rest % {sizes[axis]}" if axis else "rest"
        lines.append(f"put_1({axis} * count + found, vec2<u32>(u32({place}), 0u));")
        lines += [f"rest = rest / {sizes[axis]};"] if axis else []
    return Frame(routine).code(
        "nonzero",
        [call("max", size(blocks), constant(1))],
        constant(_BLOCK + 1),
        BLOCK=_BLOCK,
        BLOCKS=blocks,
        N=" * ".join(map(str, sizes)) or 1,
        DIFFERS=differs,
        PUT=" ".join(lines),
    )
