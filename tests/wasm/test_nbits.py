"""What becomes of products with dequantized weights before they are fused, evaluated with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.ops.microsoft.nbits import unpack
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import Guards
from sardonyx_wasm.abi import HOSTED
from sardonyx_wasm.legalization import legalize

TARGETS = pytest.mark.parametrize("target", ["wasmtime", "v8"])
RNG = np.random.default_rng(0)


def matmul_nbits(a: np.ndarray, b: np.ndarray, scales: np.ndarray, zeros: np.ndarray, bits: int, block: int) -> Any:
    """float64 [M, panels * nr]."""
    if bits == 4:
        order = np.array([0, 16, 4, 20, 8, 24, 12, 28])
        numbers = (b[:, :, None] >> order[:, None]) & 15
    else:
        numbers = b.swapaxes(2, 3)
    panels, nr = b.shape[0], scales.shape[-1]
    numbers = numbers.reshape(panels, -1, nr).astype(float)
    spread = (np.repeat(x.astype(float), block, 1) for x in (zeros, scales))
    weights = (numbers - next(spread)) * next(spread)
    return a.astype(float) @ np.moveaxis(weights, 0, 1).reshape(-1, panels * nr)


def unpacked(b: np.ndarray) -> np.ndarray:
    return b if b.ndim == 2 else np.moveaxis(b, 0, 1).reshape(b.shape[1], -1)


def evaluate(trace: Trace, feed: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """The trace's output, and the parameters of the primitives in use."""
    known = {trace.inputs[0]: feed}
    for equation in trace.equations:
        (output,) = equation.outputs
        operands = [known[x] if x.value is None else x.value for x in equation.inputs]
        name = equation.primitive.name
        if name in ("matmul", "matmul_packed"):
            known[output] = np.matmul(operands[0], unpacked(operands[1])[:, : output.shape[1]])
        elif name == "matmul_nbits":
            assert operands[0].shape[1] == operands[2].shape[1] * equation.params["block"]
            assert operands[2].shape == operands[3].shape
            assert operands[3].dtype == np.int16
            known[output] = matmul_nbits(*operands, equation.params["bits"], equation.params["block"])[
                :, : output.shape[1]
            ]
        else:
            known[output] = equation.primitive.numpy(*operands, **equation.params)[0]
        assert known[output].shape == output.shape, name
    return known[trace.outputs[0]], {e.primitive.name: e.params for e in trace.equations}


