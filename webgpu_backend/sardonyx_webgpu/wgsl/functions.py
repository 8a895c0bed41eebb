"""Scalar functions in WGSL: for each family of dtypes a table with a row per function, and one of conversions.

Rows are templates of operands. The functions that they call are in prelude/, or come from
`sardonyx.code.transcendental` (`written`), which has those that WGSL lacks or whose accuracy it leaves open.
"""

from __future__ import annotations

from sardonyx import errors
from sardonyx.code import scalar, transcendental
from sardonyx.code.approximation import Approximation
from sardonyx_webgpu.wgsl.values import Kind, bare, fill, kind, literal

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_ORDER = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _infix(table: dict[str, str]) -> dict[str, str]:
    return {name: f"({{0}} {symbol} {{1}})" for name, symbol in table.items()}


def _same(*names: str) -> dict[str, str]:
    return {name: f"{name}({{0}})" for name in names}


_WHERE = {"where": "select({2}, {1}, {0})"}

_FLOAT = {
    **_infix(_OPERATORS | _ORDER),
    **_WHERE,
    **_same("abs", "floor", "ceil", "trunc", "round"),
    "sqrt": "float_sqrt({0})",
    "div": "float_div({0}, {1})",
    "min": "float_min({0}, {1})",
    "max": "float_max({0}, {1})",
    "ne": "!({0} == {1})",  # compilers make `!=` false for NaN
    "neg": "(-{0})",
    "sign": "float_sign({0})",
    "isnan": "is_nan({0})",
    "isinf": "is_inf({0})",
}

_INT = {
    **_infix(_OPERATORS | _ORDER | {"ne": "!="}),
    **_WHERE,
    **_same("abs", "sign"),
    "div": "int_div({0}, {1})",
    "rem": "int_rem({0}, {1})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "shl": "int_shl({0}, {1}, {bits}u)",
    "shr": "int_shr({0}, {1}, {bits}u)",
    "not": "(~{0})",
    "neg": "(-{0})",
}

_UINT = _INT | {
    "div": "uint_div({0}, {1})",
    "rem": "uint_rem({0}, {1})",
    "shl": "uint_shl({0}, {1}, {bits}u)",
    "shr": "uint_shr({0}, {1}, {bits}u)",
    "neg": "(0u - {0})",
    "abs": "{0}",
    "sign": "min({0}, 1u)",
}

_BOOL = {
    **_infix({"and": "&", "or": "|", "xor": "!=", "eq": "==", "ne": "!="}),
    **_WHERE,
    "lt": "(!{0} & {1})",
    "le": "(!{0} | {1})",
    "gt": "({0} & !{1})",
    "ge": "({0} | !{1})",
    "not": "(!{0})",
}

_WORDS = {
    **_infix({"and": "&", "or": "|", "xor": "^"}),
    **_WHERE,
    "add": "u64_add({0}, {1})",
    "sub": "u64_sub({0}, {1})",
    "mul": "u64_mul({0}, {1})",
    "shl": "u64_shl({0}, u64_distance({1}))",
    "eq": "all({0} == {1})",
    "ne": "any({0} != {1})",
    "not": "(~{0})",
    "neg": "u64_neg({0})",
}

_I64 = _WORDS | {
    "div": "i64_div({0}, {1})",
    "rem": "i64_rem({0}, {1})",
    "min": "i64_min({0}, {1})",
    "max": "i64_max({0}, {1})",
    "shr": "i64_shr({0}, u64_distance({1}))",
    "lt": "i64_lt({0}, {1})",
    "le": "!i64_lt({1}, {0})",
    "gt": "i64_lt({1}, {0})",
    "ge": "!i64_lt({0}, {1})",
    "abs": "i64_abs({0})",
    "sign": "i64_sign({0})",
}

_U64 = _WORDS | {
    "div": "u64_div({0}, {1})",
    "rem": "u64_rem({0}, {1})",
    "min": "u64_min({0}, {1})",
    "max": "u64_max({0}, {1})",
    "shr": "u64_shr({0}, u64_distance({1}))",
    "lt": "u64_lt({0}, {1})",
    "le": "!u64_lt({1}, {0})",
    "gt": "u64_lt({1}, {0})",
    "ge": "!u64_lt({0}, {1})",
    "abs": "{0}",
    "sign": "vec2<u32>(u32(any({0} != vec2<u32>(0u, 0u))), 0u)",
}

FUNCTIONS = {"float": _FLOAT, "int": _INT, "uint": _UINT, "bool": _BOOL, "i64": _I64, "u64": _U64}
"""Family of the operands -> function -> template."""

_EXACT = {"and", "or", "xor", "shr", "rem", "min", "max", "where", "sign", "floor", "ceil", "trunc", "round"}
_EXACT_FLOAT = _EXACT | {"neg", "abs"}

