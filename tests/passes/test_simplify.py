"""Rules that leave out what does nothing."""

import numpy as np
import pytest

from sardonyx.code.scalar import cast
from sardonyx.common import dtypes
from sardonyx.passes.simplify import (
    cast_like,
    cast_of_cast,
    cast_to_own_type,
    clip_of_relu,
    division_by_power_of_two,
    dropout,
    identity,
    keeps_all,
    neutral_operand,
    product_of_reciprocal,
    scalar_bounds,
    scalar_constant,
    shape_of_cast,
    sum_of_two,
    variadic_of_one,
    where_decided,
    where_not,
)
from tests.passes.checking import check

X = "float32[2,N] x"

CASES = {
    "identity": (identity, X, "h = Identity(x) y = Relu(h)", "y = Relu(x)"),
    "identity of an input": (identity, X, "y = Identity(x)", None),
    "dropout": (dropout, X, "h = Dropout(x) y = Relu(h)", "y = Relu(x)"),
    "dropout, a rate": (dropout, X, "float32 r = 0.5 h, m = Dropout(x, r) y = Relu(h)", "y = Relu(x)"),
    "dropout, whose mask is used": (dropout, X, "h, m = Dropout(x) c = Cast<to = 1>(m) y = Add(h, c)", None),
    "concat": (variadic_of_one, X, "h = Concat<axis = 1>(x) y = Relu(h)", "y = Relu(x)"),
    "max": (variadic_of_one, X, "h = Max(x) y = Relu(h)", "y = Relu(x)"),
    "mean": (variadic_of_one, X, "h = Mean(x, x) y = Relu(h)", None),
    "sum": (sum_of_two, f"{X}, float32[N] z", "y = Sum(x, z)", "y = Add(x, z)"),
    "sum of three": (sum_of_two, X, "y = Sum(x, x, x)", None),
    "cast": (cast_to_own_type, X, "h = Cast<to = 1>(x) y = Relu(h)", "y = Relu(x)"),
    "cast to another type": (cast_to_own_type, X, "y = Cast<to = 7>(x)", None),
    "cast of cast": (cast_of_cast, "int32[3] x", "h = Cast<to = 7>(x) y = Cast<to = 1>(h)", "y = Cast<to = 1>(x)"),
    "cast of bool": (cast_of_cast, "bool[3] x", "h = Cast<to = 1>(x) y = Cast<to = 9>(h)", "y = Cast<to = 9>(x)"),
    "cast that loses": (cast_of_cast, X, "h = Cast<to = 10>(x) y = Cast<to = 1>(h)", None),
    "cast that wraps": (cast_of_cast, "int32[3] x", "h = Cast<to = 11>(x) y = Cast<to = 3>(h)", None),
    "cast to text": (cast_of_cast, "bool[3] x", "h = Cast<to = 1>(x) t = Cast<to = 8>(h) y = Shape(t)", None),
    "cast like": (cast_like, f"int64[4] z, {X}", "y = CastLike(x, z)", "y = Cast<to = 7>(x)"),
    "cast like, not saturated": (
        cast_like,
        f"float8e5m2[4] z, {X}",
        "y = CastLike<saturate = 0>(x, z)",
        "y = Cast<saturate = 0, to = 19>(x)",
    ),
    "division": (
        product_of_reciprocal,
        f"{X}, float32[N] z",
        "float32 o = 1 r = Div(o, z) y = Mul(r, x)",
        "y = Div(x, z)",
    ),
    "relu and clip": (
        clip_of_relu,
        X,
        "float32 a = -1 float32 b = 6 r = Relu(x) y = Clip(r, a, b)",
        "float32 a = 0 float32 b = 6 y = Clip(x, a, b)",
    ),
    "relu and clip above": (
        clip_of_relu,
        X,
        "float32 a = 1 r = Relu(x) y = Clip(r, a)",
        "float32 a = 1 y = Clip(x, a)",
    ),
    "relu and a clip that is fed": (clip_of_relu, f"{X}, float32 a", "r = Relu(x) y = Clip(r, a)", None),
    "where not": (
        where_not,
        f"bool[N] c, {X}",
        "n = Not(c) z = Neg(x) y = Where(n, x, z)",
        "z = Neg(x) y = Where(c, z, x)",
    ),
    "where, decided": (
        where_decided,
        X,
        "bool[2,1] c = {0, 0} z = Neg(x) u = Exp(x) w = Where(c, z, u) y = Relu(w)",
        "u = Exp(x) y = Relu(u)",
    ),
    "where, decided for what is broadcast": (
        where_decided,
        X,
        "bool[1] c = {1} float32[1] z = {3} w = Where(c, z, x) y = Relu(w)",
        None,
    ),
    "where, not decided": (where_decided, X, "bool[2,1] c = {0, 1} z = Neg(x) y = Where(c, z, x)", None),
    "shape of a cast": (shape_of_cast, X, "c = Cast<to = 7>(x) y = Shape<start = 1>(c)", "y = Shape<start = 1>(x)"),
    "scalar": (scalar_constant, X, "float32[1,1] c = {3} y = Mul(c, x)", "float32 c = 3 y = Mul(c, x)"),
    "scalar of higher rank": (scalar_constant, X, "float32[1,1,1] c = {3} y = Mul(c, x)", None),
    "scalar of unknown rank": (scalar_constant, "float32[...] x", "float32[1] c = {3} y = Mul(c, x)", None),
    "scalar, left": (scalar_constant, X, "float32[1] c = {3} y = Sub(c, x)", "float32 c = 3 y = Sub(c, x)"),
    "bounds": (
        scalar_bounds,
        X,
        "float32[1] a = {0} float32 b = 2 y = Clip(x, a, b)",
        "float32 a = 0 float32 b = 2 y = Clip(x, a, b)",
    ),
    "upper bound": (scalar_bounds, X, 'float32[1] b = {2} y = Clip(x, "", b)', 'float32 b = 2 y = Clip(x, "", b)'),
    "add": (neutral_operand, X, "float32 c = 0 h = Add(c, x) y = Relu(h)", "y = Relu(x)"),
    "subtract": (neutral_operand, X, "float32 c = 0 h = Sub(x, c) y = Relu(h)", "y = Relu(x)"),
    "subtract from 0": (neutral_operand, X, "float32 c = 0 h = Sub(c, x) y = Relu(h)", None),
    "multiply": (neutral_operand, "int32[3] x", "int32[3] c = {1, 1, 1} h = Mul(x, c) y = Neg(h)", "y = Neg(x)"),
    "divide": (neutral_operand, X, "float32 c = 1 h = Div(x, c) y = Relu(h)", "y = Relu(x)"),
    "power": (neutral_operand, X, "float32 c = 1 h = Pow(x, c) y = Relu(h)", "y = Relu(x)"),
    "multiply by 0": (neutral_operand, X, "float32 c = 0 h = Mul(x, c) y = Relu(h)", None),
    "add and stretch": (neutral_operand, "float32[1] x", "float32[2] c = {0, 0} h = Add(x, c) y = Relu(h)", None),
    "add to any rank": (neutral_operand, "float32[...] x", "float32[1] c = {0} h = Add(x, c) y = Relu(h)", None),
    "divide by 8": (division_by_power_of_two, X, "float32 c = 8 y = Div(x, c)", "float32 c = 0.125 y = Mul(x, c)"),
    "divide by 6": (division_by_power_of_two, X, "float32 c = 6 y = Div(x, c)", None),
    "divide by many": (
        division_by_power_of_two,
        "float32[2] x",
        "float32[2] c = {-0.5, 4} y = Div(x, c)",
        "float32[2] c = {-2, 0.25} y = Mul(x, c)",
    ),
    "divide by the smallest": (division_by_power_of_two, X, "float32 c = 1e-45 y = Div(x, c)", None),
    "divide by the largest": (division_by_power_of_two, X, "float32 c = 1.7014118346046923e38 y = Div(x, c)", None),
    "divide integers": (division_by_power_of_two, "int32[3] x", "int32 c = 2 y = Div(x, c)", None),
    "divide by 0": (division_by_power_of_two, X, "float32 c = 0 h = Div(x, c) y = IsNaN(h)", None),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case):
    check(*CASES[case])


@pytest.mark.parametrize("target", dtypes._NATIVE)
@pytest.mark.parametrize("source", dtypes._NATIVE)
def test_what_keeps_all_values_gives_them_back(source, target):
    if "string" in (source.kind, target.kind) or "complex" in (source.kind, target.kind):
        assert not keeps_all(source, target) or source is target or source is dtypes.bool_
        return
    if source.is_int:
        info = np.iinfo(source.storage)
        values = np.array([0, 1, info.max, info.min], source.storage)
    elif source is dtypes.bool_:
        values = np.array([False, True])
    else:
        info = np.finfo(source.storage)
        values = np.array([0.1, info.max, info.tiny, -1 / 3], source.storage)
    between = cast(values, target.storage)
    back = cast(between, source.storage)
    assert not keeps_all(source, target) or between.tolist() == back.tolist() == values.tolist()
