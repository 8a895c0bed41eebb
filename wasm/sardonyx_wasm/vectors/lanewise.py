"""Scalar functions of vectors: `functions` lane by lane, with the same results; a table per family of dtypes.

A rule computes one v128; dtypes of 64 bits apply it to both halves, whose masks have 64 bits too. What SIMD lacks is
done by the scalars' rule for each lane; the functions of `code.strict` are evaluated on vectors as they stand, but
for the fused multiply-add of relaxed SIMD. Where that is, scalars are computed in a lane: all elements alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sardonyx import errors
from sardonyx.code import scalar
from sardonyx.code.approximation import Approximation, Beyond

from ..assembler import Callee, Expr, Function, f32x4, f64, f64x2, i8x16, i32x4, i64, i64x2, v128
from ..code import Unit
from ..scalars import functions
from ..scalars.values import Kind, kind, literal
from .conversion import fitted, from_doubles, to_doubles
from .lanes import (
    Choosing,
    Constant,
    Vector,
    VectorScope,
    Writer,
    chosen,
    collect,
    element,
    even_words,
    lanes,
    number,
    once,
    widened,
)

Rule: TypeAlias = Callable[..., Expr]
"""Takes the scope, the kind of the (last) operand and the operands, each one v128."""


def _plain(name: str) -> Rule:
    """The instruction of this name of the operands' lanes."""
    return lambda s, k, *x: getattr(lanes(k), name)(*x)


def _fitted(rule: Rule) -> Rule:
    """What may leave the range or the precision of narrow dtypes."""
    return lambda s, k, *x: fitted(s, k, rule(s, k, *x))


def _each(function: str) -> Rule:
    """The scalar function of each lane."""

    def rule(s: VectorScope, k: Kind, *operands: Expr) -> Expr:
        parts = [once(s, part) for part in operands]
        own = functions.written(function, k)
        results = []
        for at in range(2 if k.bits == 64 else 4):
            scalars = [element(k, part, at) for part in parts]
            results.append(s.written(own)(*scalars) if own else functions.apply(s, function, k, scalars))
        return collect(k, results)

    return rule


def _where(s: VectorScope, k: Kind, condition: Expr, yes: Expr, no: Expr) -> Expr:
    if _is_zero(yes):
        return lanes(k).andnot(no, condition)
    if _is_zero(no):
        return lanes(k).and_(yes, condition)
    return chosen(s, condition, yes, no)


def _is_zero(x: Expr) -> bool:
    """Whether all bits are known to be 0."""
    return isinstance(x, Constant) and x.number == 0 and math.copysign(1, x.number) > 0


# ---- floats


def _extreme(name: str) -> Rule:
    """Minimum or maximum; pmin and pmax are one instruction and hand on a NaN that is their first operand."""

    def rule(s: VectorScope, k: Kind, a: Expr, b: Expr) -> Expr:
        if isinstance(a, Constant):
            a, b = b, a
        if not isinstance(b, Constant) or math.isnan(b.number) or (b.number == 0 and not _is_zero(b)):
            return _plain(name)(s, k, a, b)
        result = _plain(f"p{name}")(s, k, a, b)
        return result + number(s, lanes(k), 0) if name == "max" and b.number == 0 else result  # not -0

    return rule


def _float_sign(s: VectorScope, k: Kind, x: Expr) -> Expr:
    x = once(s, x)
    size = once(s, abs(x))
    one = (x & number(s, lanes(k), -0.0)) | number(s, lanes(k), 1)
    return _where(s, k, size > number(s, lanes(k), 0), one, size)  # 0 and NaN are their own


def _isnan(s: VectorScope, k: Kind, x: Expr) -> Expr:
    x = once(s, x)
    return x != x


def _isinf(s: VectorScope, k: Kind, x: Expr) -> Expr:
    return abs(x) == number(s, lanes(k), math.inf)


# ---- integers


def _signed(name: str) -> Rule:
    """The instruction that ends in _s or _u; lanes of 64 bits have only the signed ones."""

    def rule(s: VectorScope, k: Kind, a: Expr, b: Expr) -> Expr:
        if k.bits == 64 and k.family == "uint":
            sign = number(s, i64x2, -1 << 63)
            a, b = a ^ sign, b ^ sign
        result: Expr = getattr(lanes(k), f"{name}_{'s' if k.bits == 64 else k.signed}")(a, b)
        return result

    return rule


def _choose(name: str, comparison: str) -> Rule:
    """The instruction, for 64 bits the first operand if the comparison holds, else the second."""

    def rule(s: VectorScope, k: Kind, a: Expr, b: Expr) -> Expr:
        if k.bits < 64:
            return _signed(name)(s, k, a, b)
        a, b = once(s, a), once(s, b)
        return _where(s, k, _signed(comparison)(s, k, a, b), a, b)

    return rule


