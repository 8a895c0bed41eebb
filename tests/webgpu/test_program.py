"""Statements, grids and expressions of programs, against what Python or NumPy makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.code.program import Builder, Program, Value, call, cast, const
from sardonyx.errors import EPFail
from sardonyx_webgpu.kernels.programs import shader
from sardonyx_webgpu.runtime.device import WebGpuDevice
from sardonyx_webgpu.runtime.grid import workgroups
from tests.webgpu.harness import apply, elementwise, run


def int32(number: int) -> Value:
    return const("int32", number)


def test_loops_and_conditions(device: WebGpuDevice) -> None:
    """The sum of the even numbers minus that of the odd ones below each element, by two nested loops."""
    builder = Builder(["int32"], ["int32"])
    size, index = builder.param(), builder.grid(0)
    limit = builder.let(builder.load(0, index))
    total = builder.let(int32(0))
    with builder.loop(limit / 2 + 1) as half, builder.loop(int32(2)) as odd:
        number = builder.let(half * 2 + odd)
        with builder.if_(number < limit):
            with builder.if_(call("eq", odd, int32(0))):
                builder.set(total, total + number)
            with builder.else_():
                builder.set(total, total - number)
    builder.store(1, index, total)
    limits = np.arange(70, dtype=np.int32)
    (found,) = run(device, builder.program("alternate", [size]), [limits], [np.zeros(70, np.int32)], [70])
    expected = [sum(k if k % 2 == 0 else -k for k in range(limit)) for limit in limits]
    assert found.tolist() == expected


def test_the_count_of_a_loop_is_taken_once(device: WebGpuDevice) -> None:
    builder = Builder([], ["int32"])
    count = builder.let(int32(5))
    turns = builder.let(int32(0))
    with builder.loop(count):
        builder.set(count, count + 1)
        builder.set(turns, turns + 1)
    builder.store(0, int32(0), turns)
    (found,) = run(device, builder.program("turns"), [], [np.zeros(1, np.int32)])
    assert found.tolist() == [5]


def test_while(device: WebGpuDevice) -> None:
    """The steps of Collatz's sequence to 1."""
    builder = Builder(["int64"], ["int32"])
    size, index = builder.param(), builder.grid(0)
    number = builder.let(builder.load(0, index))
    steps = builder.let(int32(0))
    with builder.while_(number > 1):
        odd = call("eq", number & 1, const("int64", 1))
        builder.set(number, call("where", odd, number * 3 + 1, number / 2))
        builder.set(steps, steps + 1)
    builder.store(1, index, steps)
    starts = np.array([1, 2, 7, 27, 97, 871, 77671, 10**12 + 1], np.int64)

    def collatz(n: int) -> int:
        return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

    program = builder.program("collatz", [size])
    (found,) = run(device, program, [starts], [np.zeros(starts.size, np.int32)], [starts.size])
    assert found.tolist() == [collatz(int(n)) for n in starts]


@pytest.mark.parametrize("function", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_reduction(device: WebGpuDevice, function: str, dtype: str, rng: np.random.Generator) -> None:
    rows, columns = 37, 61
    builder = Builder([dtype], [dtype])
    count, width, row = builder.param(), builder.param(), builder.grid(0)
    total = builder.let(builder.load(0, row * width))
    with builder.loop(width - 1) as k:
        builder.set(total, call(function, total, builder.load(0, row * width + k + 1)))
    builder.store(1, row, total)
    matrix = rng.integers(0, 50, (rows, columns)).astype(dtype)
    program = builder.program(f"reduce {function}", [count])
    (found,) = run(device, program, [matrix], [np.zeros(rows, dtype)], [rows, columns])
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum}[function]
    np.testing.assert_array_equal(found, ufunc.reduce(matrix, axis=1, dtype=dtype))


