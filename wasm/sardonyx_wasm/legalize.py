"""What becomes of a trace before it is fused: products and convolutions turn into routines, images into channels last.

Each rule says what an equation becomes, or that it is none of its own: then the next one is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from sardonyx.array import Equation, Trace

from . import convolutions, dequantized, products, quantized, recurrent, selection, trees
from .legalizer import Legalizer
from .tables import Tables

Rule: TypeAlias = Callable[[Legalizer, Equation], bool]

_RULES: dict[str, Sequence[Rule]] = {
    **dict.fromkeys(["elementwise", "cast", "pad", "slice", "reduce_window", "gather"], (Legalizer.follow,)),
    "concat": [Legalizer.concat],
    "dot_general": [
        dequantized.dot_general,
        quantized.dot_general_of_floats,
        products.dot_general,
        quantized.dot_general,
    ],
    "conv_general": [convolutions.conv_general, quantized.conv_general],
    "cumulative": [selection.cumulative],
    "recurrent": [recurrent.pack],
    "scatter": [selection.scatter],
    "sort": [selection.sort],
    "suppression": [selection.suppress],
    "top_k": [selection.top_k],
    "tree_ensemble": [trees.pack],
}
_TAKES: dict[str, Callable[[Equation], bool]] = {
    "recurrent": recurrent.takes,
    "top_k": selection.takes,
    "tree_ensemble": trees.takes,
}


def legalize(trace: Trace, origins: Collection[int], target: str) -> None:
    """Rewrite the equations of these ONNX nodes for a host's compiler: "wasmtime" or "v8"."""
    legalizer, tables = Legalizer(trace, target), Tables(trace, origins)

    def rewrite(equation: Equation) -> bool:
        rules = (tables.write, *_RULES.get(equation.primitive.name, ())) if equation.origin in origins else ()
        return any(rule(legalizer, equation) for rule in rules)

    legalizer.run(rewrite)
    if tables.in_use:
        legalizer.run(lambda equation: tables.narrow(legalizer, equation))


def takes(equation: Equation) -> bool:
    """Whether there is a routine for this composite primitive with these operands."""
    rule = _TAKES.get(equation.primitive.name)
    return rule is None or rule(equation)
