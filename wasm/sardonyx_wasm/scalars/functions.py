"""Scalar functions in WebAssembly: for each family of dtypes a table with a row per function, and the conversions.

What instructions lack comes from `code.strict` (`written`), as functions of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sardonyx import errors
from sardonyx.code import scalar, strict
from sardonyx.code.approximation import Approximation

from ..assembler import Expr, f32, f64, i32, i64
from .values import Kind, Literal, Scope, fitted, from_bits, to_bits

Rule: TypeAlias = Callable[..., Expr]
"""Takes the scope, the kind of the (last) operand and the operands."""


def _plain(name: str) -> Rule:
    """The instruction of this name of the operands' type."""
    return lambda s, k, *x: getattr(k.type, name)(*x)


def _signed(name: str) -> Rule:
    """The instruction that ends in _s or _u."""
    return lambda s, k, *x: getattr(k.type, f"{name}_{k.signed}")(*x)


def _choose(comparison: str) -> Rule:
    """The first operand if the comparison holds, else the second."""

    def rule(s: Scope, k: Kind, a: Expr, b: Expr) -> Expr:
        a, b = s.let(a), s.let(b)
        return s.select(getattr(k.type, f"{comparison}_{k.signed}")(a, b), a, b)

    return rule


def _where(s: Scope, k: Kind, condition: Expr, yes: Expr, no: Expr) -> Expr:
    if k.family != "float" or s.predictable:
        return s.select(condition, yes, no)
    # Engines select floats by a branch, integers without one.
    if k.type is f64:
        return f64.reinterpret_i64(s.select(condition, i64.reinterpret_f64(yes), i64.reinterpret_f64(no)))
    return f32.reinterpret_i32(s.select(condition, i32.reinterpret_f32(yes), i32.reinterpret_f32(no)))


def _float_sign(s: Scope, k: Kind, x: Expr) -> Expr:
    x = s.let(x)
    one = k.type.copysign(k.type.const(1), x)
    return s.select(k.type.abs(x) > 0, one, k.type.abs(x))  # 0 and NaN are their own


def _isnan(s: Scope, k: Kind, x: Expr) -> Expr:
    x = s.let(x)
    return x != x


def _isinf(s: Scope, k: Kind, x: Expr) -> Expr:
    return k.type.abs(x) == float("inf")


def _divide(s: Scope, k: Kind, a: Expr, b: Expr) -> Expr:
    """Truncated; a * b stands in where the instruction would trap: by 0 it is 0, by -1 it wraps."""
    a, b = s.let(a), s.let(b)
    if _cannot_trap(b):
        return _signed("div")(s, k, a, b)
    if k.family == "uint":
        return s.if_expr(b != 0, k.type.div_u(a, b), k.type.const(0))
    return s.if_expr(_is_small(k, b), a * b, k.type.div_s(a, b))


def _remainder(s: Scope, k: Kind, a: Expr, b: Expr) -> Expr:
    b = s.let(b)
    if _cannot_trap(b):
        return _signed("rem")(s, k, a, b)
    if k.family == "uint":
        return s.if_expr(b != 0, k.type.rem_u(a, b), k.type.const(0))
    return s.if_expr(_is_small(k, b), k.type.const(0), k.type.rem_s(a, b))


def _is_small(k: Kind, x: Expr) -> Expr:
    """Whether x is -1 or 0."""
    return k.type.lt_u(x + 1, 2)


def _cannot_trap(divisor: Expr) -> bool:
    return isinstance(divisor, Literal) and divisor.number not in (0, -1)


def _shift(name: str) -> Rule:
    def rule(s: Scope, k: Kind, a: Expr, amount: Expr) -> Expr:
        amount = s.let(amount)
        shifted = (_signed if name == "shr" else _plain)(name)(s, k, a, amount)
        if isinstance(amount, Literal) and 0 <= amount.number < k.bits:
            return shifted
        return s.select(k.type.lt_u(amount, k.bits), shifted, k.type.const(0))

    return rule


def _not(s: Scope, k: Kind, x: Expr) -> Expr:
    return i32.eqz(x) if k.family == "bool" else x ^ -1


def _negate(s: Scope, k: Kind, x: Expr) -> Expr:
    return k.type.const(0) - x


def _abs(s: Scope, k: Kind, x: Expr) -> Expr:
    x = s.let(x)
    return x if k.family == "uint" else s.select(x < 0, 0 - x, x)


def _sign(s: Scope, k: Kind, x: Expr) -> Expr:
    x = s.let(x)
    positive = x != 0 if k.family == "uint" else (x > 0) - (x < 0)
    return i64.extend_i32_s(positive) if k.type is i64 else positive


