"""Generated WebAssembly does what NumPy does: scalar functions, conversions, memory, statements, random programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sardonyx.code import scalar, transcendental
from sardonyx.code.program import Builder, Program, Value, call, cast, const
from sardonyx.common import dtypes
from sardonyx.errors import NotImplemented
from sardonyx.providers.contract import SegmentLaunch
from sardonyx_wasm.device import WasmDevice
from sardonyx_wasm.generator import generate
from sardonyx_wasm.hosts import host
from tests.compiler.accuracy import held
from tests.support import interpreter, require
from tests.support.exact import reference

Array = np.ndarray
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES = [*FLOATS, *INTEGERS, "bool"]

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def execute(programs: Sequence[Program], arrays: Sequence[Sequence[Array]], params: Sequence[int] = ()) -> None:
    """Run each program on its arrays, all in one segment; those written change in place."""
    device = WasmDevice(host())
    addresses = [[device.constant(array) for array in row] for row in arrays]
    executable = device.load(programs, [[SegmentLaunch(k) for k in range(len(programs))]])
    executable.bind(0, addresses, [params] * len(programs))()
    for program, row, places in zip(programs, arrays, addresses, strict=True):
        for array, place in list(zip(row, places, strict=True))[len(program.reads) :]:
            array[:] = device.download(place, array.dtype, array.shape)


def check(program: Program, arrays: Sequence[Array], params: Sequence[int] = ()) -> None:
    """Bit for bit what the interpreter does, but for the payloads of NaN."""
    expected = [array.copy() for array in arrays]
    interpreter.run(program, expected, params)
    execute([program], [arrays], params)
    for k, dtype in enumerate((*program.reads, *program.writes)):
        assert_array_equal(decoded(arrays[k], dtype), decoded(expected[k], dtype))


def decoded(array: Array, dtype: str) -> Array:
    return interpreter.from_bfloat16(array) if dtype == "bfloat16" else array


def encoded(values: Array, dtype: str) -> Array:
    return interpreter.to_bfloat16(values) if dtype == "bfloat16" else values


def room(dtype: str, count: int) -> Array:
    return np.zeros(count, dtypes.by_name(dtype).storage)


def edges(dtype: str) -> Array:
    """Values of a dtype at which something may go wrong, as the interpreter holds them."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        numbers = np.array([0, 1, 2, 3, 7, 8, 31, 63, 64, limits.max, limits.max // 2, limits.min + 1], dtype)
        return np.concatenate([numbers, ~numbers])
    finite = [0, 1, 0.5, 1.5, 2.5, 1e-8, 1 / 3, 100, 127.5, 255.5, 2049, 32768.5, 65519, 65520, 1e-5, 3e-45, 1e9]
    large = [2147483648, 4294967295.5, 9223372036854775808, 18446744073709551616, 1e30, 3.4e38, np.inf, np.nan]
    with np.errstate(over="ignore"):
        values = np.array([*finite, *large], interpreter.storage(dtype))
    return interpreter.convert(np.concatenate([values, -values]), "float32", dtype)


def map_program(reads: Sequence[str], result: str, function: Callable[..., Value]) -> Program:
    """Stores a function of the elements at each index."""
    b = Builder(reads, [result])
    i = b.grid(0)
    b.store(len(reads), i, function(*(b.load(k, i) for k in range(len(reads)))))
    return b.program("map", [b.param()])


# ---- scalar functions

TRANSCENDENTAL = {name for name in scalar.FUNCTIONS if transcendental.function(name, "float64")} - {"rem"}


