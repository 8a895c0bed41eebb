"""The assembler against wasmtime: its text parser for encodings, NumPy for what the instructions compute."""

from __future__ import annotations

import atexit
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import wasmtime
from numpy.testing import assert_array_equal

from sardonyx_wasm.assembler import (
    TYPES,
    Expr,
    Memory,
    Module,
    f32,
    f32x4,
    f64,
    i8x16,
    i16x8,
    i32,
    i32x4,
    i64,
    op,
    v128,
)
from sardonyx_wasm.opcodes import INSTRUCTIONS, Instruction

Array = np.ndarray[Any, Any]
OWN_MEMORY = Memory(minimum=1, maximum=2, shared=True, import_from=None)
LANES = {"i8x16": "i1", "i16x8": "i2", "i32x4": "i4", "i64x2": "i8", "f32x4": "f4", "f64x2": "f8"}
SCALARS = {"i32": "i4", "i64": "i8", "f32": "f4", "f64": "f8"}
DTYPES = LANES | SCALARS


def engine() -> wasmtime.Engine:
    config = wasmtime.Config()
    config.shared_memory = True
    config.wasm_threads = True
    config.wasm_relaxed_simd = True
    return wasmtime.Engine(config)


ENGINE = engine()
atexit.register(ENGINE.close)  # wasmtime's finalizers fail once the interpreter has cleared its modules


class Program:
    """A module with a memory of its own, instantiated: `call` its functions, look at its `memory`."""

    def __init__(self, module: Module, imports: list[Any] | None = None, store: Any = None) -> None:
        self.store = store or wasmtime.Store(ENGINE)
        compiled = wasmtime.Module(ENGINE, module.to_bytes(OWN_MEMORY))
        self.exports: Mapping[str, Any] = wasmtime.Instance(self.store, compiled, imports or []).exports(self.store)

    def call(self, name: str, *arguments: float) -> Any:
        return self.exports[name](self.store, *arguments)

    @property
    def memory(self) -> Array:
        memory = self.exports["memory"]
        return np.ctypeslib.as_array(memory.data_ptr(), (memory.data_len(),))


def evaluate(expr: Expr) -> Any:
    """The value of an expression without variables."""
    m = Module()
    with m.function("f", {}, [expr.type], export=True) as f:
        f.return_(expr)
    return Program(m).call("f")


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


def stored(expr: Expr) -> Array:
    """The 16 bytes of a vector expression, over a memory that starts with 0, 1, 2, ..."""
    m = Module()
    with m.function("f", {}, export=True) as f:
        f.store(256, expr)
    program = Program(m)
    program.memory[:64] = np.arange(64)
    program.call("f")
    return program.memory[256:272].copy()


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