CONVERSIONS: dict[str, dict[str, str]] = {
    "float": {
        "float": "{0}",
        "int": "int_of_float({0})",
        "uint": "uint_of_float({0})",
        "bool": "float_truth({0})",
        "i64": "i64_of_float({0})",
        "u64": "u64_of_float({0})",
    },
    "int": {
        "float": "f32({0})",
        "int": "{0}",
        "uint": "bitcast<u32>({0})",
        "bool": "({0} != 0)",
        "i64": "i64_of_int({0})",
        "u64": "i64_of_int({0})",
    },
    "uint": {
        "float": "float_of_uint({0})",
        "int": "bitcast<i32>({0})",
        "uint": "{0}",
        "bool": "({0} != 0u)",
        "i64": "vec2<u32>({0}, 0u)",
        "u64": "vec2<u32>({0}, 0u)",
    },
    "bool": {
        "float": "f32({0})",
        "int": "i32({0})",
        "uint": "u32({0})",
        "bool": "{0}",
        "i64": "vec2<u32>(u32({0}), 0u)",
        "u64": "vec2<u32>(u32({0}), 0u)",
    },
    "i64": {
        "float": "float_of_i64({0})",
        "int": "bitcast<i32>({0}.x)",
        "uint": "{0}.x",
        "bool": "any({0} != vec2<u32>(0u, 0u))",
        "i64": "{0}",
        "u64": "{0}",
    },
}
CONVERSIONS["u64"] = CONVERSIONS["i64"] | {"float": "float_of_u64({0})"}


def written(function: str, dtype: str) -> Approximation | None:
    """The function that shaders bring along for this one: narrow floats use that of float32."""
    return transcendental.function(function, "float32" if kind(dtype).family == "float" else dtype)


def apply(function: str, dtype: str, of: str, operands: list[str]) -> str:
    """A scalar function of operands, the last of dtype `of`, as an expression of `dtype`."""
    result, held = kind(dtype), kind(of)
    own = written(function, of)
    zero = _zero(function, operands) if held.family == "float" else ""
    if zero:
        text = zero
    elif own is not None:
        text = f"{own.name}({', '.join(map(bare, operands))})"
    elif function in FUNCTIONS[held.family]:
        text = fill(FUNCTIONS[held.family][function], *operands, bits=held.bits)
    else:
        kinds = ", ".join(sorted(scalar.FUNCTIONS[function].kinds))
        raise errors.NotImplemented(f"{function} takes {kinds}, not {of}")
    exact = _EXACT_FLOAT if held.family == "float" else _EXACT
    return text if function in exact or result.family == "bool" else result.fitted(text)


_ZEROS = {literal("float32", 0.0): "", literal("float32", -0.0): "-"}
"""Zeros as shaders write them, and their signs."""


def _zero(function: str, operands: list[str]) -> str:
    """What compilers take for zero, though infinity and NaN make it NaN; empty if it is something else."""
    if function not in ("mul", "div", "add", "sub"):
        return ""
    x, y = operands
    if function == "mul" and {x, y} & {*_ZEROS}:
        zero, factor = (x, y) if x in _ZEROS else (y, x)
        return fill(f"{_ZEROS[zero]}float_zero({{0}})", factor)
    if function == "div" and x in _ZEROS:
        return fill(f"{_ZEROS[x]}float_zero(1.0f / {{0}})", y)
    if y == {"sub": x, "add": f"(-{x})"}.get(function):
        return fill("abs(float_zero({0}))", x)
    return ""


def cast(dtype: str, of: str, x: str) -> str:
    """The conversion of an expression of dtype `of`."""
    result, held = kind(dtype), kind(of)
    text = fill(CONVERSIONS[held.family][result.family], x)
    if held.family == "float" and result.family == "int" and result.bits < 32:
        return f"clamp({text}, {-(1 << (result.bits - 1))}, {(1 << (result.bits - 1)) - 1})"
    if held.family == "float" and result.family == "uint" and result.bits < 32:
        return f"min({text}, {(1 << result.bits) - 1}u)"
    return text if _holds(result, held) else result.fitted(text)


def _holds(wide: Kind, narrow: Kind) -> bool:
    """Whether every value of one dtype is one of the other, both in the same family."""
    if wide.family != narrow.family:
        return narrow.family == "bool"
    return wide.dtype == narrow.dtype or wide.bits == 32 or (wide.family != "float" and wide.bits >= narrow.bits)


def bitcast(dtype: str, of: str, x: str) -> str:
    """The same bits as a value of another dtype of the same width."""
    result, held = kind(dtype), kind(of)
    if held.bits == result.bits == 32:
        return fill(f"bitcast<{result.wgsl}>({{0}})", x)
    bits = held.to_bits(x)
    if held.family == "int" and held.stored < 32:
        bits = f"({bits} & {(1 << held.stored) - 1:#x}u)"
    return result.from_bits(bits)
