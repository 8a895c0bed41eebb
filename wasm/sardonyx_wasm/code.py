"""What a launch runs: one function that does any range of the units of its work.

The function's parameters are all i32: `begin, end, scratch`, the byte addresses of the buffers (those read, then those
written), then the code's own parameters. It does the units `begin..end - 1`. Units are independent: any split into
ranges, in any order, on any number of threads gives the same bits. `scratch` is memory of the calling thread alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .assembler import Function, ValueType, i32
from .driver import SCRATCH

__all__ = ["SCRATCH", "Code", "signature"]


class Code(NamedTuple):
    """A function and how many units of work it has: an integer, "p3" for the fourth parameter, or an expression of
    `compiler.program` over parameters. Ranges begin at multiples of `align`; `scratch` is in bytes."""

    function: Function
    units: Any = 1
    align: int = 1
    scratch: int = 0


def signature(buffers: int, params: int) -> dict[str, ValueType]:
    """The parameters of a code's function."""
    names = ["begin", "end", "scratch"]
    names += [f"buffer{k}" for k in range(buffers)]
    names += [f"param{k}" for k in range(params)]
    return dict.fromkeys(names, i32)