def test_scatter_add_in_order(device: WebGpuDevice, rng: np.random.Generator) -> None:
    builder = Builder(["int64", "float32"], ["float32"])
    with builder.loop(builder.param()) as k:
        place = builder.let(cast("int32", builder.load(0, k)))
        builder.store(2, place, builder.load(2, place) + builder.load(1, k))
    places, updates = rng.integers(0, 10, 200), rng.normal(size=200).astype(np.float32)
    expected = np.ones(10, np.float32)
    np.add.at(expected, places, updates)
    (found,) = run(device, builder.program("scatter"), [places, updates], [np.ones(10, np.float32)], [200])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [0, 1, 65, 300, 65535 * 64 + 65])
def test_grid(device: WebGpuDevice, size: int) -> None:
    """Each point writes its number if that is near the end, or a multiple of 4096."""
    builder = Builder([], ["int32", "int32"])
    total, index = builder.param(), builder.grid(0)
    with builder.if_(call("eq", index % 4096, int32(0))):
        builder.store(0, index / 4096, index)
    with builder.if_(index >= total - 100):
        builder.store(1, index - (total - 100), index)
    outputs = [np.full(1100, -1, np.int32), np.full(100, -1, np.int32)]
    some, last = run(device, builder.program("points", [total]), [], outputs, [size])
    every = np.arange(0, size, 4096)
    np.testing.assert_array_equal(some[: every.size], every)
    assert (some[every.size :] == -1).all()
    expected = np.arange(size - 100, size)
    np.testing.assert_array_equal(last, np.where(expected < 0, -1, expected))


@pytest.mark.parametrize("shape", [(3, 5), (70, 1), (1, 70), (4, 5, 6), (2, 0, 3), (2, 3, 4, 5)])
def test_grids_of_several_axes(device: WebGpuDevice, shape: tuple[int, ...]) -> None:
    builder = Builder([], ["int32"])
    sizes = [builder.param() for _ in shape]
    flat, digits = int32(0), int32(0)
    for axis, extent in enumerate(sizes):
        flat = flat * extent + builder.grid(axis)
        digits = digits * 100 + builder.grid(axis)
    builder.store(0, flat, digits)
    (found,) = run(device, builder.program("axes", sizes), [], [np.zeros(shape, np.int32)], shape)
    digits = sum(index * 100 ** (len(shape) - 1 - k) for k, index in enumerate(np.indices(shape)))
    np.testing.assert_array_equal(found, digits)


def test_extents_may_be_expressions(device: WebGpuDevice) -> None:
    builder = Builder([], ["int32"])
    half, index = builder.param(), builder.grid(0)
    builder.store(0, index, index)
    program = builder.program("twice", [half * 2 + 1])
    (found,) = run(device, program, [], [np.full(20, -1, np.int32)], [5])
    assert found.tolist() == [*range(11), *[-1] * 9]


def test_workgroups() -> None:
    def counted(*sizes: int) -> tuple[int, int]:
        return workgroups("counted", sizes, 65535)

    assert counted() == (1, 1)
    assert counted(0) == counted(5, 0) == (0, 0)
    assert counted(65) == (2, 1)
    assert counted(65535 * 64) == (65535, 1)
    assert counted(65535 * 64 + 1) == (32768, 2)
    with pytest.raises(EPFail, match="'counted' has 10,000,000,000 points"):
        counted(100_000, 100_000)


def test_many_parameters(device: WebGpuDevice) -> None:
    builder = Builder([], ["int32"])
    params = [builder.param() for _ in range(75)]
    total = int32(0)
    for k, param in enumerate(params):
        total = total + param * (k + 1)
    builder.store(0, int32(0), total)
    numbers = [(-1) ** k * k * 1001 for k in range(75)]
    (found,) = run(device, builder.program("parameters"), [], [np.zeros(1, np.int32)], numbers)
    assert found.tolist() == [sum((k + 1) * number for k, number in enumerate(numbers))]