def _divide(s: VectorScope, k: Kind, a: Expr, b: Expr) -> Expr:
    """Truncated, 0 by 0. A float of more than twice the bits never rounds a quotient up to the next integer."""
    if k.bits == 64:
        return _each("div")(s, k, a, b)
    a, b = once(s, a), once(s, b)
    if k.bits == 32:
        pairs = zip(to_doubles(k.signed, a), to_doubles(k.signed, b))
        quotient = from_doubles(k.signed, tuple(p / q for p, q in pairs))
    else:
        convert = getattr(f32x4, f"convert_i32x4_{k.signed}")
        quotient = getattr(i32x4, f"trunc_sat_f32x4_{k.signed}")(convert(a) / convert(b))
    if isinstance(b, Constant) and b.number not in (0, -1):
        return quotient
    if k.family == "int" and k.bits == 32:
        quotient = chosen(s, b == number(s, i32x4, -1), -a, quotient)  # 2**31 would saturate
    return quotient & (b != 0)


def _remainder(s: VectorScope, k: Kind, a: Expr, b: Expr) -> Expr:
    if k.bits == 64:
        return _each("rem")(s, k, a, b)
    a, b = once(s, a), once(s, b)
    return (a - _divide(s, k, a, b) * b) & (b != 0)


def _shift(name: str) -> Rule:
    def rule(s: VectorScope, k: Kind, a: Expr, amount: Expr) -> Expr:
        if not isinstance(amount, Constant):
            return _each(name)(s, k, a, amount)
        if not 0 <= amount.number < k.bits:
            return Constant(lanes(k), 0)
        return _plain("shl" if name == "shl" else f"shr_{k.signed}")(s, k, a, amount.number)

    return rule


def _abs(s: VectorScope, k: Kind, x: Expr) -> Expr:
    return x if k.family == "uint" else abs(x)


def _sign(s: VectorScope, k: Kind, x: Expr) -> Expr:
    x = once(s, x)
    return -(x != 0) if k.family == "uint" else (x < 0) - (x > 0)


def _complement(rule: Rule) -> Rule:
    return lambda s, k, *x: ~rule(s, k, *x)


def _swapped(rule: Rule) -> Rule:
    return lambda s, k, a, b: rule(s, k, b, a)


def _table(wrap: Callable[[Rule], Rule], *names: str) -> dict[str, Rule]:
    return {name: wrap(_plain(name)) for name in names}


def _same(rule: Rule) -> Rule:
    return rule


_BITS = _table(_same, "and", "or", "xor", "not")
_COMMON = _table(_fitted, "add", "sub", "mul") | _table(_same, "eq", "ne") | {"where": _where}
_INTEGER: dict[str, Rule] = _BITS | _COMMON | {
    "lt": _signed("lt"), "le": _signed("le"), "gt": _signed("gt"), "ge": _signed("ge"), "not": _fitted(_plain("not")),
    "div": _fitted(_divide), "rem": _remainder, "pow": _each("pow"), "min": _choose("min", "lt"),
    "max": _choose("max", "gt"), "shl": _fitted(_shift("shl")), "shr": _shift("shr"), "neg": _fitted(_plain("neg")),
    "abs": _fitted(_abs), "sign": _sign,
}  # fmt: skip
_FLOAT: dict[str, Rule] = _COMMON | _table(_fitted, "div", "sqrt") | _table(
    _same, "lt", "le", "gt", "ge", "neg", "abs", "floor", "ceil", "trunc"
) | {
    "round": _plain("nearest"), "min": _extreme("min"), "max": _extreme("max"), "sign": _float_sign,
    "isnan": _isnan, "isinf": _isinf, "rem": _each("rem"),
}  # fmt: skip
_AND_NOT = _plain("andnot")
_BOOL: dict[str, Rule] = _BITS | {
    "where": _where, "min": _BITS["and"], "max": _BITS["or"], "ne": _BITS["xor"], "eq": _complement(_BITS["xor"]),
    "gt": _AND_NOT, "le": _complement(_AND_NOT), "lt": _swapped(_AND_NOT), "ge": _complement(_swapped(_AND_NOT)),
}  # fmt: skip

FUNCTIONS: dict[str, dict[str, Rule]] = {
    "float": _FLOAT,
    "int": _INTEGER,
    "uint": _INTEGER,
    "bool": _BOOL,
    "bits": {"where": _where},
}
"""Family of the operands -> function -> rule."""


