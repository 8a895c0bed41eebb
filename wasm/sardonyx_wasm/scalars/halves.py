"""Functions of generated modules for float16 and bfloat16, which are computed in f32; all round to nearest even."""

from __future__ import annotations

from collections.abc import Callable

from ..assembler import Function, Module, f32, f64, i32

_SIGN, _MAGNITUDE, _INFINITY = 0x80000000, 0x7FFFFFFF, 0x7F800000


def float16_value(m: Module) -> Function:
    """The f32 of float16's bits, those above them being ignored."""
    with m.function("float16_value", {"bits": i32}, [f32]) as f:
        magnitude = f.let((f.bits & 0x7FFF) << 13)
        special = i32.ge_u(magnitude, 0x7C00 << 13)
        # The exponent of f32 is that of float16 and 112: right for subnormals too.
        finite = i32.reinterpret_f32(f32.reinterpret_i32(magnitude) * 2.0**112)
        value = f.select(special, magnitude | _INFINITY, finite)
        f.return_(f32.reinterpret_i32(value | ((f.bits & 0x8000) << 16)))
    return f


def float16_bits(m: Module) -> Function:
    """float16's bits of an f32 that float16 can hold."""
    with m.function("float16_bits", {"x": f32}, [i32]) as f:
        bits = f.let(i32.reinterpret_f32(f.x))
        magnitude = f.let(bits & _MAGNITUDE)
        subnormal = i32.trunc_sat_f32_u(f32.abs(f.x) * 2.0**24)
        normal = i32.shr_u(magnitude - (112 << 23), 13)
        special = f.select(i32.gt_u(magnitude, _INFINITY), 0x7E00, i32.const(0x7C00))
        finite = f.select(i32.lt_u(magnitude, 113 << 23), subnormal, normal)
        code = f.select(i32.ge_u(magnitude, 143 << 23), special, finite)
        f.return_(code | (i32.shr_u(bits, 16) & 0x8000))
    return f


def float16_round(m: Module) -> Function:
    """An f32 rounded to what float16 can hold."""
    with m.function("float16_round", {"x": f32}, [f32]) as f:
        magnitude = f.let(f32.abs(f.x))
        exponent = f.let(i32.reinterpret_f32(magnitude) & _INFINITY)
        least = f.select(i32.gt_u(exponent, 113 << 23), exponent, i32.const(113 << 23))
        # Adding 2**13 times the leading bit pushes out all bits but float16's.
        push = f.let(f32.reinterpret_i32(least + (13 << 23)))
        rounded = f.select(magnitude >= 65520.0, f32.const(float("inf")), magnitude + push - push)
        f.return_(f32.copysign(rounded, f.x))
    return f


def bfloat16_round(m: Module) -> Function:
    """An f32 rounded to what bfloat16 can hold."""
    with m.function("bfloat16_round", {"x": f32}, [f32]) as f:
        bits = f.let(i32.reinterpret_f32(f.x))
        even = i32.shr_u(bits, 16) & 1
        rounded = f.select(f.x != f.x, bits | (1 << 22), bits + 0x7FFF + even)
        f.return_(f32.reinterpret_i32(rounded & 0xFFFF0000))
    return f


def float32_odd(m: Module) -> Function:
    """An f64 as an f32, rounded to odd where it is inexact: rounding that once more is as good as rounding once."""
    with m.function("float32_odd", {"x": f64}, [f32]) as f:
        near = f.let(f32.demote_f64(f.x))
        bits = f.let(i32.reinterpret_f32(near))
        away = f64.abs(f64.promote_f32(near)) > f64.abs(f.x)
        odd = f.select(away, bits - 1, bits) | 1
        inexact = (f64.promote_f32(near) != f.x) & (f32.abs(near) < float("inf"))
        f.return_(f32.reinterpret_i32(f.select(inexact, odd, bits)))
    return f


HELPERS: dict[str, Callable[[Module], Function]] = {
    function.__name__: function
    for function in (float16_value, float16_bits, float16_round, bfloat16_round, float32_odd)
}
