"""Kernels made from primitives, run by the host and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sardonyx.code.kernel import Kernel
from sardonyx.common import dtypes
from sardonyx.compiler.finish import finish
from sardonyx.compiler.lower import FOLD, KernelBuilder
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.polynomial import Poly
from sardonyx.sizes.symbolic import Guards, Size
from sardonyx_wasm import kernels
from sardonyx_wasm.generator import Generator
from sardonyx_wasm.hosts import host
from tests.support.division import value

Numbers = np.ndarray[Any, Any]
Expression = Callable[..., Array]


def trace_of(
    expression: Expression, arrays: Sequence[Numbers], shapes: Sequence[Sequence[Size]] | None = None
) -> tuple[Trace, list[Array], Array]:
    trace = Trace(Guards())
    with trace:
        sizes = shapes or [x.shape for x in arrays]
        inputs = [trace.input(dtypes.of(x.dtype), tuple(shape)) for x, shape in zip(arrays, sizes, strict=True)]
        return trace, inputs, expression(*inputs)


def kernel_of(output: Array, equations: Sequence[Equation]) -> tuple[Kernel, list[Poly], list[Array]]:
    """One kernel for all equations, its parameters, and what it reads."""
    core = next((e.outputs[0] for e in equations if e.primitive.name in FOLD), None)
    b = KernelBuilder(lambda array: array.equation is None, core)
    b.store_root(output)
    return *finish(b, "kernel"), b.reads


def numpy_of(equations: Sequence[Equation], known: dict[int, Numbers]) -> None:
    for equation in equations:
        inputs = [known.get(x, x.value) for x in equation.inputs]
        results = equation.primitive.numpy(*inputs, **equation.params)
        known |= {x: np.asarray(result) for x, result in zip(equation.outputs, results, strict=True)}


class Loaded:
    """A kernel as a function of the host, with its operands in the host's memory and guards behind them."""

    def __init__(
        self,
        kernel: Kernel,
        params: Sequence[int],
        operands: Sequence[Numbers],
        shape: Any,
        dtype: Any,
        target: str = "wasmtime",
    ) -> None:
        self.host = host()
        unit = Generator(self.host.features, target)
        self.code = kernels.write(unit, kernel)
        unit.module.export(self.code.function, "run")
        self.module = self.host.load(unit.module)
        self.run = self.module.function("run")
        self.params = list(params)
        self.units, self.align = (value(size, params) for size in (self.code.units, self.code.align))
        self.nbytes = max(1, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        self.out = self.host.allocate(-(-self.nbytes // 4) * 4 + 256, 256)
        self.shape, self.dtype = shape, dtype
        self.addresses = []
        for x in operands:
            address = self.host.allocate(max(4, x.nbytes + 3), 256)
            self.host.array(address, (x.nbytes,), np.uint8)[:] = np.ascontiguousarray(x).reshape(-1).view(np.uint8)
            self.addresses.append(address)
        self.room = self.host.array(self.out, (self.nbytes + 256,), np.uint8)

    def result(self, bounds: Sequence[int]) -> Numbers:
        """The output after running these ranges, last first."""
        self.room[:] = 0xA5
        for begin, end in reversed(list(pairwise(bounds))):
            self.run(begin, end, 0, *self.addresses, self.out, *self.params)
        assert (self.room[self.nbytes :] == 0xA5).all()
        return self.host.array(self.out, self.shape, self.dtype).copy()

    def free(self) -> None:
        for address in (*self.addresses, self.out):
            self.host.free(address)


def bounds_of(units: int, align: int, step: int) -> list[int]:
    return sorted({*range(0, units, -(-step // align) * align), units, 0})


def check(
    expression: Expression,
    *arrays: Numbers,
    rtol: float = 2e-6,
    atol: float = 1e-6,
    expected: Numbers | None = None,
    target: str = "wasmtime",
) -> Kernel:
    """Compare the kernel of an expression with its evaluation by NumPy, or with what is given."""
    trace, inputs, output = trace_of(expression, arrays)
    known = dict(zip(inputs, arrays, strict=True))
    numpy_of(trace.equations, known)
    expected = known[output] if expected is None else expected
    kernel, params, reads = kernel_of(output, trace.equations)
    operands = [known[x] if x in known else np.asarray(x.value) for x in reads]
    numbers = [evaluate(size.json(), {}) for size in params]
    compare(kernel, numbers, operands, expected, rtol, atol, target)
    return kernel


def compare(
    kernel: Kernel,
    params: Sequence[int],
    operands: Sequence[Numbers],
    expected: Numbers,
    rtol: float,
    atol: float,
    target: str = "wasmtime",
) -> None:
    """Run a kernel whole and by ranges: the results are near what is expected, and the same bits."""
    loaded = Loaded(kernel, params, operands, expected.shape, expected.dtype, target)
    whole = loaded.result([0, loaded.units])
    if expected.dtype.kind == "f":
        size = {2: 2e-3, 4: rtol, 8: 1e-12}[expected.dtype.itemsize]
        np.testing.assert_allclose(whole.astype(float), expected.astype(float), size, atol)
    else:
        np.testing.assert_array_equal(whole, expected)
    for step in (1, 2, 5, 16):
        again = loaded.result(bounds_of(loaded.units, loaded.align, step))
        assert again.tobytes() == whole.tobytes(), f"ranges of {step}"
        if loaded.units > 64:
            break
    loaded.free()


def check_sizes(
    expression: Expression, shapes: Sequence[Sequence[int | str]], sizes: Sequence[dict[str, int]], rtol: float = 1e-5
) -> None:
    """One kernel for shapes with names in them, run at other sizes than it was made for."""
    trace = Trace(Guards())
    with trace:
        names = {name for shape in shapes for name in shape if isinstance(name, str)}
        dims = {name: trace.guards.symbol(name, 8 + at) for at, name in enumerate(sorted(names))}
        inputs = [
            trace.input(dtypes.float32, tuple(dims[size] if isinstance(size, str) else size for size in shape))
            for shape in shapes
        ]
        output = expression(*inputs)
        kernel, params, reads = kernel_of(output, trace.equations)
    for values in sizes:
        arrays = [normal(*(values[size] if isinstance(size, str) else size for size in shape)) for shape in shapes]
        concrete, again, result = trace_of(expression, arrays)
        known = dict(zip(again, arrays, strict=True))
        numpy_of(concrete.equations, known)
        operands = [arrays[inputs.index(x)] for x in reads]
        numbers = [evaluate(size.json(), values) for size in params]
        compare(kernel, numbers, operands, known[result], rtol, 1e-6)


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Numbers:
    """Some numbers of a dtype."""
    rng = np.random.default_rng(seed + sum(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0 if np.dtype(dtype).kind == "u" else -100, 100, shape).astype(dtype)
    return rng.normal(size=shape).astype(dtype)
