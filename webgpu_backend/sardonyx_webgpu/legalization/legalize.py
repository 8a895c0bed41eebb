"""What becomes of a trace before it is fused: what there are routines for turns into them, images into channels last.

Each rule says what an equation becomes, or that it is none of its own: then it is kept. Stages come one after another,
since what selects becomes scans, and scans become products.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from math import inf
from typing import TypeAlias

from sardonyx.compiler.legalization.channels_last import ChannelsLast
from sardonyx.compiler.legalization.pooling import Pooling
from sardonyx.compiler.rewriting import Rewriter, expand_composites
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace
from sardonyx_webgpu.legalization.projections import Projections

Rule: TypeAlias = Callable[[ChannelsLast, Equation], bool]

_FOLLOWING: dict[str, Rule] = {
    **dict.fromkeys(["elementwise", "cast", "pad", "slice", "reduce_window", "gather"], ChannelsLast.follow),
    "concat": ChannelsLast.concat,
}
_STAGES = (
    {
        "attention": "attention.attend",
        "gather": "decoding.gather",
        "recurrent": "recurrent.recur",
        "scatter": "scattering.scatter",
        "sort": "selection.sort",
        "suppression": "selection.suppression",
        "top_k": "selection.top_k",
        "tree_ensemble": "selection.tree_ensemble",
    },
    {
        "cumulative": "scanning.cumulative",
        "nonzero": "scanning.nonzero",
    },
    {
        "conv_general": "convolutions.conv_general",
        "dot_general": "products.dot_general",
        "reduce": "reductions.reduce",
    },
)
"""The primitive's name -> module and name of its rule: most models need few of these modules."""
_TAKES = {"attention": "attention.takes", "recurrent": "recurrent.takes"}


@cache
def _named(name: str) -> Callable[..., bool]:
    module, _, function = name.partition(".")
    found: Callable[..., bool] = getattr(import_module(f"{__package__}.{module}"), function)
    return found


def legalize(trace: Trace, origins: Collection[int], most: float = inf) -> None:
    """Rewrite the equations of these ONNX nodes; no tensor that is put together has more than `most` bytes."""
    expand_composites(trace, lambda equation: equation.origin not in origins or takes(equation))
    _pack(trace, origins)
    Projections(trace, origins, most).merge()
    legalizer = ChannelsLast(trace)
    pooling = Pooling(trace)
    if any(equation.primitive.name == "reduce_window" for equation in trace.equations):
        legalizer.run(lambda equation: equation.origin in origins and pooling.write(legalizer, equation))

    def rewrite(equation: Equation) -> bool:
        name = equation.primitive.name
        if equation.origin not in origins:
            return False
        if name in following:
            return following[name](legalizer, equation)
        return name in rules and _named(rules[name])(legalizer, equation)

    for rules in _STAGES:
        following = _FOLLOWING if rules is _STAGES[-1] else {}
        if following or any(equation.primitive.name in rules for equation in trace.equations):
            legalizer.run(rewrite)


def _pack(trace: Trace, origins: Collection[int]) -> None:
    """Have products with dequantized weights read them as they are stored."""
    rewriter = Rewriter(trace)
    if any(equation.primitive.name == "dot_general" for equation in trace.equations):
        rule = _named("nbits.dot_general")
        rewriter.run(
            lambda equation: (
                equation.origin in origins and equation.primitive.name == "dot_general" and rule(rewriter, equation)
            )
        )


def takes(equation: Equation) -> bool:
    """Whether there is a routine for this composite primitive with these operands."""
    rule = _TAKES.get(equation.primitive.name)
    return rule is None or _named(rule)(equation)
