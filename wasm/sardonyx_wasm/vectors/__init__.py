"""Vectors of 4 elements in WebAssembly SIMD: how dtypes are held in lanes, and every scalar function of them.

A `Vector` is what `lanes` says, `s` a `VectorScope`, `k` the `Kind` of a dtype (that of the last operand for `apply`).
Results are those of `scalars`, element for element. Loops, and which axis becomes lanes, are no matter of this room:
`kernels` and `routines` know them.
"""

from .conversion import bitcast, cast
from .lanes import Constant, Vector, VectorScope, lane, let, splat, types
from .lanewise import apply, apply_each, write_vector
from .memory import gather, horizontal, iota, load, store, store_together
from .scope import FunctionScope

__all__ = [
    "Constant",
    "FunctionScope",
    "Vector",
    "VectorScope",
    "apply",
    "apply_each",
    "bitcast",
    "cast",
    "gather",
    "horizontal",
    "iota",
    "lane",
    "let",
    "load",
    "splat",
    "store",
    "store_together",
    "types",
    "write_vector",
]