def operands_of(function: str, dtype: str) -> list[Array]:
    """All combinations of edges for two operands; a third is the condition of `where`."""
    values, arity = edges(dtype), scalar.FUNCTIONS[function].arity
    if arity == 1:
        return [values]
    x, y = (axis.ravel() for axis in np.meshgrid(values, values))
    return [np.arange(x.size) % 3 == 1, x, y] if function == "where" else [x, y]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scalar_functions(dtype: str) -> None:
    kind = dtypes.by_name(dtype).kind
    names = [name for name, row in scalar.FUNCTIONS.items() if kind in row.kinds]
    for name in names:
        operands = operands_of(name, dtype)
        types = ["bool", dtype, dtype] if name == "where" else [dtype] * len(operands)
        to = "bool" if scalar.FUNCTIONS[name].result == "bool" else dtype
        row = [*map(encoded, operands, types), room(to, operands[0].size)]
        execute([map_program(types, to, lambda *x, name=name: call(name, *x))], [row], [operands[0].size])
        result = decoded(row[-1], to)
        truth = reference(name, *operands)
        if to == "bfloat16":
            truth = interpreter.convert(truth, "float32", to)
        if name in TRANSCENDENTAL and kind == "float":
            close(name, dtype, result, truth, operands[0])
        else:
            assert_array_equal(result, truth, err_msg=name)
        if to in FLOATS and name not in ("min", "max"):
            known = ~np.isnan(truth) & held(name, operands[0])
            assert_array_equal(np.signbit(result[known]), np.signbit(truth[known]), err_msg=name)


def close(name: str, dtype: str, result: Array, truth: Array, x: Array) -> None:
    """As near as the functions are exact (`tests/compiler/test_transcendental.py`), and NumPy's own."""
    bits = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    finite = np.isfinite(truth) & held(name, x)
    assert_array_equal(result[~np.isfinite(truth)], truth[~np.isfinite(truth)], err_msg=name)
    np.testing.assert_allclose(
        result[finite].astype(float),
        truth[finite].astype(float),
        5 * 2.0**-bits,
        1e-7 if bits < 11 else 0,
        err_msg=name,
    )


def test_division_by_constants() -> None:
    for divisor in (-3, -1, 0, 1, 2, 7):
        for function in ("div", "rem"):
            program = map_program(["int32"], "int32", lambda x, f=function, d=divisor: call(f, x, const("int32", d)))
            check(program, [edges("int32"), room("int32", 24)], [24])


# ---- conversions and memory


@pytest.mark.parametrize("source", DTYPES)
def test_casts(source: str, rng: np.random.Generator) -> None:
    values = edges(source)
    if source in FLOATS:
        more = (rng.normal(0, 1, 2000) * 2.0 ** rng.integers(-30, 12, 2000)).astype(values.dtype)
        values = np.concatenate([values, interpreter.convert(more, source, source)])
    stored = encoded(values, source)
    programs = [map_program([source], target, lambda x, t=target: cast(t, x)) for target in DTYPES]
    arrays = [[stored, room(target, stored.size)] for target in DTYPES]
    execute(programs, arrays, [stored.size])
    for target, (_, result) in zip(DTYPES, arrays, strict=True):
        expected = interpreter.convert(values, source, target)
        assert_array_equal(decoded(result, target), expected, err_msg=target)


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_float64_is_rounded_once(target: str) -> None:
    one = 1 + 2.0 ** (-11 if target == "float16" else -8)
    values = np.array([one, one + 2.0**-40, one - 2.0**-40, -one - 2.0**-40, 1e-300, 65519.9999999, 65520.0])
    program = map_program(["float64"], target, lambda x: cast(target, x))
    check(program, [values, room(target, 7)], [7])


def test_literals() -> None:
    for dtype in DTYPES:
        for number in edges(dtype)[:40]:
            b = Builder([], [dtype])
            b.store(0, const("int32", 0), const(dtype, number))
            check(b.program("literal"), [room(dtype, 1)])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("float32", "int32"), ("uint32", "float32"), ("float64", "uint64"), ("int64", "float64"), ("int8", "uint8"),
        ("uint8", "int8"), ("float16", "int16"), ("uint16", "float16"), ("int16", "bfloat16"), ("bfloat16", "uint16"),
        ("uint8", "float8e4m3fn"), ("int4", "int8"),
    ],
)  # fmt: skip
def test_bitcasts(source: str, target: str) -> None:
    storage, width = dtypes.by_name(source).storage, dtypes.by_name(source).itemsize
    pattern = np.arange(0, 1 << 16, 7, dtype=np.uint64) * np.uint64(0x0001_0003_0005_0011)
    bits = (pattern >> np.uint64(64 - 8 * width)).astype(f"u{width}")
    if dtypes.by_name(source).is_float and dtypes.by_name(source).is_native:
        bits = bits[~np.isnan(bits.view(storage))]
    if "bfloat16" in (source, target):
        bits = bits[~np.isnan(interpreter.from_bfloat16(bits))]
    if target in ("float16", "float32", "float64"):
        bits = bits[~np.isnan(bits.view(target))]
    program = map_program([source], target, lambda x: Value(["bitcast", target, x.code]))
    result = room(target, bits.size)
    execute([program], [[bits.view(storage), result]], [bits.size])
    assert_array_equal(result.view(bits.dtype), bits)


