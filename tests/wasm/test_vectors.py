"""Vectors do what NumPy does, element by element: functions, conversions, memory, folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sardonyx.code import scalar, strict
from sardonyx.common import dtypes
from sardonyx.errors import NotImplemented
from sardonyx_wasm import hosts, vectors
from sardonyx_wasm.assembler import Expr, i32
from sardonyx_wasm.scalars.values import Kind, kind, literal
from sardonyx_wasm.vectors import FunctionScope, Vector
from tests.support import interpreter, require
from tests.support.exact import reference
from tests.wasm.compiled import PLAIN, RELAXED
from tests.wasm.elements import Case, decoded, encoded

Array = np.ndarray[Any, Any]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES = [*FLOATS, *INTEGERS, "bool"]
BITS = ["float8e4m3fn", "uint4", "int4"]
ALL_BOOLS = np.array([False, True] * 8)

require("wasm")
pytestmark = pytest.mark.usefixtures("no_cache_on_disk")


def edges(dtype: str) -> Array:
    """Values of a dtype at which something may go wrong, as the interpreter holds them."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        numbers = np.array([0, 1, 2, 3, 7, 8, 15, 31, 32, 63, 64, limits.max, limits.max // 2, limits.min + 1], dtype)
        return np.concatenate([numbers, ~numbers])
    finite = [0, 1, 0.5, 1.5, 2.5, 1e-8, 1 / 3, 100, 127.5, 255.5, 2049, 32768.5, 65519, 65520, 6.1e-5, 3e-45, 1e-40]
    large = [2147483648, 4294967295.5, 9223372036854775808, 18446744073709551616, 1e30, 3.4e38, np.inf, np.nan]
    with np.errstate(over="ignore"):
        values = np.array([*finite, *large], interpreter.storage(dtype))
    return interpreter.convert(np.concatenate([values, -values]), "float32", dtype)