_BITS = {name: _plain(name) for name in ("and", "or", "xor", "eq", "ne")} | {"where": _where, "not": _not}
_ORDER = {name: _signed(name) for name in ("lt", "le", "gt", "ge")}
_INTEGER: dict[str, Rule] = _BITS | _ORDER | {
    "add": _plain("add"), "sub": _plain("sub"), "mul": _plain("mul"), "div": _divide, "rem": _remainder,
    "min": _choose("lt"), "max": _choose("gt"), "shl": _shift("shl"), "shr": _shift("shr"), "neg": _negate,
    "abs": _abs, "sign": _sign,
}  # fmt: skip
_FLOAT_INSTRUCTIONS = (
    "add", "sub", "mul", "div", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "floor", "ceil",
    "trunc", "sqrt",
)  # fmt: skip
_FLOAT: dict[str, Rule] = {name: _plain(name) for name in _FLOAT_INSTRUCTIONS} | {
    "round": _plain("nearest"),
    "where": _where,
    "sign": _float_sign,
    "isnan": _isnan,
    "isinf": _isinf,
}

FUNCTIONS: dict[str, dict[str, Rule]] = {
    "float": _FLOAT,
    "int": _INTEGER,
    "uint": _INTEGER,
    "bool": _BITS | _ORDER | {"min": _plain("and"), "max": _plain("or")},
    "bits": {"where": _where},
}
"""Family of the operands -> function -> rule."""

_EXACT = {"and", "or", "xor", "shr", "rem", "min", "max", "where", "sign", "floor", "ceil", "trunc", "round"}
_EXACT_FLOAT = _EXACT | {"neg", "abs"}


def written(function: str, k: Kind) -> Approximation | None:
    """The function that a module brings along for this one: narrow floats use that of float32."""
    return strict.function(function, "float32" if k.is_half else k.name)


def apply(s: Scope, function: str, k: Kind, operands: Sequence[Expr]) -> Expr:
    """A scalar function of operands, the last of kind `k`."""
    rule = FUNCTIONS[k.family].get(function)
    if rule is None:
        kinds = ", ".join(sorted(scalar.FUNCTIONS[function].kinds))
        raise errors.NotImplemented(f"{function} takes {kinds}, not {k.name}")
    result = rule(s, k, *operands)
    exact = _EXACT_FLOAT if k.family == "float" else _EXACT
    return result if function in exact or scalar.FUNCTIONS[function].result == "bool" else fitted(s, k, result)


def bitcast(s: Scope, to: Kind, k: Kind, x: Expr) -> Expr:
    """The same bits as a value of another dtype of the same width."""
    if to.bits != k.bits:
        raise errors.NotImplemented(f"bitcast from {k.name} to {to.name}, which has another width")
    return from_bits(s, to, to_bits(s, k, x))


def cast(s: Scope, to: Kind, k: Kind, x: Expr) -> Expr:
    """A value of kind `k` converted: floats saturate to integers and NaN gives 0, integers wrap."""
    if "bits" in (to.family, k.family):
        raise errors.NotImplemented(f"cast from {k.name} to {to.name}; spell it with bitcast")
    if to.family == "bool":
        return x if k.family == "bool" else x != 0
    if to.family == "float":
        return _to_float(s, to, k, x)
    if k.family == "float":
        return _saturate(s, to, getattr(to.type, f"trunc_sat_{x.type}_{to.signed}")(x))
    if to.type is k.type:
        return fitted(s, to, x)
    return getattr(i64, f"extend_i32_{k.signed}")(x) if to.type is i64 else fitted(s, to, i32.wrap_i64(x))


def _to_float(s: Scope, to: Kind, k: Kind, x: Expr) -> Expr:
    if k.family != "float":
        return fitted(s, to, getattr(to.type, f"convert_{x.type}_{k.signed}")(x))
    if to.type is f64:
        return x if k.type is f64 else f64.promote_f32(x)
    if k.type is f64:
        return fitted(s, to, s.helper("float32_odd")(x)) if to.is_half else f32.demote_f64(x)
    return x if to.name in ("float32", k.name) else fitted(s, to, x)


def _saturate(s: Scope, to: Kind, x: Expr) -> Expr:
    """An i32 that has saturated to 32 bits, to fewer."""
    if to.bits >= 32:
        return x
    if to.family == "uint":
        return _choose("lt")(s, to, x, i32.const((1 << to.bits) - 1))
    limit = 1 << (to.bits - 1)
    return _choose("lt")(s, to, _choose("gt")(s, to, x, i32.const(-limit)), i32.const(limit - 1))