class TestControlFlow:
    def test_counted_loops_are_pythons_ranges(self) -> None:
        for start, stop, step in [(0, 5, 1), (0, 0, 1), (3, -3, 1), (0, 10, 4), (9, -1, -3), (-5, 5, 2), (0, 5, -1)]:
            m = Module()
            with m.function("f", {"start": i32, "stop": i32}, [i32], export=True) as f:
                i, seen = f.local(i32), f.local(i32)
                with f.loop(i, f.start, f.stop + 0, step=step):
                    f.set(seen, seen * 31 + i)
                f.return_(seen)
            expected = 0
            for value in range(start, stop, step):
                expected = expected * 31 + value
            assert Program(m).call("f", start, stop) == expected

    def test_addresses_above_two_gibibytes_loop_unsigned(self) -> None:
        m = Module()
        with m.function("f", {"start": i32, "stop": i32}, [i32], export=True) as f:
            p, turns = f.local(i32), f.local(i32)
            with f.loop(p, f.start, f.stop, step=16, unsigned=True):
                f.set(turns, turns + 1)
            f.return_(turns)
        assert Program(m).call("f", 2**31 - 32, -(2**31) + 32) == 4

    def test_nested_loops_with_break(self) -> None:
        m = Module()
        with m.function("count", {"n": i32}, [i32], export=True) as f:
            i, j, count = f.local(i32), f.local(i32), f.local(i32)
            with f.loop(i, 0, f.n) as outer, f.loop(j, 0, f.n) as inner:
                f.br_if(inner, j > i)
                f.br_if(outer, count == 20)
                f.set(count, count + 1)
            f.return_(count)
        assert [Program(m).call("count", n) for n in (0, 1, 4, 100)] == [0, 1, 10, 20]

    def test_while_if_else(self) -> None:
        m = Module()
        with m.function("collatz", {"n": i32}, [i32], export=True) as f:
            turns = f.local(i32)
            with f.while_(f.n != 1):
                with f.if_(f.n & 1):
                    f.set(f.n, 3 * f.n + 1)
                with f.else_():
                    f.set(f.n, f.n >> 1)
                f.set(turns, turns + 1)
            f.return_(turns)
        assert [Program(m).call("collatz", n) for n in (1, 2, 27)] == [0, 1, 111]

    def test_repeat_block_and_table(self) -> None:
        m = Module()
        with m.function("f", {"which": i32}, [i32], export=True) as f:
            result = f.local(i32, init=100)
            with f.block() as end:
                with f.block() as one:
                    with f.block() as zero:
                        f.br_table(f.which, [zero, one], end)
                    f.set(result, 10)
                    f.br(end)
                f.set(result, 11)
            with f.repeat() as again:
                f.set(result, result * 2)
                f.br_if(again, result < 1000)
            f.return_(result)
        assert [Program(m).call("f", k) for k in (0, 1, 2, -1)] == [1280, 1408, 1600, 1600]

    def test_if_expr_is_lazy_and_select_is_not(self) -> None:
        m = Module()
        with m.function("lazy", {"a": i32, "b": i32}, [i32], export=True) as f:
            f.return_(f.if_expr(f.b == 0, -1, i32.div_s(f.a, f.b)))
        with m.function("eager", {"a": i32, "b": i32}, [i32], export=True) as f:
            f.return_(f.select(f.b == 0, -1, i32.div_s(f.a, f.b)))
        program = Program(m)
        assert (program.call("lazy", 6, 3), program.call("lazy", 6, 0), program.call("eager", 6, 3)) == (2, -1, 2)
        with pytest.raises(wasmtime.Trap, match="divide by zero"):
            program.call("eager", 6, 0)

    def test_vectors_are_selected_whole(self) -> None:
        m = Module()
        with m.function("f", {"which": i32}, export=True) as f:
            f.store(0, f.select(f.which, f32x4.load(64), 7.0))
            f.store(16, f.if_expr(f.which, 1.5, f32x4.load(64)))
        program = Program(m)
        for which, expected in ((1, [0.0, 1.5]), (0, [7.0, 0.0])):
            program.call("f", which)
            assert_array_equal(program.memory[:32].view("f4"), np.repeat(expected, 4))

    def test_let_evaluates_once_and_tee_assigns_within(self) -> None:
        m = Module()
        with m.function("f", {}, [i32], export=True) as f:
            now, later = f.let(i32.load(0)), i32.load(0)
            x = f.local(i32)
            f.store(0, f.tee(x, i32.const(40)) + 1)
            f.return_(now * 10000 + later * 100 + x)
        assert Program(m).call("f") == 4140


class TestFunctions:
    def test_calls_recursion_and_several_results(self) -> None:
        m = Module()
        with m.function("divmod", {"a": i32, "b": i32}, [i32, i32]) as divmod_:
            divmod_.return_(i32.div_u(divmod_.a, divmod_.b), i32.rem_u(divmod_.a, divmod_.b))
        with m.function("factorial", {"n": i64}, [i64], export=True) as f:
            f.return_(f.if_expr(f.n < 2, 1, f.n * f(f.n - 1)))
        with m.function("gcd", {"a": i32, "b": i32}, [i32], export=True) as f:
            quotient, rest = f.local(i32), f.local(i32)
            with f.while_(f.b != 0):
                f.call(divmod_, f.a, f.b, into=(quotient, rest))
                f.set(f.a, f.b)
                f.set(f.b, rest)
            f.call(divmod_, 1, 1)
            f.return_(f.a)
        program = Program(m)
        assert (program.call("factorial", 20), program.call("gcd", 462, 1071)) == (math.factorial(20), 21)

    def test_imports(self) -> None:
        store, seen = wasmtime.Store(ENGINE), []
        m = Module()
        log = m.import_function("host", "log", {"x": i32, "y": f64})
        start = m.import_global("host", "start", i32)
        total = m.global_("total", i32, 5)
        with m.function("f", {"x": i32}, [i32], export=True) as f:
            f.call(log, f.x, 1.5)
            f.do(log(start, 2.5))
            f.set(total, total + f.x)
            f.return_(total)
        types = [wasmtime.ValType.i32(), wasmtime.ValType.f64()]
        logged = wasmtime.Func(store, wasmtime.FuncType(types, []), lambda x, y: seen.append((x, y)))
        given = wasmtime.Global(store, wasmtime.GlobalType(types[0], False), wasmtime.Val.i32(9))
        assert m.imports == [("host", "log"), ("host", "start")]
        program = Program(m, [logged, given], store)
        assert [program.call("f", 2), program.call("f", 2)] == [7, 9]
        assert seen == [(2, 1.5), (9, 2.5)] * 2

    def test_pointers_and_data_are_relative_to_their_bases(self) -> None:
        store = wasmtime.Store(ENGINE)
        m = Module()
        hello, numbers = m.data(b"hello"), m.data(np.arange(4, dtype="i4").tobytes(), align=32)
        late = m.segment(b"late")
        binary = m.indirect({"a": i32, "b": i32}, [i32])
        callees = []
        for name in ("add", "sub", "mul"):
            with m.function(name, {"a": i32, "b": i32}, [i32]) as f:
                f.return_(getattr(i32, name)(f.a, f.b))
            callees.append(m.pointer(f))
        with m.function("f", {}, [i32], export=True) as f:
            f.do(op("memory.init", 500, 0, 4, index=late))
            f.do(op("memory.copy", 600, hello, 5))
            f.return_(binary(binary(7, 5, callees[2]), i32.load(numbers, offset=12), callees[1]))
        i32_type = wasmtime.GlobalType(wasmtime.ValType.i32(), False)
        bases = {"__memory_base": 64, "__table_base": 3}
        imports: list[Any] = [wasmtime.Global(store, i32_type, wasmtime.Val.i32(bases[name])) for _, name in m.imports]
        table = wasmtime.TableType(wasmtime.ValType.funcref(), wasmtime.Limits(6, None))
        program = Program(m, [*imports, wasmtime.Table(store, table, None)], store)
        assert program.call("f") == 7 * 5 - 3
        assert program.memory[500:504].tobytes() == b"late"
        assert program.memory[600:605].tobytes() == program.memory[64:69].tobytes() == b"hello"
        assert (m.data_size, m.data_align) == (48, 32)

    def test_traps_name_their_function(self) -> None:
        m = Module("kernels")
        with m.function("winograd", {}, export=True) as f:
            f.trap()
        with pytest.raises(wasmtime.Trap) as caught:
            Program(m).call("winograd")
        assert (caught.value.frames[0].func_name, caught.value.frames[0].module_name) == ("winograd", "kernels")

    def test_custom_sections_are_kept(self) -> None:
        m = Module()
        m.custom("notes", b"payload")
        assert m.to_bytes().endswith(b"\x05notespayload")
        wasmtime.Module.validate(ENGINE, m.to_bytes())

    def test_one_module_for_every_kind_of_memory(self) -> None:
        m = Module()
        with m.function("f", {}, export=True) as f:
            f.store(0, i32.const(1), bits=16)
        for memory in (None, Memory(2, 5), Memory(1, 65536, shared=True), Memory(import_from=None)):
            wasmtime.Module.validate(ENGINE, m.to_bytes(memory))


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
        (lambda: Memory(shared=True).to_bytes(), "a shared memory needs a maximum"),
    ],
)
def test_value_errors_name_the_value(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_unknown_instructions_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="f32 has no instruction 'relaxed_madd'"):
        f32.relaxed_madd(1.0, 2.0, 3.0)