def apply(s: VectorScope, function: str, k: Kind, operands: Sequence[Vector]) -> Vector:
    """A scalar function of operands, the last of kind `k`."""
    if k.bits < 64:
        return (_part(s, function, k, [x for (x,) in operands]),)
    if function == "where":
        operands = [widened(s, *operands[0]), *operands[1:]]
    low, high = (_part(s, function, k, [x[half] for x in operands]) for half in range(2))
    return (even_words(low, high),) if scalar.FUNCTIONS[function].result == "bool" else (low, high)


def apply_each(s: VectorScope, function: str, k: Kind, copies: Sequence[Sequence[Vector]]) -> list[Vector]:
    """The function of several operands, step by step for all of them where it is written: steps of one wait for each
    other, those of different ones do not."""
    own = _own(function, k)
    if own is None or own.name not in _INLINE:
        return [apply(s, function, k, operands) for operands in copies]
    located = [[_located(s, x) for (x,) in operands] for operands in copies]
    results = written_inline(s, own, located)
    if own.beyond:
        far = s.written_beyond(own.beyond)
        results = [_or_beyond(s, own.beyond, far, x, y) for (x,), y in zip(located, results)]
    return [(fitted(s, k, result) if k.is_half else result,) for result in results]


def _part(s: VectorScope, function: str, k: Kind, operands: Sequence[Expr]) -> Expr:
    operands = [_located(s, x) for x in operands]
    if rule := FUNCTIONS[k.family].get(function):
        return rule(s, k, *operands)
    own = _own(function, k)
    if own is None:
        kinds = ", ".join(sorted(scalar.FUNCTIONS[function].kinds))
        raise errors.NotImplemented(f"{function} takes {kinds}, not {k.name}")
    if own.name in _INLINE:
        return apply_each(s, function, k, [[(x,) for x in operands]])[0][0]
    result = s.written_vector(own)(*operands)
    return fitted(s, k, result) if k.is_half else result


def _located(s: Writer, x: Expr) -> Expr:
    return s.constant(x) if isinstance(x, Constant) else x


def _own(function: str, k: Kind) -> Approximation | None:
    return None if function in FUNCTIONS[k.family] else functions.written(function, k)


# ---- written functions