def test_all_bits_of_the_narrow_floats_survive() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    for dtype, numbers in (("float16", every.view(np.float16)), ("bfloat16", every)):
        check(map_program([dtype], dtype, lambda x: x), [numbers, room(dtype, 1 << 16)], [1 << 16])
        check(
            map_program([dtype], "float32", lambda x: cast("float32", x)),
            [numbers, room("float32", 1 << 16)],
            [1 << 16],
        )


def test_what_has_no_arithmetic_says_so() -> None:
    for dtype, text in (("string", "has no string"), ("float8e5m2", "not float8e5m2")):
        with pytest.raises(NotImplemented, match=text):
            generate([map_program([dtype], dtype, lambda x: x + x)])
    with pytest.raises(NotImplemented, match="isnan takes float, not int32"):
        generate([map_program(["int32"], "bool", lambda x: call("isnan", x))])
    with pytest.raises(NotImplemented, match="another width"):
        generate([map_program(["int32"], "int64", lambda x: Value(["bitcast", "int64", x.code]))])


def test_indices_with_constant_parts() -> None:
    """Also where the rest of the index is negative, or too large for an offset."""
    for dtype in ("int8", "float32", "int64"):
        for shift in (0, 3, 120, 2000):
            b = Builder([dtype], [dtype])
            base = b.let(b.grid(0) - shift)
            b.store(1, base + shift, b.load(0, base + shift) + b.load(0, const("int32", 5)))
            check(b.program("shifted", [b.param()]), [np.arange(50).astype(dtype), room(dtype, 50)], [50])


# ---- statements


def test_grids() -> None:
    """Of zero to three axes, of which one may be empty."""
    for extents in ([], [7], [0], [3, 5], [3, 0], [2, 3, 4]):
        b = Builder([], ["int32"])
        sizes = [b.param() for _ in extents]
        at = const("int32", 0)
        for axis, size in enumerate(sizes):
            at = b.let(at * size + b.grid(axis))
        b.store(0, at, at * 10 + len(extents))
        check(b.program("grid", sizes), [room("int32", 60)], extents)


def test_grid_of_expressions() -> None:
    b = Builder([], ["int32"])
    n = b.param()
    b.store(0, b.grid(0), b.grid(0) * n)
    check(b.program("grid", [n * 2 + 1]), [room("int32", 30)], [7])


def test_loops() -> None:
    """Nested, of changing length, empty; a count that changes meanwhile is the one at the start."""
    b = Builder(["float32"], ["float32", "int32"])
    n, total, count = b.param(), b.let(const("float32", 0)), b.let(b.grid(0) + 0)
    with b.loop(b.grid(0)) as i:
        with b.loop(i) as j:
            b.set(total, total + b.load(0, (i * 3 + j) % n))
        b.set(total, call("neg", total))
    with b.loop(count):
        b.set(count, count + 1)
    b.store(1, b.grid(0), total)
    b.store(2, b.grid(0), count)
    numbers = np.arange(20, dtype=np.float32) / 7
    check(b.program("loops", [n]), [numbers, room("float32", 20), room("int32", 20)], [20])


