"""Products with matrices of four bits, as onnxruntime has them."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx import errors

from .microsoft import ON_ALL, Call, check
from .test_samples import assert_near

RNG = np.random.default_rng(0)


def noise(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def code(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def bitsandbytes(kind: int, block: int, k: int, n: int, *outer: int, transposed: int = 1) -> Call:
    weights = [code((n * k + 1) // 2), noise(-(-n * k // block))]
    attributes = {"quant_type": kind, "block_size": block, "K": k, "N": n, "transB": transposed}
    return Call("MatMulBnb4", [noise(*outer, k if transposed else n), *weights], attributes, constant=(1, 2))


def blob(kind: int, k: int, n: int, *outer: int) -> Call:
    """Columns of blocks: a scale, a zero point if there is one, and 32 numbers, lower halves of the bytes first."""
    blocks = -(-k // 32)
    parts = [noise(n, blocks, 1).view(np.uint8), RNG.integers(0, 16, (n, blocks, kind)), code(n, blocks, 16)]
    stored = np.concatenate(parts, 2).astype(np.uint8).reshape(-1)
    return Call("MatMulFpQ4", [noise(*outer, k), stored, np.array([k, n])], {"blk_quant_type": kind}, constant=(1, 2))


CASES = {
    "FP4": bitsandbytes(0, 16, 32, 5, 2, 3),
    "NF4": bitsandbytes(1, 32, 64, 3, 4),
    "blocks across rows": bitsandbytes(1, 64, 5, 7, 1),
    "one number": bitsandbytes(0, 16, 1, 1, 1),
}
BLOBS = {
    "no zero points": blob(0, 40, 3, 2, 5),
    "zero points": blob(1, 40, 3, 2, 5),
    "whole blocks": blob(1, 64, 5, 1),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


@ON_ALL
@pytest.mark.parametrize("name", BLOBS)
def test_blobs(name: str, provider: str) -> None:
    """Against float64: onnxruntime has this operator where processors have AVX-512 alone."""
    call = BLOBS[name]
    x, stored, shape = (each for each in call.inputs if each is not None)
    kind, n = call.attributes["blk_quant_type"], shape[1]
    blocks = stored.reshape(n, -1, 20 + kind)
    scales = np.ascontiguousarray(blocks[..., :4]).view(np.float32).astype(np.float64)
    codes = np.concatenate([blocks[..., 4 + kind :] & 15, blocks[..., 4 + kind :] >> 4], -1)
    columns = (codes - (blocks[..., 4:5].astype(np.float64) if kind else 8.0)) * scales
    assert_near(call.run(provider), [(x @ columns.reshape(n, -1)[:, : shape[0]].T).astype(np.float32)], 1e-5)


def test_product_with_rows_that_are_not_transposed() -> None:
    """onnxruntime's CPU provider takes the wrong stride here: the reference is the product of its own other form."""
    call = bitsandbytes(1, 16, 4, 8, 3, transposed=0)
    own = {**call.attributes, "transB": 1}
    (columns,) = Call(call.op_type, [np.eye(4, dtype=np.float32), *call.inputs[1:]], own).expected()
    assert call.inputs[0] is not None
    assert_near(call.run("eager"), [call.inputs[0] @ columns.T], 1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            Call("MatMulBnb4", [noise(2, 8), code(9), noise(2)], bitsandbytes(0, 16, 8, 4, 2).attributes),
            "not those of 4",
        ),
        (Call("MatMulBnb4", [noise(2, 8), code(16), noise(2)], bitsandbytes(2, 16, 8, 4, 2).attributes), "use 0 for"),
        (Call("MatMulFpQ4", [noise(2, 32), code(41), np.array([32, 2])]), "B .41. is not 2 columns of 1 blocks of 21"),
        (Call("MatMulFpQ4", blob(1, 32, 2, 2).inputs, {"blk_quant_type": 2}), "use 0 or 1"),
    ],
)
def test_errors(call: Call, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        call.run("eager")
