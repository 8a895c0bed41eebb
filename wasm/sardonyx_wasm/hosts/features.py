"""What engines may lack."""

from __future__ import annotations

from ..assembler import Expr, Module, f32x4


def _probe(expr: Expr) -> bytes:
    module = Module()
    with module.function("probe", {}) as f:
        f.do(expr)
    return module.to_bytes()


_ZERO = f32x4.const(0.0)
PROBES = {"simd": _probe(_ZERO + _ZERO), "relaxed-simd": _probe(f32x4.relaxed_madd(_ZERO, _ZERO, _ZERO))}
"""Feature -> a module that is valid where it exists."""