def test_deep_expressions(device: WebGpuDevice) -> None:
    def chain(x: Value) -> Value:
        for k in range(150):
            x = call("max", x * 1.5 - float(k), const("float32", -4.0)) * 0.5
        return x

    array = np.linspace(-3, 3, 50, dtype=np.float32)
    expected = array
    for k in range(150):
        expected = np.maximum(expected * np.float32(1.5) - np.float32(k), np.float32(-4)) * np.float32(0.5)
    np.testing.assert_allclose(apply(device, ["float32"], "float32", chain, array), expected, rtol=1e-6)


def test_what_is_shared_is_computed_once() -> None:
    def doubled(x: Value) -> Value:
        for _ in range(7):
            x = x * x + x
        return x

    program = Program.from_json(elementwise(["float32"], "float32", doubled).json())
    text = shader(program).wgsl
    assert text.count("*") < 20
    assert text == shader(program).wgsl


def test_constant_expressions(device: WebGpuDevice) -> None:
    """What overflows among constants is an error in WGSL; here it wraps, or is infinite."""
    biggest, lowest = const("int32", 2**31 - 1), const("int32", -(2**31))
    builder = Builder([], ["int32", "float32", "uint32", "bool", "int8"])
    zero = const("int32", 0)
    integers = [biggest + 1, lowest - 1, biggest * 2, call("neg", lowest), call("abs", lowest), biggest / zero]
    integers += [call("shl", biggest, const("int32", 40)), lowest / -1, cast("int32", const("float32", 1e20))]
    integers += [cast("int32", const("uint32", 2**32 - 1)), Value(["bitcast", "int32", const("float32", np.inf).code])]
    floats = [const("float32", 3e38) * 10, const("float32", -3e38) - 3e38, const("float32", 1) / 0.0]
    floats += [Value(["bitcast", "float32", const("int32", 0x7F800000).code]), call("exp", const("float32", 1000))]
    unsigned = [const("uint32", 0) - 1, call("neg", const("uint32", 5)), cast("uint32", const("int32", -1))]
    for buffer, values in enumerate([integers, floats, unsigned]):
        for k, value in enumerate(values):
            builder.store(buffer, const("int32", k), value)
    builder.store(3, zero, call("lt", const("float32", np.nan), const("float32", 1)))
    builder.store(4, zero, const("int8", 127) + 1)
    outputs = [np.zeros(16, dtype) for dtype in ("int32", "float32", "uint32", "bool", "int8")]
    ints, reals, words, truth, small = run(device, builder.program("constants"), [], outputs)
    low, high = -(2**31), 2**31 - 1
    assert ints[:11].tolist() == [low, high, -2, low, low, 0, 0, low, high, -1, 0x7F800000]
    assert reals[:5].tolist() == [np.inf, -np.inf, np.inf, np.inf, np.inf]
    assert words[:3].tolist() == [2**32 - 1, 2**32 - 5, 2**32 - 1]
    assert not truth[0]
    assert small[0] == -128


def test_names_that_wgsl_reserves(device: WebGpuDevice) -> None:
    one = ["const", "int32", 1]
    body = (
        ["let", "let", one],
        ["let", "b0", ["add", "int32", ["var", "int32", "let"], one]],
        ["for", "loop", ["const", "int32", 3], [["set", "b0", ["add", "int32", ["var", "int32", "b0"], one]]]],
        ["store", 0, ["const", "int32", 0], ["var", "int32", "b0"]],
    )
    program = Program("a name\nof two lines", (), ("int32",), 0, (), body)
    assert run(device, program, [], [np.zeros(1, np.int32)])[0].tolist() == [5]


def test_unsupported_dtypes() -> None:
    with pytest.raises(NotImplementedError, match="WGSL has no float64"):
        shader(elementwise(["float64"], "float64", lambda x: x))
    with pytest.raises(NotImplementedError, match="sin takes float, not int32"):
        shader(elementwise(["int32"], "int32", lambda x: call("sin", x)))