WRITTEN = frozenset(["exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "pow"])
"""Functions of float32 that are worth their code wherever they are used: a call takes twice as long."""
_INLINE = {f"{name}_float32" for name in WRITTEN}


def written_inline(s: Writer, function: Approximation, copies: Sequence[Sequence[Expr]]) -> list[Expr]:
    """A Function without branches of v128, evaluated here for each of some operands."""
    known = [{name: once(s, x) for (name, _), x in zip(function.params, operands)} for operands in copies]
    for _, name, expression in function.body[:-1]:
        for variables in known:
            variables[name] = once(s, _value(s, expression, variables))
    return [_value(s, function.body[-1][1], variables) for variables in known]


def _or_beyond(s: Choosing, beyond: Beyond, far: Callee, x: Expr, y: Expr) -> Expr:
    """y, or what `write_beyond` makes of it where an x is large."""
    x, y = once(s, x), once(s, y)
    return s.if_expr(v128.any_true(_is_large(s, beyond, x)), far(x, y), y)


def _is_large(s: Writer, beyond: Beyond, x: Expr) -> Expr:
    return abs(x) > number(s, x.type, beyond.limit)


def write_beyond(unit: Unit, beyond: Beyond) -> Function:
    """Of x and y the v128 that has y where x is small, else the function of x, lane by lane."""
    far, k = unit.written(beyond.function), kind(beyond.function.dtype)
    params = {name: lanes(k) for name in "xy"}
    with unit.module.function(f"{beyond.function.name}_lanes", params, [lanes(k)]) as f:
        for at in range(128 // k.bits):
            x = f.let(element(k, f.x, at))
            with f.if_(abs(x) > beyond.limit):
                f.set(f.y, lanes(k).replace_lane(f.y, far(x), lane=at))
        f.return_(f.y)
    return f


def is_fused(features: frozenset[str]) -> bool:
    """Whether hosts with these features are to fuse products and sums of written functions."""
    return "relaxed-simd" in features


class _Straight:
    """A function without loops, where constants need no locals."""

    def __init__(self, f: Function, fused: bool) -> None:
        self.let, self.if_expr, self.fused = f.let, f.if_expr, fused

    def constant(self, value: Constant) -> Constant:
        return value

    def table(self, value: Expr) -> Expr:
        return value


def write_vector(unit: Unit, function: Approximation, far: Callee | None) -> Function:
    """A Function without branches as a function of the module that takes v128; `far` is `write_beyond`'s."""
    params = {name: lanes(kind(dtype)) for name, dtype in function.params}
    with unit.module.function(f"{function.name}_lanes", params, [lanes(kind(function.dtype))]) as f:
        s = _Straight(f, is_fused(unit.features))
        (y,) = written_inline(s, function, [f.params])
        f.return_(_or_beyond(s, function.beyond, far, f.params[0], y) if function.beyond and far else y)
    return f


def write_scalar(unit: Unit, function: Approximation) -> Function:
    """The same of scalars, with the bits that vectors get where they are fused."""
    params, k = {name: kind(dtype).type for name, dtype in function.params}, kind(function.dtype)
    with unit.module.function(function.name, params, [k.type]) as f:
        return_beyond(unit, f, function)
        operands: list[Expr] = [lanes(k).splat(x) for x in f.params]
        f.return_(element(k, written_inline(_Straight(f, True), function, [operands])[0], 0))
    return f


def return_beyond(unit: Unit, f: Function, function: Approximation) -> None:
    """Have a function of a scalar return what another one gives of a large operand, if there is such."""
    if function.beyond:
        far = unit.written(function.beyond.function)
        with f.if_(abs(*f.params) > function.beyond.limit):
            f.return_(far(*f.params))


def is_straight(function: Approximation) -> bool:
    """Whether a Function is one of floats without branches, whose values are all as wide."""
    floats = kind(function.dtype).family == "float"
    return floats and all(name == "let" and _converts(value) for name, _, value in function.body[:-1])


def _converts(expression: Any) -> bool:
    """Whether vectors have the casts in an expression."""
    function, dtype, *operands = expression
    known = function != "cast" or (dtype, operands[0][1]) in _CASTS
    return known and (function in ("const", "var", "pick") or all(map(_converts, operands)))


def _value(s: Writer, expression: Any, variables: dict[str, Expr]) -> Expr:
    """An expression of a body, whose values have all 32 bits or all 64."""
    function, dtype, *operands = expression
    k = kind(dtype)
    if function == "const":
        return number(s, lanes(k), literal(k, operands[0]).number)
    if function == "var":
        return variables[operands[0]]
    if function == "pick":
        return _pick(s, k, operands, variables)
    of = kind(operands[-1][1])
    if s.fused and of.family == "float" and (fused := _fused(s, function, operands, variables)) is not None:
        return fused
    values = [_value(s, operand, variables) for operand in operands]
    if function == "bitcast":
        return values[0].as_(lanes(k))
    if function == "cast":
        return _CASTS[dtype, of.name](s, *values)
    return FUNCTIONS[of.family][function](s, of, *values)


def _fused(s: Writer, function: str, operands: Sequence[Any], variables: dict[str, Expr]) -> Expr | None:
    """The sum or difference of a product and something else, None for what is neither."""
    products = [at for at, operand in enumerate(operands) if operand[0] == "mul"]
    if function not in ("add", "sub") or not products:
        return None
    at = products[-1]
    x, y, z = (_value(s, operand, variables) for operand in (*operands[at][2:], operands[1 - at]))
    if function == "sub" and at:
        return z.type.relaxed_nmadd(x, y, z)
    return z.type.relaxed_madd(x, y, z if function == "add" else -z)


def _pick(s: Writer, k: Kind, operands: Sequence[Any], variables: dict[str, Expr]) -> Expr:
    """From a vector of the numbers, byte by byte; relaxed or not, the same for every index that there is."""
    numbers, first, (_, _, name) = operands
    if (known := f"bytes {name}") not in variables:
        start = (0x03020100 - 0x04040404 * first + (1 << 31)) % (1 << 32) - (1 << 31)
        places = variables[name] * number(s, i32x4, 0x04040404) + number(s, i32x4, start)
        variables[known] = once(s, places.as_(i8x16))
    table = s.table(lanes(k).const(*numbers)).as_(i8x16)
    return (i8x16.relaxed_swizzle if s.fused else i8x16.swizzle)(table, variables[known]).as_(lanes(k))


def _double_to_long(s: Writer, x: Expr) -> Expr:
    x = once(s, x)
    return collect(kind("int64"), [i64.trunc_sat_f64_s(f64x2.extract_lane(x, lane=at)) for at in range(2)])


def _long_to_double(s: Writer, x: Expr) -> Expr:
    x = once(s, x)
    return collect(kind("float64"), [f64.convert_i64_s(i64x2.extract_lane(x, lane=at)) for at in range(2)])


_CASTS: dict[tuple[str, str], Callable[..., Expr]] = {
    ("int32", "float32"): lambda s, x: i32x4.trunc_sat_f32x4_s(x),
    ("float32", "int32"): lambda s, x: f32x4.convert_i32x4_s(x),
    ("int64", "float64"): _double_to_long,
    ("float64", "int64"): _long_to_double,
}