@pytest.fixture(autouse=True)
def unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights count as large, so that what depends on them is recorded."""
    monkeypatch.setattr("sardonyx.primitives.evaluation.FOLD_LIMIT", 0)


def check(target: str, shape: tuple[int, ...], function: Callable[[Array], Array]) -> dict[str, Any]:
    """Compare before and after; gives the primitives in use."""
    trace = Trace(Guards())
    with trace:
        trace.give([function(trace.input(dtypes.float32, shape))])
    feed = RNG.standard_normal(shape).astype(np.float32)
    expected, _ = evaluate(trace, feed)
    legalize(trace, {-1}, target)
    found, used = evaluate(trace, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    return used


def integers(dtype: Any, *shape: int, low: int | None = None, high: int | None = None) -> Array:
    limits = np.iinfo(dtype)
    found = RNG.integers(limits.min if low is None else low, limits.max if high is None else high, shape, endpoint=True)
    return constant(found.astype(dtype))


def scales(*shape: int) -> Array:
    return constant(RNG.uniform(0.01, 0.1, shape).astype(np.float32))


def linear(numbers: Array, scale: Array, zero: Array | None = None) -> Array:
    """As DequantizeLinear spells it."""
    wide = p.cast(numbers, dtypes.int32)
    difference = wide if zero is None else wide - p.cast(zero, dtypes.int32)
    return p.cast(difference, dtypes.float32) * scale


@TARGETS
@pytest.mark.parametrize("zeros", [False, True])
def test_bytes_of_4_bits(target: str, zeros: bool) -> None:
    """As MatMulNBits spells it: [N, blocks, bytes]."""
    numbers, scale = integers(np.uint8, 40, 4, 16), scales(40, 4, 1, 1)
    zero = integers(np.uint8, 40, 4, 1, 1, high=15)

    def function(x: Array) -> Array:
        offset = p.cast(zero, dtypes.float32) if zeros else 8.0
        weights = (p.cast(unpack(numbers, 4), dtypes.float32) - offset) * scale
        return p.dot_general(p.reshape(x, (2, 2, 4, 16, 2)), weights, ([2, 4, 3], [1, 2, 3]))

    used = check(target, (2, 2, 128), function)
    assert used["matmul_nbits"] == {"bits": 4, "block": 32}
    assert "dot_general" not in used


@pytest.mark.parametrize(
    ("target", "rows", "panel"), [("wasmtime", 40, True), ("wasmtime", 4, False), ("v8", 40, False)]
)
def test_blas_takes_many_rows_natively(target: str, rows: int, panel: bool) -> None:
    numbers, scale = integers(np.uint8, 4, 32, 50), scales(4, 1, 50)
    function = lambda x: p.matmul(x, p.reshape(linear(numbers, scale), (128, 50)))  # noqa: E731
    assert (HOSTED in check(target, (rows, 128), function)["matmul_nbits"]) == panel


@TARGETS
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dtype", "high", "bits"), [(np.uint8, 15, 4), (np.uint8, 255, 8), (np.int8, 127, 8)])
def test_blocks(target: str, transposed: bool, dtype: Any, high: int, bits: int) -> None:
    """As DequantizeLinear spells blocks of either axis."""
    numbers = integers(dtype, *((50, 3, 32) if transposed else (3, 32, 50)), high=high)
    along = (50, 3, 1) if transposed else (3, 1, 50)
    scale, zero = scales(*along), integers(dtype, *along, high=high)

    def function(x: Array) -> Array:
        masked = p.cast(numbers, dtypes.int32) & 15 if bits == 4 else numbers
        weights = p.reshape(linear(masked, scale, zero), (50, 96) if transposed else (96, 50))
        return p.matmul(x, p.transpose(weights, [1, 0]) if transposed else weights)

    assert check(target, (7, 96), function)["matmul_nbits"] == {"bits": bits, "block": 32}


@TARGETS
@pytest.mark.parametrize(("depth", "block"), [(70, 64), (96, 96), (520, 104), (1024, 256)])
@pytest.mark.parametrize("channels", [False, True])
def test_scales_of_columns_and_tensors(target: str, depth: int, block: int, channels: bool) -> None:
    numbers, scale, zero = integers(np.int8, depth, 60), scales(60) if channels else scales(), integers(np.int8, 60)
    used = check(target, (2, depth), lambda x: p.matmul(x, linear(numbers, scale, zero)))
    assert used["matmul_nbits"] == {"bits": 8, "block": block}


@TARGETS
@pytest.mark.parametrize(
    ("dtype", "shape", "scale"),
    [
        (np.int8, (64, 70), (64, 1)),  # one for each row
        (np.int8, (64, 70), (64, 70)),
        (np.int16, (64, 70), (70,)),
        (np.int8, (10, 7), (7,)),  # few
        (np.int8, (12, 6, 70), (12, 1, 70)),  # blocks of 6
    ],
)
def test_what_stays_floats(target: str, dtype: Any, shape: tuple[int, ...], scale: tuple[int, ...]) -> None:
    numbers, factors = integers(dtype, *shape), scales(*scale)
    depth = numbers.value.size // shape[-1] if numbers.value is not None else 0

    def function(x: Array) -> Array:
        return p.matmul(x, p.reshape(linear(numbers, factors), (depth, shape[-1])))

    assert "matmul_nbits" not in check(target, (2, depth), function)
