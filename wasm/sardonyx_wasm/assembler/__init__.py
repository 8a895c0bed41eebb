"""A WebAssembly assembler: functions are written as typed Python expressions and come out as bytes.

    m = Module()
    with m.function("saxpy", {"n": i32, "a": f32, "x": i32, "y": i32}, export=True) as f:
        at = f.local(i32)
        with f.loop(at, 0, f.n * 4, step=4):
            f.store(f.y + at, f.a * f32.load(f.x + at) + f32.load(f.y + at))
    m.to_bytes()

An expression is evaluated where it is used and as often as it is used: `f.let(expr)` evaluates it once, now. Statements
(`f.store`, `f.set`, `f.loop`, ...) are methods of the function that is being built.

What belongs here is WebAssembly's binary format alone; what the code computes, and for whom, is said elsewhere.
"""

from .expression import (
    TYPES,
    Expr,
    Operand,
    ValueType,
    Variable,
    f32,
    f32x4,
    f64,
    f64x2,
    i8x16,
    i16x8,
    i32,
    i32x4,
    i64,
    i64x2,
    op,
    v128,
    void,
)
from .function import Callee, Function, Label
from .module import Memory, Module

__all__ = [
    "TYPES",
    "Callee",
    "Expr",
    "Function",
    "Label",
    "Memory",
    "Module",
    "Operand",
    "ValueType",
    "Variable",
    "f32",
    "f32x4",
    "f64",
    "f64x2",
    "i8x16",
    "i16x8",
    "i32",
    "i32x4",
    "i64",
    "i64x2",
    "op",
    "v128",
    "void",
]
