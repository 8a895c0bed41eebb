"""Integers of weights, bit by bit as onnxruntime's kernels and the vendored neural_compressor make them."""

import warnings
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi import _pybind_state as native

from sardonyx.model.serde.tensors import pack
from sardonyx.passes.blockwise import PORTION, pack_columns, quantize_blocks
from sardonyx.quantization.groupwise import k_quant, round_to_nearest
from sardonyx.quantization.table import quantize_table
from tests.quantization.weights import filled

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantizer
    from onnxruntime.quantization.neural_compressor import weight_only

KERNELS = {2: native.quantize_matmul_2bits, 4: native.quantize_matmul_4bits, 8: native.quantize_matmul_8bits}
SHAPES = [
    *(
        (64, 8, 16),
        (100, 5, 16),
        (1, 3, 32),
        (2, 2, 16),
        (3, 4, 16),
        (17, 1, 16),
        (33, 7, 32),
        (34, 3, 16),
        (35, 3, 16),
    ),
    *((48, 6, 16), (49, 3, 16), (67, 3, 16), (64, 1, 64), (65, 1, 64), (80, 3, 16), (300, 64, 128), (500, 333, 32)),
]
"""Rows, columns and block sizes."""


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_bytes_scales_and_zero_points_are_the_kernels(dtype: Any, bits: int, symmetric: bool) -> None:
    for rows, columns, size in SHAPES:
        weight, count = filled((rows, columns), dtype, rows), -(-rows // size)
        packed = np.zeros((columns, count, size * bits // 8), np.uint8)
        scales = np.zeros((columns, count), dtype)
        zeros = np.zeros((columns, -(-count * bits // 8)), np.uint8)
        padded = np.pad(weight, ((0, count * size - rows), (0, 0)))
        KERNELS[bits](packed, padded, scales, zeros, size, columns, rows, symmetric)
        found = pack_columns(quantize_blocks(weight, bits, size, symmetric), bits, size)
        for ours, theirs in zip(found[:2] if symmetric else found, (packed, scales, zeros)):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            np.testing.assert_array_equal(ours, theirs, f"{rows}x{columns}, blocks of {size}")


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_dequantizelinear_reads_is_the_kernels(dtype: Any, symmetric: bool) -> None:
    for rows, columns, size in [*SHAPES, (50, 50, 50), (49, 3, 49)]:
        weight, count = filled((rows, columns), dtype, rows), -(-rows // size)
        packed, scales = np.zeros((rows * columns + 1) // 2, np.uint8), np.zeros((count, columns), dtype)
        zeros = np.zeros((count * columns + 1) // 2, np.uint8)
        native.quantize_qdq_matmul_4bits(packed, weight, scales, zeros, size, columns, rows, symmetric)
        blocks = quantize_blocks(weight, 4, size, symmetric, fused_rounding=False)
        np.testing.assert_array_equal(pack((blocks.integers ^ 8 * symmetric).reshape(-1), 4), packed)
        np.testing.assert_array_equal(blocks.scales, scales)
        if not symmetric:
            np.testing.assert_array_equal(pack(blocks.zero_points.reshape(-1), 4), zeros)


def test_what_is_quantized_in_portions_is_the_same() -> None:
    weight = filled((4096, PORTION // 4096 + 3))
    blocks, last = quantize_blocks(weight, 4, 128, False), quantize_blocks(weight[:, -2:], 4, 128, False)
    np.testing.assert_array_equal(blocks.integers[:, -2:], last.integers)
    np.testing.assert_array_equal(blocks.scales[:, -2:], last.scales)


@pytest.mark.parametrize(("bits", "symmetric"), [(bits, symmetric) for bits in KERNELS for symmetric in (True, False)])
def test_elements_are_within_a_step_of_the_weight(bits: int, symmetric: bool) -> None:
    weight = filled((96, 20)).astype(np.float64)
    blocks = quantize_blocks(weight.astype(np.float32), bits, 32, symmetric)
    scales = np.repeat(blocks.scales.astype(np.float64), 32, axis=0)
    steps = blocks.integers.astype(int) - np.repeat(blocks.zero_points.astype(int), 32, axis=0)
    assert (np.abs(steps * scales - weight) <= (1.0 if symmetric else 0.501) * np.abs(scales) + 1e-6).all()


@pytest.mark.parametrize("bits", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_groups_are_those_of_neural_compressor(dtype: Any, bits: int) -> None:
    for size in (16, 32, 128):
        groups = filled((64, size), dtype, size)
        groups[:4] = [[0], [2], [-3], [100]]
        groups[4, 1:] = 0
        with np.errstate(all="ignore"):
            cases = [
                (
                    round_to_nearest(groups, bits, scheme == "sym", ratio),
                    weight_only.quant_tensor(groups, bits, size, scheme, "uint", ratio),
                )
                for scheme in ("sym", "asym")
                for ratio in (1.0, 0.9)
            ]
            cases.append((k_quant(groups, bits), weight_only.quant_tensor_k_quant_cpu(groups, bits, size)))
        for ours, theirs in cases:
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_tables_are_those_of_onnxruntimes_tool(dtype: Any, symmetric: bool) -> None:
    for shape, axis in (((50, 80), 1), ((50, 37), 0), ((3, 20, 5), 1), ((7, 1), 1), ((40, 16, 3), 0)):
        table = filled(shape, dtype)
        with np.errstate(all="ignore"):
            packed, scales, zeros = DefaultWeightOnlyQuantizer.quantize_ndarray(table, axis, 16, symmetric)
        integers, own_scales, own_zeros = quantize_table(table, axis, 16, symmetric)
        np.testing.assert_array_equal(pack(integers.reshape(-1).view(np.uint8), 4), packed)
        np.testing.assert_array_equal(own_scales, scales)
        assert own_scales.dtype == dtype
        if symmetric:
            assert not own_zeros.any()
        else:
            np.testing.assert_array_equal(pack(own_zeros.reshape(-1), 4), zeros)
