"""The instructions against wasmtime: its text parser for encodings, NumPy for what they compute."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import wasmtime
from numpy.testing import assert_array_equal

from sardonyx_wasm.assembler import Module
from sardonyx_wasm.assembler.expression import TYPES, i32, op
from sardonyx_wasm.assembler.opcodes import INSTRUCTIONS, Instruction
from tests.wasm.programs import Array, Program

LANES = {"i8x16": "i1", "i16x8": "i2", "i32x4": "i4", "i64x2": "i8", "f32x4": "f4", "f64x2": "f8"}
SCALARS = {"i32": "i4", "i64": "i8", "f32": "f4", "f64": "f8"}
DTYPES = LANES | SCALARS


def elementwise(name: str, out: str, *inputs: Array) -> Array:
    """One instruction over whole arrays, loaded as what it takes and stored as `out`; vectors walk 16 bytes a turn."""
    instruction = INSTRUCTIONS[name]
    addresses = [8192 * (1 + k) for k in range(len(inputs))]
    sizes = [TYPES[t].size for t in (*instruction.operands, out)]
    turns = inputs[0].nbytes // sizes[0]
    m = Module()
    with m.function("f", {}, export=True) as f:
        i = f.local(i32)
        with f.loop(i, 0, turns):
            operands = [TYPES[t].load(i * TYPES[t].size + a) for t, a in zip(instruction.operands, addresses)]
            f.store(i * TYPES[out].size, op(name, *operands))
    program = Program(m)
    for address, values in zip(addresses, inputs):
        program.memory[address : address + values.nbytes] = values.view("u1")
    program.call("f")
    return program.memory[: turns * TYPES[out].size].view(DTYPES[out]).copy()


def wat(instruction: Instruction, offset: int, align: int) -> str:
    spelled = {
        "memory": f"offset={offset} align={align}",
        "lane": "1",
        "lanes": " ".join(map(str, range(16, 32))),
        "index": "0",
        "zero": "",
    }
    types = [t if t in SCALARS else "v128" for t in (*instruction.operands, instruction.result)]
    result = "" if instruction.result == "void" else f"(result {types[-1]})"
    gets = " ".join(f"local.get {k}" for k in range(len(instruction.operands)))
    body = f"{gets} {instruction.name} {' '.join(spelled[kind] for kind in instruction.immediates)}"
    return f"(func {' '.join(f'(param {t})' for t in types[:-1])} {result} {body})"


def code_section(module: bytes) -> bytes:
    def uleb(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (module[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if module[at - 1] < 0x80:
                return value, at

    at = 8
    while at < len(module):
        number = module[at]
        size, at = uleb(at + 1)
        if number == 10:
            return bytes(module[at : at + size])
        at += size
    raise AssertionError("no code section")


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_encodings_are_those_of_wasmtimes_text_parser(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    offset, align = 300, instruction.width if "atomic" in name else min(instruction.width, 2)
    text = f'(module (memory 1 1 shared) (table 1 funcref) (data "x") (elem func) {wat(instruction, offset, align)})'
    given: dict[str, Any] = {"lane": 1, "lanes": list(range(16, 32)), "index": 0}
    given = {kind: given[kind] for kind in instruction.immediates if kind in given}
    if "memory" in instruction.immediates:
        given |= {"offset": offset, "align": align}
    m = Module()
    results = [] if instruction.result == "void" else [TYPES[instruction.result]]
    with m.function("f", {f"p{k}": TYPES[t] for k, t in enumerate(instruction.operands)}, results) as f:
        f.do(op(name, *f.params, **given))
    expected = code_section(bytes(wasmtime.wat2wasm(text)))
    # ours drops the result, and ends in `unreachable` where a result was promised
    tail = b"\x1a\x00\x0b" if results else b"\x0b"
    assert code_section(m.to_bytes())[3:] == expected[3:].removesuffix(b"\x0b") + tail


INTEGERS = [0, 1, 2, 3, 5, 31, 63, 100, -1, -2, -77, 2**31 - 1, -(2**31), 123456789, -987654321, 7]


def integers(dtype: str) -> tuple[Array, Array]:
    x = np.array(INTEGERS * 16, "i8").astype(dtype)
    y = np.repeat(np.array(INTEGERS, "i8"), 16).astype(dtype)
    return x, y


def unsigned(x: Array) -> Array:
    return x.view(x.dtype.str.replace("i", "u"))


def rotate(x: Array, y: Array, left: bool) -> Array:
    bits = x.itemsize * 8
    left_by = unsigned(y) % np.array(bits, unsigned(y).dtype)
    left_by = left_by if left else (bits - left_by) % bits
    return np.where(left_by == 0, unsigned(x), unsigned(x) << left_by | unsigned(x) >> (bits - left_by) % bits)


def truncated(divide: Callable[[int, int], int]) -> Callable[[Array, Array], Array]:
    return lambda x, y: np.array([divide(int(a), int(b)) for a, b in zip(x, y)], "i8")


def count(x: Array, what: Callable[[str], int]) -> Array:
    return np.array([what(format(int(v), f"0{x.itemsize * 8}b")) for v in unsigned(x)])


BINARY_INTEGER: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": lambda x, y: x << y % (8 * x.itemsize), "shr_s": lambda x, y: x >> y % (8 * x.itemsize),
    "shr_u": lambda x, y: unsigned(x) >> unsigned(y) % np.array(8 * x.itemsize, unsigned(x).dtype),
    "rotl": lambda x, y: rotate(x, y, True), "rotr": lambda x, y: rotate(x, y, False),
    "eq": np.equal, "ne": np.not_equal, "lt_s": np.less, "le_s": np.less_equal, "gt_s": np.greater,
    "ge_s": np.greater_equal,
    "lt_u": lambda x, y: unsigned(x) < unsigned(y), "le_u": lambda x, y: unsigned(x) <= unsigned(y),
    "gt_u": lambda x, y: unsigned(x) > unsigned(y), "ge_u": lambda x, y: unsigned(x) >= unsigned(y),
}  # fmt: skip
DIVISION: dict[str, Callable[[Array, Array], Array]] = {
    "div_s": truncated(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "rem_s": truncated(lambda a, b: int(math.fmod(a, b))),
    "div_u": lambda x, y: unsigned(x) // unsigned(y), "rem_u": lambda x, y: unsigned(x) % unsigned(y),
}  # fmt: skip
UNARY_INTEGER: dict[str, Callable[[Array], Array]] = {
    "clz": lambda x: count(x, lambda bits: len(bits) - len(bits.lstrip("0"))),
    "ctz": lambda x: count(x, lambda bits: len(bits) - len(bits.rstrip("0"))),
    "popcnt": lambda x: count(x, lambda bits: bits.count("1")),
    "extend8_s": lambda x: x.astype("i1"), "extend16_s": lambda x: x.astype("i2"),
    "extend32_s": lambda x: x.astype("i4"),
    "eqz": lambda x: x == 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize("name", [*BINARY_INTEGER, *DIVISION])
def test_scalar_integer_binary(kind: str, name: str) -> None:
    x, y = integers(SCALARS[kind])
    if name in DIVISION:
        defined = (y != 0) & ~((x == np.iinfo(x.dtype).min) & (y == -1))
        x, y = x[defined], y[defined]
    full = f"{kind}.{name}"
    expected = (BINARY_INTEGER | DIVISION)[name](x, y)
    result = INSTRUCTIONS[full].result
    assert_array_equal(elementwise(full, result, x, y), expected.astype(SCALARS[result]))


def existing(kinds: Iterable[str], names: Iterable[str]) -> list[str]:
    return [full for kind in kinds for name in names if (full := f"{kind}.{name}") in INSTRUCTIONS]


@pytest.mark.parametrize("full", existing(["i32", "i64"], UNARY_INTEGER))
def test_scalar_integer_unary(full: str) -> None:
    kind, name = full.split(".")
    x, _ = integers(SCALARS[kind])
    assert_array_equal(elementwise(full, INSTRUCTIONS[full].result, x), UNARY_INTEGER[name](x).astype("i8"))


FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 0.1, -3.7, 1e-30, 1e30, math.inf, -math.inf, math.nan, 123456.789]
UNARY_FLOAT: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs, "neg": np.negative, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "nearest": np.rint,
    "sqrt": np.sqrt,
}  # fmt: skip
BINARY_FLOAT: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
    "copysign": np.copysign, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "gt": np.greater, "le": np.less_equal,
    "ge": np.greater_equal,
}  # fmt: skip


def floats(dtype: str) -> tuple[Array, Array]:
    return np.array(FLOATS * 16, dtype), np.repeat(np.array(FLOATS, dtype), 16)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("full", existing(["f32", "f64", "f32x4", "f64x2"], [*UNARY_FLOAT, *BINARY_FLOAT]))
def test_float(full: str) -> None:
    kind, name = full.split(".")
    inputs = floats(DTYPES[kind])[: len(INSTRUCTIONS[full].operands)]
    expected = np.asarray((UNARY_FLOAT | BINARY_FLOAT)[name](*inputs))
    actual = elementwise(full, INSTRUCTIONS[full].result, *inputs)
    if expected.dtype == bool:
        expected = -expected.astype(actual.dtype) if kind in LANES else expected.astype(actual.dtype)
    assert_array_equal(actual, expected)


def saturated(x: Array, dtype: str) -> Array:
    info = np.iinfo(dtype)
    exact = [0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x]
    return np.array(exact, dtype)


CONVERSIONS = [name for name in INSTRUCTIONS if re.match(r"[if]\d\d\.(trunc|convert|extend|wrap)_", name)]


@pytest.mark.parametrize("name", CONVERSIONS)
def test_scalar_conversion(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    source, target, signed = SCALARS[instruction.operands[0]], instruction.result, not name.endswith("_u")
    to = SCALARS[target] if signed else SCALARS[target].replace("i", "u")
    if "trunc" in name:
        values = [0.0, 0.9, 1.0, 3.5, 1e6, 2147483520.0]
        values += [-0.9, -1.0, -100.7] if signed else []
        values += [-5.0, 1e30, math.inf, -math.inf, math.nan] if "sat" in name else []
        x = np.array(values, source)
        expected = saturated(x, to)
    else:
        x, _ = integers(source)
        expected = (x if signed else unsigned(x)).astype(to)
    actual = elementwise(name, target, x)
    assert_array_equal(actual.view(to), expected)


def test_float_widths_and_bit_patterns() -> None:
    x, _ = floats("f8")
    y, _ = floats("f4")
    assert_array_equal(elementwise("f32.demote_f64", "f32", x), x.astype("f4"))
    assert_array_equal(elementwise("f64.promote_f32", "f64", y), y.astype("f8"))
    assert_array_equal(elementwise("i32.reinterpret_f32", "i32", y), y.view("i4"))
    assert_array_equal(elementwise("f32.reinterpret_i32", "f32", y.view("i4")).view("i4"), y.view("i4"))
    assert_array_equal(elementwise("i64.reinterpret_f64", "i64", x), x.view("i8"))
    assert_array_equal(elementwise("f64.reinterpret_i64", "f64", x.view("i8")).view("i8"), x.view("i8"))


def lanes(dtype: str, seed: int = 1) -> Array:
    """256 bytes of every magnitude, with the extremes."""
    info = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(info.min, info.max, 256 // np.dtype(dtype).itemsize, dtype, True)
    values[:6] = [0, 1, -1, info.max, info.min, info.max - 1]
    return np.roll(values, seed)


def wide(x: Array) -> Array:
    return x.astype("i8")


def clipped(x: Array, dtype: str) -> Array:
    return np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


SIMD_INTEGER: dict[str, Callable[..., Array]] = {
    name: reference for name, reference in BINARY_INTEGER.items() if name[:2] not in ("sh", "ro", "an", "or", "xo")
} | {
    "abs": np.abs, "neg": np.negative, "min_s": np.minimum, "max_s": np.maximum,
    "min_u": lambda x, y: np.minimum(unsigned(x), unsigned(y)),
    "max_u": lambda x, y: np.maximum(unsigned(x), unsigned(y)),
    "add_sat_s": lambda x, y: clipped(wide(x) + wide(y), x.dtype.str),
    "sub_sat_s": lambda x, y: clipped(wide(x) - wide(y), x.dtype.str),
    "add_sat_u": lambda x, y: clipped(wide(unsigned(x)) + wide(unsigned(y)), unsigned(x).dtype.str),
    "sub_sat_u": lambda x, y: clipped(wide(unsigned(x)) - wide(unsigned(y)), unsigned(x).dtype.str),
    "avgr_u": lambda x, y: (wide(unsigned(x)) + wide(unsigned(y)) + 1) // 2,
    "q15mulr_sat_s": lambda x, y: clipped((wide(x) * wide(y) + 0x4000) >> 15, "i2"),
    "dot_i16x8_s": lambda x, y: (wide(x) * wide(y)).reshape(-1, 2).sum(1),
    "popcnt": lambda x: count(x, lambda bits: bits.count("1")),
}  # fmt: skip


@pytest.mark.parametrize("full", existing(["i8x16", "i16x8", "i32x4", "i64x2"], SIMD_INTEGER))
def test_simd_integer(full: str) -> None:
    instruction, (kind, name) = INSTRUCTIONS[full], full.split(".")
    inputs = [lanes(LANES[t], seed) for seed, t in enumerate(instruction.operands, 1)]
    expected = np.asarray(SIMD_INTEGER[name](*inputs))
    expected = -expected.astype("i1") if expected.dtype == bool else expected
    assert_array_equal(elementwise(full, kind, *inputs), expected.astype(LANES[kind]))


def rows(x: Array) -> Array:
    """One row for each vector of 16 bytes."""
    return x.reshape(-1, 16 // x.itemsize)


@pytest.mark.parametrize("full", [name for name in INSTRUCTIONS if re.search(r"x\d+\.ext(end|mul|add)_", name)])
def test_simd_widening(full: str) -> None:
    instruction = INSTRUCTIONS[full]
    inputs = [rows(lanes(LANES[t], seed)) for seed, t in enumerate(instruction.operands, 1)]
    values = [wide(unsigned(x) if full.endswith("_u") else x) for x in inputs]
    if "pairwise" in full:
        expected = values[0].reshape(-1, 2).sum(1)
    else:
        low, high = zip(*(np.split(v, 2, axis=1) for v in values))
        expected = np.prod(high if "high" in full else low, axis=0).ravel()
    flat = elementwise(full, instruction.result, *(x.ravel() for x in inputs))
    assert_array_equal(flat, expected.astype(LANES[instruction.result]))


@pytest.mark.parametrize("full", [name for name in INSTRUCTIONS if "narrow" in name])
def test_simd_narrowing(full: str) -> None:
    kind, source = full.split(".")[0], INSTRUCTIONS[full].operands[0]
    x, y = (rows(lanes(LANES[source], seed)) for seed in (1, 2))
    to = LANES[kind] if full.endswith("_s") else LANES[kind].replace("i", "u")
    expected = clipped(np.concatenate([x, y], axis=1), to)
    assert_array_equal(elementwise(full, kind, x.ravel(), y.ravel()).view(to), expected.ravel())


def test_simd_conversions() -> None:
    x = np.array([*FLOATS[:8], *FLOATS[8:], 3e9, -3e9, 1e20, 7.9], "f4")
    assert_array_equal(elementwise("i32x4.trunc_sat_f32x4_s", "i32x4", x), saturated(x, "i4"))
    assert_array_equal(elementwise("i32x4.trunc_sat_f32x4_u", "i32x4", x).view("u4"), saturated(x, "u4"))
    n = lanes("i4")
    assert_array_equal(elementwise("f32x4.convert_i32x4_s", "f32x4", n), n.astype("f4"))
    assert_array_equal(elementwise("f32x4.convert_i32x4_u", "f32x4", n), unsigned(n).astype("f4"))
    low = rows(n)[:, :2].ravel()
    assert_array_equal(elementwise("f64x2.convert_low_i32x4_s", "f64x2", n), low.astype("f8"))
    assert_array_equal(elementwise("f64x2.promote_low_f32x4", "f64x2", x), rows(x)[:, :2].ravel().astype("f8"))
    d = np.array([1.5, -2e300, math.nan, 3e9], "f8")
    assert_array_equal(rows(elementwise("f32x4.demote_f64x2_zero", "f32x4", d))[:, :2].ravel(), d.astype("f4"))
    assert_array_equal(rows(elementwise("i32x4.trunc_sat_f64x2_s_zero", "i32x4", d))[:, :2].ravel(), saturated(d, "i4"))


def test_simd_minimum_by_comparison() -> None:
    x, y = floats("f4")
    assert_array_equal(elementwise("f32x4.pmin", "f32x4", x, y), np.where(y < x, y, x))
    assert_array_equal(elementwise("f32x4.pmax", "f32x4", x, y), np.where(x < y, y, x))


def test_relaxed_simd() -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 64)).astype("f4")
    madd = elementwise("f32x4.relaxed_madd", "f32x4", x, y, z)
    np.testing.assert_allclose(madd, x.astype("f8") * y + z, rtol=0, atol=1e-6)
    nmadd = elementwise("f32x4.relaxed_nmadd", "f32x4", x, y, z)
    np.testing.assert_allclose(nmadd, -x.astype("f8") * y + z, rtol=0, atol=1e-6)
    assert_array_equal(elementwise("f32x4.relaxed_min", "f32x4", x, y), np.minimum(x, y))
    a, b, c = lanes("i1", 1), lanes("i1", 2) & 127, lanes("i4", 3)
    assert_array_equal(
        elementwise("i32x4.relaxed_dot_i8x16_i7x16_add_s", "i32x4", a, b, c),
        ((wide(a) * wide(b)).reshape(-1, 4).sum(1) + c).astype("i4"),
    )
