"""What writes the code of what a plan has: kernels and rows that core has fused, routines, programs."""

from __future__ import annotations

from typing import Any

from sardonyx.code.kernel import Kernel, Routine, Rows
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.kernels.elementwise import of_elementwise
from sardonyx_webgpu.kernels.fold import of_fold
from sardonyx_webgpu.kernels.programs import of_program
from sardonyx_webgpu.kernels.rows import of_rows
from sardonyx_webgpu.routines import of_routine


def lower(code: Any, software: bool = False) -> Code:
    """What the device runs for a Program, a Kernel, a Routine, Rows, or a Code of a bundle.

    Where threads are those of a processor, each does more on its own: `software` says so.
    """
    match code:
        case Code():
            return code.software or code if software else code
        case Kernel():
            return of_fold(code) if code.folds else of_elementwise(code)
        case Rows():
            return of_rows(code, code.wide and not software)
        case Routine():
            return of_routine(code, software)
        case _:
            return of_program(code)
