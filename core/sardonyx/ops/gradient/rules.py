"""The table of rules: what each primitive makes of the gradients of its outputs.

A composite primitive without a row has the gradient of what it is spelled in.
"""

from __future__ import annotations

from sardonyx.ops.gradient import (
    contraction,
    control,
    convolution,
    fourier,
    indexing,
    movement,
    recurrent,
    reduction,
    selection,
    window,
)
from sardonyx.ops.gradient.rule import NestedRule, Rule

RULES: dict[str, Rule] = {
    **movement.RULES,
    **reduction.RULES,
    **contraction.RULES,
    **indexing.RULES,
    **convolution.RULES,
    **window.RULES,
    **selection.RULES,
    **fourier.RULES,
}

NESTED: dict[str, NestedRule] = {**control.RULES, **recurrent.RULES}
"""Those that ask for gradients of what they are made of."""

_NO_INPUTS = "it is made of nothing but sizes and numbers"

UNDEFINED: dict[str, str] = {
    "coupling": "it is an iteration that ends where its result is near enough",
    "full": _NO_INPUTS,
    "host": "a function of the host says nothing of its slope",
    "iota": _NO_INPUTS,
    "nonzero": "it gives places",
    "read": "it gives sizes",
    "shader_map": "a shader says nothing of its slope",
    "sizes": _NO_INPUTS,
    "suppression": "it gives places",
}
"""Primitives that have none, and why."""