def test_while() -> None:
    """Collatz steps: the condition needs statements of its own."""
    b = Builder([], ["int32"])
    number, steps = b.let(b.grid(0) + 1), b.let(const("int32", 0))
    with b.while_(call("gt", call("max", number, const("int32", 1)), const("int32", 1))):
        with b.if_(call("eq", number % 2, const("int32", 0))):
            b.set(number, number // 2)
        with b.else_():
            b.set(number, number * 3 + 1)
        b.set(steps, steps + 1)
    b.store(0, b.grid(0), steps)
    check(b.program("collatz", [b.param()]), [room("int32", 100)], [100])


def test_if_without_else_and_names_of_blocks() -> None:
    """A name may stand for another variable in each block."""
    less: Callable[[int], list[Any]] = lambda k: ["lt", "bool", ["grid", "int32", 0], ["const", "int32", k]]  # noqa: E731
    name = ["let", "x", ["const", "float32", 1.5]]
    stores = [["store", 0, ["grid", "int32", 0], ["var", "float32", "x"]]]
    other = [
        ["let", "x", ["const", "int64", 3]],
        ["store", 0, ["grid", "int32", 0], ["cast", "float32", ["var", "int64", "x"]]],
    ]
    body = (["if", less(8), [["if", less(3), [name, *stores], other]], []],)
    check(Program("blocks", (), ("float32",), 0, (["const", "int32", 10],), body), [room("float32", 10)])


def test_buffers_may_be_read_and_written() -> None:
    b = Builder([], ["int64"])
    with b.loop(b.param() - 2) as k:
        b.store(0, k + 2, b.load(0, k + 1) + b.load(0, k))
    check(b.program("fibonacci"), [np.ones(90, np.int64)], [90])


def test_equal_programs_are_one_function() -> None:
    programs = [map_program(["float32"], "float32", lambda x: call("exp", x)) for _ in range(3)]
    one, three = (generate(programs[:n]) for n in (1, 3))
    assert len(three.to_bytes()) < len(one.to_bytes()) + 250


# ---- random programs


@st.composite
def expressions(draw: Callable[..., Any], b: Builder, dtype: str, known: list[Value], depth: int) -> Value:
    """An expression over loads, variables and constants."""
    leaves = [v for v in known if v.dtype == dtype]
    choice = draw(st.integers(0, 9)) if depth else draw(st.integers(0, 1))
    if choice == 0 or (choice == 1 and not leaves):
        return const(dtype, draw(st.sampled_from(list(edges(dtype)))))
    if choice == 1:
        return draw(st.sampled_from(leaves))
    if choice == 2:
        source = draw(st.sampled_from(MIXED))
        return cast(dtype, draw(expressions(b, source, known, depth - 1)))
    kind = dtypes.by_name(dtype).kind
    row = scalar.FUNCTIONS[draw(st.sampled_from(PLAIN[kind]))]
    if row.result == "bool":
        dtype = draw(st.sampled_from([other for other in MIXED if dtypes.by_name(other).kind in row.kinds]))
    types = ["bool", dtype, dtype] if row.result == "select" else [dtype] * row.arity
    return call(row.name, *(draw(expressions(b, of, known, depth - 1)) for of in types))


MIXED = ["float32", "float64", "int32", "uint8", "int64", "float16", "bool"]
PLAIN = {
    kind: [
        name
        for name, row in scalar.FUNCTIONS.items()
        if name not in (TRANSCENDENTAL | {"min", "max"} if kind == "float" else TRANSCENDENTAL)
        and (kind == "bool" if row.result == "bool" else kind in row.kinds)
    ]
    for kind in ("float", "int", "uint", "bool")
}
"""Functions that have results of a kind, all bits of them certain: NumPy's minimum of 0 and -0 is either."""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    b = Builder(MIXED, MIXED)
    known = [b.let(b.load(k, b.grid(0))) for k in range(len(MIXED))]
    for _ in range(data.draw(st.integers(1, 4))):
        dtype = data.draw(st.sampled_from(MIXED))
        value = data.draw(expressions(b, dtype, known, 3))
        action = data.draw(st.integers(0, 3))
        if action == 0:
            known.append(b.let(value))
        elif action == 1:
            with b.if_(data.draw(expressions(b, "bool", known, 2))):
                b.set(known[MIXED.index(dtype)], value)
        elif action == 2:
            with b.loop(const("int32", 2)) as turn:
                b.set(known[MIXED.index(dtype)], data.draw(expressions(b, dtype, [*known, turn], 2)))
        else:
            b.set(known[MIXED.index(dtype)], value)
    for k in range(len(MIXED)):
        b.store(len(MIXED) + k, b.grid(0), known[k])
    inputs = [np.resize(edges(dtype), 50) for dtype in MIXED]
    check(b.program("random", [b.param()]), [*inputs, *(room(dtype, 50) for dtype in MIXED)], [50])
