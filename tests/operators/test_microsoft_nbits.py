"""Weights of a few bits, as onnxruntime has them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from sardonyx import InferenceSession, errors
from sardonyx.primitives.evaluation import FOLD_LIMIT
from tests.engine.providers import require_provider

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)
INDICES = np.array([[0, 5], [-1, 2]])


def noise(*shape: int, dtype: type[np.floating] = np.float32) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def code(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def product(bits: int, block: int, k: int, n: int, zero: str = "", dtype: type[np.floating] = np.float32) -> Call:
    """A MatMulNBits with zero points that are `packed`, of the type of A (`float`), or left out."""
    blocks = -(-k // block)
    zeros = {"packed": code(n, -(-blocks * bits // 8)), "float": noise(n, blocks, dtype=dtype) * 5}
    attributes = {"bits": bits, "block_size": block, "K": k, "N": n}
    weights = [code(n, blocks, block * bits // 8), noise(n, blocks, dtype=dtype), zeros.get(zero)]
    return Call("MatMulNBits", [noise(2, 3, k, dtype=dtype), *weights], attributes, constant=(1, 2, 3))


def bias() -> Call:
    call = product(4, 16, 32, 5)
    call.inputs += [None, noise(5)]
    return call


def flat() -> Call:
    """Scales and zero points in one dimension, as exporters wrote them."""
    call = product(4, 16, 48, 5, "packed")
    call.inputs[2:] = [x.reshape(-1) for x in call.inputs[2:] if x is not None]
    return call


def table(bits: int, zero: bool = False, indices: np.ndarray = INDICES) -> Call:
    data = [code(6, 8 * bits), indices, noise(6, 4), code(6, bits // 2 or 1) if zero else None]
    return Call("GatherBlockQuantized", data, {"bits": bits, "block_size": 16}, constant=(0, 2, 3))


def small_table(dtype: type, gather: int, quantize: int, block: int = 16, zero: bool = False) -> Call:
    """A table of a type that NumPy lacks, whose blocks are along one axis."""
    shape = (6, 40, 3)
    blocks = [-(-size // block) if k == quantize % 3 else size for k, size in enumerate(shape)]
    data = RNG.integers(0, 8, shape).astype(dtype)
    zeros = RNG.integers(0, 8, blocks).astype(dtype) if zero else None
    attributes = {"gather_axis": gather, "quantize_axis": quantize, "block_size": block}
    return Call("GatherBlockQuantized", [data, INDICES % shape[gather], noise(*blocks), zeros], attributes)


CASES = {
    "4 bits": product(4, 16, 32, 5),
    "4 bits, zero points": product(4, 32, 80, 7, "packed"),
    "4 bits, float zero points": product(4, 16, 40, 3, "float"),
    "4 bits, half": product(4, 16, 40, 3, "packed", np.float16),
    "2 bits": product(2, 16, 40, 3),
    "2 bits, zero points": product(2, 32, 80, 7, "packed"),
    "8 bits": product(8, 16, 40, 3),
    "8 bits, zero points": product(8, 32, 80, 7, "packed"),
    "bias": bias(),
    "flat": flat(),
    **{f"table of {bits} bits": table(bits) for bits in (2, 4, 8)},
    "table, zero points": table(4, zero=True),
    "table, indices out of range": table(4, True, np.array([1, 9, -9, 6])),
    "table of uint4": small_table(ml_dtypes.uint4, 0, 1, zero=True),
    "table of int4 in blocks along the axis of the indices": small_table(ml_dtypes.int4, 1, 1, zero=True),
    "table of int4, axes from the end": small_table(ml_dtypes.int4, -1, -2),
    "table of int4, blocks before": small_table(ml_dtypes.int4, 1, 0),
    "table of float8": small_table(ml_dtypes.float8_e4m3fn, 0, 1),
    "table of float4": small_table(ml_dtypes.float4_e2m1fn, 0, 1),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


def test_scales_of_the_whole_table() -> None:
    data = RNG.normal(size=(6, 40)).astype(ml_dtypes.float8_e5m2)
    for scales in (noise(6, 1), noise(1, 1)):
        check(Call("GatherBlockQuantized", [data, INDICES, scales], {"block_size": 0}), "eager")


def test_weights_stay_as_they_are() -> None:
    """Large weights are unpacked when they are read, not when the model is loaded."""
    call = product(4, 32, 512, 256, "packed")
    session = InferenceSession(call.model(unknown_sizes=True).SerializeToString(), providers=["NumpyExecutionProvider"])
    assert_near(session.run(None, call.feeds), call.expected(), 1e-5)
    held = session.plans[0].weights.values()
    assert max(weight.nbytes for weight in held) == 256 * 512 // 2
    assert FOLD_LIMIT < 256 * 512


GROUPS = {
    "in order": np.arange(48) // 16,
    "mixed": RNG.permutation(np.arange(48) // 16),
    "of any sizes": RNG.integers(0, 3, 48),
}


@ON_ALL
@pytest.mark.parametrize("groups", GROUPS)
def test_groups(groups: str, provider: str) -> None:
    call = product(4, 16, 48, 5)
    call.inputs += [GROUPS[groups].astype(np.int32)]
    call.constant = (1, 2, 4)
    check(call, provider)


@ON_ALL
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_groups_with_zero_points(bits: int, groups: str, held: bool, provider: str) -> None:
    """onnxruntime forgets the zero points where there are groups, and has no groups of 2 and 8 bits."""
    require_provider(provider)
    call, group = product(bits, 16, 48, 5, "packed"), GROUPS[groups].astype(np.int32)
    call.inputs += [group]
    call.constant = (1, 2, 3, 4) if held else ()
    a, b, scales, zeros, _ = call.inputs
    assert a is not None
    assert b is not None
    assert scales is not None
    assert zeros is not None
    numbers, zero = (
        np.stack([x.reshape(5, -1) >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], -1).reshape(5, -1)
        for x in (b, zeros)
    )
    weights = (numbers.astype(float) - zero[:, group]) * scales[:, group]
    assert_near(call.run(provider), [(a @ weights.T).astype(np.float32)], 1e-5)


def test_groups_stay_as_small_as_they_are() -> None:
    """Blocks whose numbers lie in another order have them in order before a run."""
    call = product(4, 32, 512, 256, "packed")
    call.inputs += [RNG.permutation(np.arange(512) // 32).astype(np.int32)]
    call.constant = (1, 2, 3, 4)
    model = call.model(unknown_sizes=True).SerializeToString()
    session = InferenceSession(model, providers=["WasmExecutionProvider"])
    session.run(None, call.feeds)
    names = [code["name"] for code in session.plans[0].codes]
    assert "matmul_nbits" in names
    assert "matmul" not in names


def test_groups_of_too_few() -> None:
    call = product(4, 16, 32, 5)
    call.inputs += [np.zeros(31, np.int32)]
    with pytest.raises(errors.RuntimeException, match="g_idx has 31 elements; give the block of each of 32 numbers"):
        call.run("eager")
