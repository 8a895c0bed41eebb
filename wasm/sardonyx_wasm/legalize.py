"""What becomes of a trace before it is fused: products and convolutions turn into routines, images into channels last.

Each rule says what an equation becomes, or that it is none of its own: then the next one is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from typing import TypeAlias

from sardonyx.common import dtypes
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace

from .legalizer import Legalizer

Rule: TypeAlias = Callable[[Legalizer, Equation], bool]

_FOLLOWING: dict[str, Rule] = {
    **dict.fromkeys(["elementwise", "cast", "pad", "slice", "reduce_window", "gather"], Legalizer.follow),
    "concat": Legalizer.concat,
}
_RULES = {
    "attention": ("attention.attend",),
    "dot_general": (
        "dequantized.dot_general",
        "quantized.dot_general_of_floats",
        "products.dot_general",
        "quantized.dot_general",
    ),
    "conv_general": ("convolutions.conv_general", "quantized.conv_general"),
    "cumulative": ("selection.cumulative",),
    "recurrent": ("recurrent.pack",),
    "scatter": ("selection.scatter",),
    "sort": ("selection.sort",),
    "suppression": ("selection.suppress",),
    "top_k": ("selection.top_k",),
    "tree_ensemble": ("trees.pack",),
}
"""The primitive's name -> module and name of its rules: most models need few of these modules."""
_TAKES = {
    "attention": "attention.takes",
    "recurrent": "recurrent.takes",
    "top_k": "selection.takes",
    "tree_ensemble": "trees.takes",
}


@cache
def _named(name: str) -> Callable[..., bool]:
    module, _, function = name.partition(".")
    found: Callable[..., bool] = getattr(import_module(f"{__package__}.{module}"), function)
    return found


def legalize(trace: Trace, origins: Collection[int], target: str) -> None:
    """Rewrite the equations of these ONNX nodes for a host's compiler: "wasmtime" or "v8"."""
    legalizer = Legalizer(trace, target)
    if any(equation.primitive.name == "reduce_window" for equation in trace.equations):
        from sardonyx.compiler.legalization.pooling import Pooling

        pooling = Pooling(trace)
        legalizer.run(lambda equation: equation.origin in origins and pooling.write(legalizer, equation))
    tables = None
    if any(x.dtype in (dtypes.int8, dtypes.uint8) for equation in trace.equations for x in equation.inputs):
        from .tables import Tables

        tables = Tables(trace, origins)

    def rewrite(equation: Equation) -> bool:
        if equation.origin not in origins:
            return False
        if tables is not None and tables.write(legalizer, equation):
            return True
        name = equation.primitive.name
        if name in _FOLLOWING:
            return _FOLLOWING[name](legalizer, equation)
        return any(_named(rule)(legalizer, equation) for rule in _RULES.get(name, ()))

    legalizer.run(rewrite)
    if tables is not None and tables.in_use:
        legalizer.run(lambda equation: tables.narrow(legalizer, equation))


def takes(equation: Equation, target: str) -> bool:
    """Whether there is a routine for this composite primitive with these operands, and a host's compiler."""
    rule = _TAKES.get(equation.primitive.name)
    return rule is None or _named(rule)(equation, target)
