"""Casts and bitcasts between all dtypes, and literals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sardonyx.code import scalar
from sardonyx.code.program import Builder, Value, cast, const
from sardonyx.common import dtypes
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.webgpu.harness import FLOATS, SIGNED, UNSIGNED, apply, edges, run

DTYPES = [*FLOATS, "bfloat16", *SIGNED, *UNSIGNED, "bool"]


def values(dtype: str) -> np.ndarray:
    """What is cast: the edges of all dtypes that this one can hold."""
    if dtype == "bool":
        return edges("bool")
    parts = [edges(name) for name in ("float32", "int32", "int64", "uint64") if name in (dtype, "float32")]
    rng = np.random.default_rng(1)
    if dtype in ("float32", "float16", "bfloat16"):
        spread = np.concatenate([rng.normal(size=200) * 10.0**k for k in range(-8, 20)])
        limits = [2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1.0, -0.5, 0.0, 0.5, 1.0)]
        halves = [2049.0, 2051.0, 65519.0, 65520.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-24, 2.0**-25, 6e-8, 1e-7]
        parts += [spread.astype(np.float32), np.array([*limits, *(-x for x in limits), *halves], np.float32)]
        together = np.concatenate(parts)
        with np.errstate(all="ignore"):
            if dtype == "bfloat16":
                return together.astype(ml_dtypes.bfloat16).view(np.uint16)
            return together.astype(dtype)
    info = np.iinfo(dtype)
    ties = [(1 << k) + d for k in range(24, 64) for d in (-1, 0, 1, 1 << max(0, k - 24), 3 << max(0, k - 24))]
    ties = [x for y in ties for x in (y, -y) if info.min <= x <= info.max]
    random = rng.integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    return np.concatenate([edges(dtype), np.array(ties, dtype), random])


def known(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.view(ml_dtypes.bfloat16).astype(np.float32) if dtype == "bfloat16" else array


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", DTYPES)
def test_cast(device: WebGpuDevice, source: str, target: str) -> None:
    array = values(source)
    found = apply(device, [source], target, lambda x: cast(target, x), array)
    wide = known(array, source)
    with np.errstate(all="ignore"):
        if target == "bfloat16":
            expected = wide.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)
        else:
            expected = scalar.cast(wide, dtypes.by_name(target).storage)
    result = known(found, target)
    if source == "float32" and target == "float32":
        assert found.tobytes() == array.tobytes()
    np.testing.assert_array_equal(result, expected)


def bitcast(dtype: str, x: Value) -> Value:
    return Value(["bitcast", dtype, x.code])


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (8, ["int8", "uint8"]),
        (16, ["int16", "uint16", "float16", "bfloat16"]),
        (32, ["int32", "uint32", "float32"]),
        (64, ["int64", "uint64"]),
    ],
)
def test_bitcast(device: WebGpuDevice, width: int, names: list[str]) -> None:
    words = np.random.default_rng(0).integers(0, 1 << width, 64, f"u{width // 8}", endpoint=False)
    for name in names:
        if "float" in name:  # WGSL keeps no NaN's bits
            words = words[~np.isnan(known(words.view(dtypes.by_name(name).storage), name))]
    for source in names:
        array = words.view(dtypes.by_name(source).storage)
        for target in names:
            found = apply(device, [source], target, lambda x, target=target: bitcast(target, x), array)
            assert found.tobytes() == array.tobytes(), (source, target)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_small_integers(device: WebGpuDevice, dtype: str) -> None:
    kind = dtypes.by_name(dtype)
    low, high = (
        (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.kind == "int" else (0, (1 << kind.bits) - 1)
    )
    every = np.arange(low, high + 1, dtype=kind.storage)
    np.testing.assert_array_equal(apply(device, [dtype], "float32", lambda x: cast("float32", x), every), every)
    integers = np.arange(-40, 40, dtype=np.int32)
    wrapped = (integers - low) % (high - low + 1) + low
    np.testing.assert_array_equal(apply(device, ["int32"], dtype, lambda x: cast(dtype, x), integers), wrapped)
    floats = np.array([-100.5, -8.7, -3.2, -0.5, 0, 1.9, 2.5, 7.5, 14.2, 15.9, 99, np.nan, np.inf], np.float32)
    limited = np.clip(np.trunc(np.nan_to_num(floats, posinf=1000)), low, high)
    np.testing.assert_array_equal(apply(device, ["float32"], dtype, lambda x: cast(dtype, x), floats), limited)


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED, "bool"])
def test_literal(device: WebGpuDevice, dtype: str) -> None:
    numbers = edges(dtype)
    if dtype == "float32":
        more = [0.1, 3.4028235e38, -3.4028235e38, 16777217.0, 1e-30, 123456.789]
        numbers = np.concatenate([numbers, np.array(more, np.float32)])
    builder = Builder([], [dtype])
    for k, number in enumerate(numbers.tolist()):
        builder.store(0, const("int32", k), const(dtype, number))
    (found,) = run(device, builder.program("literals"), [], [np.zeros(numbers.size, numbers.dtype)])
    if dtype in FLOATS:
        nan = np.isnan(numbers)
        assert np.isnan(found[nan]).all()
        found, numbers = found[~nan], numbers[~nan]
    assert found.tobytes() == numbers.tobytes()