class TestMisuse:
    def test_statements_check_their_types(self) -> None:
        m = Module()
        with m.function("f", {"x": i32}, [f32]) as f:
            y = f.local(f32, "y")
            with pytest.raises(TypeError, match="f: the value of 'y' has type i32, expected f32"):
                f.set(y, f.x)
            with pytest.raises(TypeError, match="f: if_ has type f32, expected i32"), f.if_(y):
                pass
            with pytest.raises(TypeError, match="f: result 1 has type i32, expected f32"):
                f.return_(f.x)
            with pytest.raises(TypeError, match="f returns 1 values, not 2"):
                f.return_(y, y)
            with pytest.raises(TypeError, match="f: operand 'x' has type f32, expected i32"):
                f(y)
            with pytest.raises(TypeError, match=r"f has results \(f32,\), not \(i32,\)"):
                f.call(f, 1, into=[f.x])
            with pytest.raises(TypeError, match=r"f: store needs a type; use f32.const\(1.0\)"):
                f.store(0, 1.0)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="if_expr: two Python numbers have no type"):
                f.if_expr(f.x, 1, 2)
            with pytest.raises(ValueError, match="step cannot be 0"), f.loop(f.x, 0, 4, step=0):
                pass

    def test_structure(self) -> None:
        m = Module()
        with m.function("f", {"x": i32}) as f:
            with f.block() as done:
                pass
            with pytest.raises(ValueError, match="the block of this label has ended"):
                f.br(done)
            with f.if_(f.x):
                f.set(f.x, 1)
            f.set(f.x, 2)
            with pytest.raises(ValueError, match="else_ must follow the block of an if_ directly"), f.else_():
                pass
            other = m.function("g", {"x": i32})
            with pytest.raises(ValueError, match="f: 'x' is a local of another function"):
                f.set(other.x, 1)
            with pytest.raises(AttributeError, match="function 'f' has no parameter 'y'"):
                _ = f.y
        with pytest.raises(ValueError, match="function 'f' is complete"):
            f.set(f.x, 1)
        with pytest.raises(ValueError, match="function 'g' is not complete"):
            m.to_bytes()

    def test_names_and_order(self) -> None:
        m = Module()
        with pytest.raises(ValueError, match="the parameter 'store' would hide a method"):
            m.function("f", {"store": i32})
        for _ in range(2):
            with m.function("f", {}) as f:
                pass
        m.export(f)
        with m.function("f", {}) as other, pytest.raises(ValueError, match="two functions are exported as 'f'"):
            m.export(other)
        with pytest.raises(ValueError, match="import 'late' earlier"):
            m.import_function("env", "late", {})
