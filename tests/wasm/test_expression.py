"""Expressions: what they compute, by wasmtime, and the errors of those that mean nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx_wasm.assembler.expression import Expr, f32, f32x4, f64, i8x16, i16x8, i32, i32x4, i64, op, v128
from tests.wasm.programs import evaluate, stored


def test_lanes_move() -> None:
    first, second = i8x16.load(0), i8x16.load(16)
    order = [15, 31, 0, 16, *range(12)]
    assert_array_equal(stored(i8x16.shuffle(first, second, lanes=order)), order)
    reverse = i8x16.const(*range(15, 3, -1), 99, 16, 0, 1)
    assert_array_equal(stored(i8x16.swizzle(first, reverse))[10:], [5, 4, 0, 0, 0, 1])
    assert_array_equal(stored(i16x8.replace_lane(i16x8.load(0), 0x0102, lane=7))[12:], [12, 13, 2, 1])
    assert_array_equal(stored(v128.load8_lane(40, second, lane=1))[:3], [16, 40, 18])
    assert_array_equal(stored(i16x8.load8x8_u(3)).view("i2"), np.arange(3, 11))
    assert_array_equal(stored(f32x4.load32_splat(4)).reshape(4, 4), [[4, 5, 6, 7]] * 4)
    assert_array_equal(stored(i32x4.load64_zero(0))[8:], [0] * 8)
    assert_array_equal(stored(i32x4.splat(7) << 2).view("i4"), [28] * 4)
    assert_array_equal(stored(first.as_(v128).as_(i8x16) | 128), np.arange(16) + 128)
    mask = i8x16.load(0) > 7
    assert_array_equal(stored(i8x16.bitselect(second, first, mask)), [*range(8), *range(24, 32)])


def test_lanes_are_read_and_summarised() -> None:
    x = i32x4.const(1, -2, 0, 2**32 - 1)
    assert [evaluate(i32x4.extract_lane(x, lane=k)) for k in range(4)] == [1, -2, 0, -1]
    assert evaluate(i8x16.extract_lane_u(i8x16.const(-1), lane=15)) == 255
    assert evaluate(i32x4.bitmask(x)) == 0b1010
    assert (evaluate(i32x4.all_true(x)), evaluate(v128.any_true(x))) == (0, 1)


def test_constants_are_exact() -> None:
    def bits_of(value: Expr) -> Any:
        return evaluate((i32.reinterpret_f32 if value.type is f32 else i64.reinterpret_f64)(value))

    assert bits_of(f32.bits(0x7FC12345)) == 0x7FC12345
    assert bits_of(f64.bits(0x7FF8000000000001)) == 0x7FF8000000000001
    assert bits_of(f32.const(-0.0)) == -(2**31)
    assert evaluate(f64.const(-math.inf)) == -math.inf
    assert evaluate(f32.const(0.1)) == np.float32(0.1)
    assert evaluate(f32.const(float(np.float32(1e-45)))) == np.float32(1e-45)
    for value in (0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)):
        assert evaluate(i64.const(value)) == value
    assert evaluate(i64.const(2**64 - 1)) == evaluate(i32.const(2**32 - 1)) == -1
    assert evaluate(i32.const(0) + np.int64(5)) == 5
    assert_array_equal(stored(f32x4.const(1, 2, 3, -0.0)).view("f4"), [1, 2, 3, 0])
    assert_array_equal(stored(v128.bits(1 << 127)), [0] * 15 + [128])


def test_operators() -> None:
    x = i32.const(-7)
    assert evaluate(2 * x + 1 - x) == -6
    assert (evaluate(10 - x), evaluate(-x), evaluate(~x), evaluate(x >> 1), evaluate(x << 1)) == (17, 7, 6, -4, -14)
    assert (evaluate(x & 12), evaluate(x | 3), evaluate(x ^ 1), evaluate(x > 3), evaluate(x <= -7)) == (8, -5, -8, 0, 1)
    assert (evaluate(x == -7), evaluate(x != -7), evaluate(i32.gt_u(x, 5)), evaluate(i32.and_(x, 12))) == (1, 0, 1, 8)
    y = f64.const(-1.5)
    assert (evaluate(1 / y), evaluate(abs(y)), evaluate(-y), evaluate(y * 2 < 0)) == (1 / -1.5, 1.5, 1.5, 1)
    v = f32x4.const(1, -2, 3, -4)
    assert_array_equal(stored(abs(v) * 2 - 1).view("f4"), [1, 3, 5, 7])
    assert_array_equal(stored((v < 0) & v).view("f4"), [0, -2, 0, -4])
    assert_array_equal(stored(~(v < 0)).view("i4"), [-1, 0, -1, 0])


def test_a_deep_expression() -> None:
    total = i32.const(0)
    for _ in range(5000):
        total = total + 1
    assert evaluate(total) == 5000
    nested = i32.const(0)
    for _ in range(5000):
        nested = 1 + nested
    assert evaluate(nested) == 5000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: i32.const(1) + f32.const(1), "i32.add: operand 2 has type f32, expected i32"),
        (lambda: i32.const(1) + 0.5, "0.5 is no constant of type i32"),
        (lambda: f32x4.const(1) + i32x4.const(1), "f32x4.add: operand 2 has type i32x4, expected f32x4"),
        (lambda: f32.load(f32.const(1)), "f32.load: operand 1 has type f32, expected i32"),
        (lambda: i32.const(4) / 2, "i32 has no operator /; use i32.div_s or i32.div_u"),
        (lambda: i8x16.const(4) * 2, r"i8x16 has no operator \*"),
        (lambda: f32.const(4) & 2, "f32 has no operator &"),
        (lambda: op("f32x4.relaxed_madd", 1, 2), "f32x4.relaxed_madd takes 3 operands, not 2"),
        (lambda: f32.const(1).as_(i32x4), "f32 cannot be seen as i32x4"),
        (lambda: v128.const(1), "v128 has no constants"),
        (lambda: f32x4.extract_lane(f32x4.const(1)), "f32x4.extract_lane needs lane="),
        (lambda: f32.sqrt(1.0, offset=4), "f32.sqrt has no immediate 'offset'"),
        (lambda: 1 if i32.const(1) < 2 else 0, "no truth value"),
        (lambda: op("memory.fill", 0, 0, 0) + 1, "void has no operator"),
    ],
)
def test_type_errors_name_both_types(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: i32.const(2**32), "4294967296 does not fit i32"),
        (lambda: f32.const(1e39), "too large for f32"),
        (lambda: f32x4.const(1, 2), "f32x4.const takes 1 or 4 values, not 2"),
        (lambda: op("f32.frob"), "'f32.frob' is not an instruction"),
        (lambda: f32.load(0, align=8), "f32.load: align=8 is not a power of two up to 4"),
        (lambda: f32.load(0, offset=-4), "f32.load: offset=-4 is outside"),
        (lambda: f32x4.extract_lane(f32x4.const(1), lane=4), "f32x4.extract_lane: lane=4 is outside 0..3"),
        (lambda: v128.load32_lane(0, f32x4.const(1), lane=4), "v128.load32_lane: lane=4 is outside 0..3"),
        (lambda: i8x16.shuffle(i8x16.const(0), i8x16.const(0), lanes=[0] * 15), "are not 16 numbers"),
    ],
)
def test_value_errors_name_the_value(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_unknown_instructions_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="f32 has no instruction 'relaxed_madd'"):
        f32.relaxed_madd(1.0, 2.0, 3.0)
