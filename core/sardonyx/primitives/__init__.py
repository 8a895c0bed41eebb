"""The primitives: what every ONNX operator is spelled in and every backend implements; not how any of them does.

Shapes are checked where a function is called, once, for all backends; sizes may be symbolic. Element-wise functions
broadcast as NumPy does, and take Python numbers in the dtype of their other operand. Empty tensors are allowed
everywhere: a reduction over nothing gives its identity (0, 1, the lowest or the highest value), a selection over
nothing (argmax) gives 0. Indices out of range are clamped. `scalar.py` says what the scalar functions give at the
edges, `Primitive` what a primitive is.

What few models need is imported when its name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sardonyx.primitives.formats  # noqa: F401 - without it, nothing casts floats that NumPy lacks
from sardonyx.code.folds import identity
from sardonyx.primitives.array import PRIMITIVES, Array, Primitive
from sardonyx.primitives.binding import constant, sizes
from sardonyx.primitives.elementwise import (
    absolute,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    bitcast,
    broadcast_shapes,
    cast,
    ceil,
    concrete,
    cos,
    cosh,
    elementwise,
    equal,
    erf,
    exp,
    floor,
    full,
    iota,
    isinf,
    isnan,
    literal,
    log,
    maximum,
    minimum,
    native,
    negative,
    not_equal,
    round_even,
    shift_left,
    shift_right,
    show,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    where,
    widen,
)
from sardonyx.primitives.host_call import host
from sardonyx.primitives.indexing import (
    gather,
    nonzero,
    scatter,
)
from sardonyx.primitives.movement import (
    broadcast_to,
    concat,
    flip,
    normalize_axes,
    normalize_axis,
    pad,
    reshape,
    slice_,
    slice_axis,
    squeeze,
    transpose,
    unsqueeze,
)

if TYPE_CHECKING:
    from sardonyx.primitives.contraction import dot_general, matmul, swap_last
    from sardonyx.primitives.control import branch, loop
    from sardonyx.primitives.convolution import conv_general
    from sardonyx.primitives.dot_product_attention import attention
    from sardonyx.primitives.ensemble import tree_ensemble
    from sardonyx.primitives.non_max_suppression import suppression
    from sardonyx.primitives.pairwise_coupling import coupling
    from sardonyx.primitives.random import random_bits, random_key, random_normal, random_uniform
    from sardonyx.primitives.recurrent_layer import recurrent
    from sardonyx.primitives.reduction import arg, cumulative, extremes, max_, mean, reduce, sort, sum_
    from sardonyx.primitives.selection import top_k
    from sardonyx.primitives.weight_gradient import conv_weights
    from sardonyx.primitives.window import reduce_window, windows

__all__ = [
    "Array",
    "absolute",
    "acos",
    "acosh",
    "arg",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "attention",
    "bitcast",
    "branch",
    "broadcast_shapes",
    "broadcast_to",
    "cast",
    "ceil",
    "concat",
    "concrete",
    "constant",
    "conv_general",
    "conv_weights",
    "cos",
    "cosh",
    "coupling",
    "cumulative",
    "dot_general",
    "elementwise",
    "equal",
    "erf",
    "exp",
    "extremes",
    "flip",
    "floor",
    "full",
    "gather",
    "host",
    "identity",
    "iota",
    "isinf",
    "isnan",
    "literal",
    "log",
    "loop",
    "matmul",
    "max_",
    "maximum",
    "mean",
    "minimum",
    "native",
    "negative",
    "nonzero",
    "normalize_axes",
    "normalize_axis",
    "not_equal",
    "pad",
    "random_bits",
    "random_key",
    "random_normal",
    "random_uniform",
    "recurrent",
    "reduce",
    "reduce_window",
    "reshape",
    "round_even",
    "scatter",
    "shift_left",
    "shift_right",
    "show",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sizes",
    "slice_",
    "slice_axis",
    "sort",
    "sqrt",
    "squeeze",
    "sum_",
    "suppression",
    "swap_last",
    "tan",
    "tanh",
    "top_k",
    "transpose",
    "tree_ensemble",
    "trunc",
    "unsqueeze",
    "where",
    "widen",
    "windows",
]

_HOMES = {
    "append": "caching",
    "arg": "reduction",
    "attention": "dot_product_attention",
    "branch": "control",
    "conv_general": "convolution",
    "conv_weights": "weight_gradient",
    "coupling": "pairwise_coupling",
    "cumulative": "reduction",
    "dot_general": "contraction",
    "extremes": "reduction",
    "fourier": "fourier",
    "loop": "control",
    "matmul": "contraction",
    "max_": "reduction",
    "mean": "reduction",
    "random_bits": "random",
    "random_key": "random",
    "random_normal": "random",
    "random_uniform": "random",
    "recurrent": "recurrent_layer",
    "reduce": "reduction",
    "reduce_window": "window",
    "shader_map": "shader",
    "sort": "reduction",
    "sum_": "reduction",
    "suppression": "non_max_suppression",
    "swap_last": "contraction",
    "top_k": "selection",
    "tree_ensemble": "ensemble",
    "windows": "window",
}
"""The modules of functions and primitives that few models need."""


def find(name: str) -> Primitive:
    """The primitive of a name.

    >>> find("top_k").name
    'top_k'
    """
    if name not in PRIMITIVES:
        import_module(f"{__name__}.{_HOMES[name]}")
    return PRIMITIVES[name]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
