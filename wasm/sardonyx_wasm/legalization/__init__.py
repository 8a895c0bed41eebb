"""What becomes of a trace before it is fused: products and convolutions turn into routines, images into channels last.

Each rule says what an equation becomes, or that it is none of its own: then the next one is asked. What backends share
is in core's `compiler/legalization/`; the code of routines is in `routines/`.
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
    **dict.fromkeys(["elementwise", "pad", "slice", "gather"], Legalizer.follow),
    "cast": Legalizer.cast,
    "concat": Legalizer.concat,
}
_RULES = {
    "attention": ("attention.attend",),
    "dot_general": (
        "nbits.dot_general",
        "integers.dot_general_of_floats",
        "products.dot_general",
        "integers.dot_general",
    ),
    "conv_general": ("convolutions.conv_general", "integers.conv_general"),
    "conv_weights": ("weights.conv_weights",),
    "cumulative": ("scanning.cumulative",),
    "extremes": ("extremes.extremes",),
    "recurrent": ("recurrent.pack",),
    "reduce_window": ("pooling.window",),
    "scatter": ("scattering.scatter",),
    "sort": ("selection.sort",),
    "suppression": ("selection.suppress",),
    "top_k": ("selection.top_k",),
    "transpose": ("resampling.transpose",),
    "tree_ensemble": ("trees.pack",),
}
"""The primitive's name -> module and name of its rules: most models need few of these modules."""


def _is_sub(equation: Equation) -> bool:
    """Whether something was subtracted from the first operand."""
    source = equation.inputs[0].equation
    return source is not None and source.params.get("function") == "sub"


def _is_summed(equation: Equation) -> bool:
    """Whether sums [places, channels, places] are transposed, as they are where pictures are resized."""
    source = equation.inputs[0].equation
    return equation.params["perm"] == (2, 0, 1) and source is not None and source.params.get("function") == "sum"


_CONDITIONS: dict[str, Callable[[Legalizer, Equation], bool]] = {
    "nbits.dot_general": lambda legalizer, equation: equation.inputs[1].value is None,
    "integers.dot_general": lambda legalizer, equation: equation.inputs[0].dtype.is_int,
    "integers.dot_general_of_floats": lambda legalizer, equation: legalizer.target == "v8" or _is_sub(equation),
    "resampling.transpose": lambda legalizer, equation: _is_summed(equation),
    "integers.conv_general": lambda legalizer, equation: equation.inputs[0].dtype.is_int,
}
"""What must hold for a rule to be asked, and its module to be imported."""
_TAKES = {
    "attention": "attention.takes",
    "conv_weights": "weights.takes",
    "extremes": "extremes.takes",
    "recurrent": "recurrent.takes",
    "top_k": "selection.takes",
    "tree_ensemble": "trees.takes",
}


@cache
def _named(name: str) -> Callable[..., bool]:
    module, _, function = name.partition(".")
    rule: Callable[..., bool] = getattr(import_module(f"{__name__}.{module}"), function)
    return rule


def _applies(rule: str, legalizer: Legalizer, equation: Equation) -> bool:
    """Whether a rule has rewritten an equation."""
    condition = _CONDITIONS.get(rule)
    return (condition is None or condition(legalizer, equation)) and _named(rule)(legalizer, equation)


def legalize(trace: Trace, origins: Collection[int], target: str) -> None:
    """Rewrite the equations of these ONNX nodes for a host's compiler: "wasmtime" or "v8"."""
    legalizer = Legalizer(trace, target)
    if any(equation.primitive.name == "reduce_window" for equation in trace.equations):
        from sardonyx.compiler.legalization.pooling import Pooling

        pooling = Pooling(trace)
        legalizer.run(lambda equation: equation.origin in origins and pooling.write(legalizer, equation))
    tables = None
    if any(x.dtype in (dtypes.int8, dtypes.uint8) for equation in trace.equations for x in equation.inputs):
        from .centring import centre
        from .tables import Tables

        centre(legalizer, origins)
        tables = Tables(trace, origins)

    def rewrite(equation: Equation) -> bool:
        if equation.origin not in origins:
            return False
        if tables is not None and tables.write(legalizer, equation):
            return True
        name = equation.primitive.name
        if name in _FOLLOWING:
            return _FOLLOWING[name](legalizer, equation)
        return any(_applies(rule, legalizer, equation) for rule in _RULES.get(name, ()))

    legalizer.run(rewrite)
    if tables is not None and tables.in_use:
        legalizer.run(lambda equation: tables.narrow(legalizer, equation))


def takes(equation: Equation, target: str) -> bool:
    """Whether there is a routine for this composite primitive with these operands, and a host's compiler."""
    rule = _TAKES.get(equation.primitive.name)
    return rule is None or _named(rule)(equation, target)
