"""Routines: primitives with shaders of their own, written by hand in .wgsl files.

A writer takes a `Routine` and returns its `Code`. Files are templates (`template`); what they call to load operands and
to put results, with the epilogue, is written around them (`frame.Frame`). `designs` and `phases` say how threads
share the work; rules of `legalization` go by them. What core has fused does not belong here, but in `kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx.common.record import replace
from sardonyx_webgpu.code import Code

WRITERS = {
    "attend": "attention.attend",
    "conv": "convolution.conv",
    "depthwise": "convolution.depthwise",
    "winograd_input": "winograd.winograd_input",
    "winograd_output": "winograd.winograd_output",
    "winograd_weights": "winograd.winograd_weights",
    "combine_updates": "scatter.combine",
    "find_nonzero": "nonzero.find",
    "first_updates": "scatter.first",
    "last_updates": "scatter.last",
    "matmul": "matmul.matmul",
    "matmul_int8": "integers.matmul_int8",
    "matmul_nbits": "nbits.matmul_nbits",
    "merge_runs": "sorting.merge_runs",
    "recur": "recurrent.recur",
    "shader_map": "custom.apply",
    "sort_runs": "sorting.sort_runs",
    "suppress": "suppression.suppress",
    "walk_trees": "trees.walk",
}
"""The primitive's name -> module and name of what writes its code."""


def of_routine(routine: Routine, software: bool = False) -> Code:
    """The code of a routine, by the design for a processor that plays the GPU, or for hardware, where it has two."""
    if design := routine.attributes.get("software" if software else "hardware"):
        routine = by_design(routine, design)
    module, _, name = WRITERS[routine.primitive].partition(".")
    writer: Callable[[Routine], Code] = getattr(import_module(f"{__name__}.{module}"), name)
    return writer(routine)


def by_design(routine: Routine, design: Sequence[Any]) -> Routine:
    """A routine that has designs, with this one alone (`designs.Design`)."""
    others = {key: value for key, value in routine.attributes.items() if key not in ("software", "hardware")}
    return replace(routine, attributes={**others, "design": list(design)})
