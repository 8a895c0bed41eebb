"""Routines: primitives with a function of their own, written by hand, where loops over scalars would be too slow.

A writer takes the module being written and the `Routine`, and returns its `Code`. Sizes in shapes and attributes are
integers or "p3" for the fourth parameter: `frame.size` makes an expression of either. Which equations become routines,
and what their operands look like then, is decided in `legalization`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from sardonyx.code.kernel import Routine

from ..code import Code, Unit

Writer: TypeAlias = Callable[[Unit, Routine], Code]

WRITERS = {
    "accumulate": "cumulative.accumulate",
    "attend": "attention.attend",
    "block_extremes": "extremes.block_extremes",
    "conv_grouped": "grouped.conv_grouped",
    "conv_line_int8": "winograd_line.conv_line_int8",
    "conv_packed": "convolution.conv_packed",
    "conv_winograd": "winograd.conv_winograd",
    "conv_winograd_int8": "winograd_int8.conv_winograd_int8",
    "depthwise": "depthwise.depthwise",
    "im2col": "im2col.im2col",
    "lookup": "requantize.lookup",
    "matmul": "matmul.matmul",
    "matmul_int8": "int8.matmul_int8",
    "matmul_nbits": "nbits.matmul_nbits",
    "matmul_packed": "matmul.matmul_packed",
    "matmul_quads": "quads.matmul_quads",
    "matmul_row": "row.matmul_row",
    "nonzero": "nonzero.nonzero",
    "pool": "pooling.pool",
    "recurrent": "recurrent.recurrent",
    "requantize": "requantize.requantize",
    "resample": "resample.resample",
    "scatter_updates": "scatter.scatter",
    "select": "selection.select",
    "sort_lines": "sorting.sort",
    "suppress": "suppression.suppress",
    "walk_trees": "trees.walk_trees",
    "weigh": "attention.weigh",
    "widen_nbits": "nbits.widen_nbits",
    "winograd_input": "winograd.winograd_input",
    "winograd_output": "winograd.winograd_output",
}
"""The primitive's name -> module and name of what writes its code; all of them need the feature "simd"."""


def write(unit: Unit, routine: Routine) -> Code:
    """The code of a routine."""
    module, _, name = WRITERS[routine.primitive].partition(".")
    writer: Writer = getattr(import_module(f"{__name__}.{module}"), name)
    return writer(unit, routine)