def some(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Random values of a dtype: any bits, or floats of any size."""
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        wide = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
        return np.where(rng.integers(0, 2, count), wide, wide % 67).astype(dtype)
    sizes = np.exp2(rng.uniform(-30, 40, count)) * rng.choice([-1, 1], count)
    with np.errstate(over="ignore"):
        return interpreter.convert(
            np.where(rng.integers(0, 2, count), sizes, rng.normal(0, 3, count)), "float64", dtype
        )


def operands_of(function: str, dtype: str, rng: np.random.Generator) -> list[Array]:
    """All pairs of edges and random values; a third operand is the condition of `where`."""
    values, arity = edges(dtype), scalar.FUNCTIONS[function].arity
    x, y = (axis.ravel() for axis in np.meshgrid(values, values))
    x, y = (np.concatenate([part, some(dtype, 997, rng)]) for part in (x, y))
    return {1: [x], 2: [x, y], 3: [some("bool", x.size, rng), x, y]}[arity]


def operand_types(function: str, dtype: str) -> list[str]:
    return ["bool", dtype, dtype] if function == "where" else [dtype] * scalar.FUNCTIONS[function].arity


def result_type(function: str, dtype: str) -> str:
    return "bool" if scalar.FUNCTIONS[function].result == "bool" else dtype


def applied(function: str, dtype: str) -> Callable[..., Vector]:
    return lambda s, *x: vectors.apply(s, function, kind(dtype), x)


def truth(function: str, dtype: str, operands: Sequence[Array]) -> Array:
    """NumPy's result, or the very one that the written functions define."""
    code = strict.function(function, "float32" if dtype in ("float16", "bfloat16") else dtype)
    with np.errstate(all="ignore"):
        if code and dtype in FLOATS and function != "rem":
            wide = [x.astype(np.float32) if x.dtype == np.float16 else x for x in operands]
            result = interpreter.apply(code, *wide)
        else:
            result = reference(function, *operands)
        to = result_type(function, dtype)
        return interpreter.convert(result, "float32", to) if to in ("float16", "bfloat16") else result


def same(result: Array, expected: Array, message: str, signs: bool = True) -> None:
    """Equal but for the payloads of NaN."""
    assert_array_equal(result, expected, err_msg=message)
    if signs and result.dtype.kind == "f":
        known = ~np.isnan(expected)
        assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]), err_msg=message)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions(dtype: str, rng: np.random.Generator) -> None:
    case = Case()
    names = [name for name, row in scalar.FUNCTIONS.items() if dtypes.by_name(dtype).kind in row.kinds]
    for name in names:
        case.add(name, operand_types(name, dtype), result_type(name, dtype), applied(name, dtype))
    operands = {name: operands_of(name, dtype, rng) for name in names}
    for name, result in case.run_all(operands).items():
        same(result, truth(name, dtype, operands[name]), name, name not in ("min", "max"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices_are_exact_in_relaxed_simd(dtype: str, rng: np.random.Generator) -> None:
    case, operands = Case(RELAXED), operands_of("where", dtype, rng)
    case.add("where", operand_types("where", dtype), dtype, applied("where", dtype))
    same(case.run("where", *operands), truth("where", dtype, operands), "where")


@pytest.mark.parametrize("features", [PLAIN, RELAXED], ids=["plain", "relaxed"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scalars_get_the_bits_of_lanes(dtype: str, features: frozenset[str], rng: np.random.Generator) -> None:
    case, codes = Case(features), {}
    for name, row in scalar.FUNCTIONS.items():
        if dtypes.by_name(dtype).kind in row.kinds and (code := strict.function(name, dtype)) and name != "rem":
            codes[name] = code
            case.add(name, [dtype] * row.arity, dtype, applied(name, dtype))
            case.unit.module.export(case.unit.written(code), f"scalar_{name}")
    operands = {name: [some(dtype, 40, rng) for _ in code.params] for name, code in codes.items()}
    found, loaded = case.run_all(operands), hosts.host().load(case.unit.module)
    for name, result in found.items():
        each = [loaded.function(f"scalar_{name}")(*map(float, elements)) for elements in zip(*operands[name])]
        same(np.array(each, dtype), result, name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_operands(dtype: str, rng: np.random.Generator) -> None:
    """Constants have shorter code in places."""
    k, case, operands, expected = kind(dtype), Case(), {}, {}
    names = [
        name for name, row in scalar.FUNCTIONS.items() if row.arity == 2 and dtypes.by_name(dtype).kind in row.kinds
    ]
    x = np.concatenate([edges(dtype), some(dtype, 30, rng)])
    numbers = edges(dtype)[:3] if dtype == "bool" else edges(dtype)[::4]
    for (number, constant), (function, swapped) in product(enumerate(numbers), product(names, (False, True))):
        if function in ("pow", "rem") and dtype in FLOATS:
            continue
        name = f"{function} {number} {swapped}"
        case.add(name, [dtype], result_type(function, dtype), with_constant(function, k, constant.item(), swapped))
        operands[name] = [x]
        pair = [np.full_like(x, constant), x] if swapped else [x, np.full_like(x, constant)]
        expected[name] = truth(function, dtype, pair)
    for name, result in case.run_all(operands).items():
        same(result, expected[name], name, not name.startswith(("min", "max")))


def with_constant(function: str, k: Kind, constant: float, swapped: bool) -> Callable[..., Vector]:
    def rule(s: FunctionScope, x: Vector) -> Vector:
        y = vectors.splat(k, literal(k, constant))
        return vectors.apply(s, function, k, [y, x] if swapped else [x, y])

    return rule


@pytest.mark.parametrize("constant", [0.0, -0.0, 2.5, -1.0, np.inf, np.nan])
def test_signs_of_extremes_by_constants(constant: float) -> None:
    """As the instructions that take any operands."""
    case, k = Case(), kind("float32")
    x = edges("float32")
    for name in ("min", "max"):
        case.add(name, ["float32"], "float32", with_constant(name, k, constant, False))
        case.add(f"{name} of two", ["float32"] * 2, "float32", applied(name, "float32"))
    y = np.full_like(x, constant)
    results = case.run_all({"min": [x], "max": [x], "min of two": [x, y], "max of two": [x, y]})
    for name in ("min", "max"):
        same(results[name], results[f"{name} of two"], name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts(dtype: str, rng: np.random.Generator) -> None:
    case = Case()
    x = np.concatenate([edges(dtype), some(dtype, 999, rng)])
    for to in DTYPES:
        case.add(to, [dtype], to, lambda s, x, to=to: vectors.cast(s, kind(to), kind(dtype), x))
    for to, result in case.run_all({to: [x] for to in DTYPES}).items():
        same(result, interpreter.convert(x, dtype, to), to)


@pytest.mark.parametrize("dtype", [*DTYPES, *BITS])
def test_bitcasts(dtype: str, rng: np.random.Generator) -> None:
    """All bits survive, but for the payloads of NaN and the values of bool."""
    case, k = Case(), kind(dtype)
    same_width = [to for to in (*DTYPES, *BITS) if kind(to).bits == k.bits]
    raw = rng.integers(0, 2 if dtype == "bool" else 256, (1000, k.bits // 8), np.uint8).ravel()
    x = decoded(raw.view(dtypes.by_name(dtype).storage), dtype)
    x = np.nan_to_num(x) if dtype in FLOATS else x
    for to in same_width:
        case.add(to, [dtype], to, lambda s, x, to=to: vectors.bitcast(s, kind(to), k, x))
    for to, result in case.run_all({to: [x] for to in same_width}).items():
        bits = encoded(x, dtype)
        expected = bits != 0 if to == "bool" else decoded(bits.view(dtypes.by_name(to).storage), to)
        same(result, expected, to)


def test_what_has_no_vectors() -> None:
    case = Case()
    with pytest.raises(NotImplemented, match="bitcast from float8e4m3fn to int16, which has another width"):
        case.add("f", ["float8e4m3fn"], "int16", lambda s, x: vectors.bitcast(s, kind("int16"), kind(BITS[0]), x))
    with pytest.raises(NotImplemented, match="cast from float8e4m3fn to int16; spell it with bitcast"):
        case.add("g", ["float8e4m3fn"], "int16", lambda s, x: vectors.cast(s, kind("int16"), kind(BITS[0]), x))
    with pytest.raises(NotImplemented, match="exp takes float, not int16"):
        case.add("h", ["int16"], "int16", applied("exp", "int16"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_half_survives(dtype: str) -> None:
    case = Case()
    case.add("copy", [dtype], dtype, lambda s, x: x)
    case.add("rounded", ["float32"], dtype, lambda s, x: vectors.cast(s, kind(dtype), kind("float32"), x))
    x = decoded(np.arange(1 << 16).astype(np.uint16).view(dtypes.by_name(dtype).storage), dtype)
    with np.errstate(invalid="ignore"):
        between = x.astype(np.float32) * np.float32(1.00048828125)
    results = case.run_all({"copy": [x], "rounded": [between]})
    same(results["copy"], x, "copy")
    same(results["rounded"], interpreter.convert(between, "float32", dtype), "rounded")


# ---- memory, lanes, folds


def program(to: Sequence[str], write: Callable[..., None]) -> Callable[..., list[Array]]:
    """Calls a function that was written with a scope and the addresses of arrays; those of dtypes `to` it fills."""
    case = Case()

    def run(*arrays: Array) -> list[Array]:
        host = hosts.host()
        names = [f"buffer{n}" for n in range(len(arrays) + len(to))]
        with case.unit.module.function("run", dict.fromkeys(names, i32), export=True) as f:
            write(FunctionScope(case.unit, f), *f.params)
        buffers = [*arrays, *(np.full(32, 77, dtypes.by_name(t).storage) for t in to)]
        addresses = [host.allocate(b.nbytes) for b in buffers]
        views = [host.array(a, b.shape, b.dtype) for a, b in zip(addresses, buffers)]
        for view, buffer in zip(views, buffers):
            view[:] = buffer
        host.load(case.unit.module).function("run")(*addresses)
        results = [view.copy() for view in views[len(arrays) :]]
        del view, views
        for address in addresses:
            host.free(address)
        return results

    return run


@pytest.mark.parametrize("dtype", [*DTYPES, *BITS])
def test_memory_and_lanes(dtype: str, rng: np.random.Generator) -> None:
    """Loads and stores at odd places, gathered elements, lanes as scalars and back; nothing past them is written."""
    k = kind(dtype)
    size = k.bits // 8
    places = [5, 0, 7, 2]

    def write(s: FunctionScope, x: Expr, loaded: Expr, gathered: Expr, spread: Expr) -> None:
        vectors.store(s.f, s, k, loaded, vectors.load(s, k, x + size, 2 * size), 5 * size)
        found = vectors.gather(s, k, [x + place * size for place in places], size)
        vectors.store(s.f, s, k, gathered + size, found)
        for i in range(4):
            element = vectors.splat(k, s.let(vectors.lane(s, k, found, i)))
            vectors.store(s.f, s, k, spread, element, 4 * i * size)

    storage = dtypes.by_name(dtype).storage
    x = rng.integers(0, 2 if dtype == "bool" else 256, (16, size), np.uint8).ravel().view(storage)
    x = encoded(np.nan_to_num(decoded(x, dtype)), dtype) if dtype in FLOATS else x
    loaded, gathered, spread = program([dtype] * 3, write)(x)
    background = np.full(32, 77, storage)
    for result, at, expected in (
        (loaded, 5, x[3:7]),
        (gathered, 1, x[[place + 1 for place in places]]),
        (spread, 0, np.repeat(x[[place + 1 for place in places]], 4)),
    ):
        background_ = background.copy()
        background_[at : at + expected.size] = expected
        assert_array_equal(result, background_)


def test_iota() -> None:
    (result,) = program(["int32"], lambda s, x: s.f.store(x, vectors.iota()))()
    assert_array_equal(result[:5], [0, 1, 2, 3, 77])


@pytest.mark.parametrize("dtype", DTYPES)
def test_folds_of_lanes(dtype: str, rng: np.random.Generator) -> None:
    """In the order (0 + 2) + (1 + 3), rounded after each step."""
    k = kind(dtype)
    names = {"any": "or", "all": "and"}
    if dtype != "bool":
        names = {"sum": "add", "prod": "mul", "min": "min", "max": "max"}

    def write(s: FunctionScope, x: Expr, result: Expr) -> None:
        for number, name in enumerate(names):
            total = vectors.horizontal(s, name, k, vectors.load(s, k, x))
            vectors.store(s.f, s, k, result, vectors.splat(k, s.let(total)), 4 * number * (k.bits // 8))

    for _ in range(5):
        x = some(dtype, 4, rng)
        (result,) = program([dtype], write)(encoded(x, dtype))
        for number, function in enumerate(names.values()):
            pairs = truth(function, dtype, [x[:2], x[2:]])
            same(decoded(result, dtype)[4 * number], truth(function, dtype, [pairs[:1], pairs[1:]])[0], function)


def test_constants_are_set_once_before_loops() -> None:
    case = Case()
    case.add("f", ["float32"], "float32", lambda s, x: vectors.apply(s, "exp", kind("float32"), [x]))
    code = case.unit.module.to_bytes()
    first = np.float32(1 / np.log(2)).tobytes() * 4
    assert code.count(first) == 1
    assert code.index(first) < code.index(b"\x03\x40")  # the first loop
