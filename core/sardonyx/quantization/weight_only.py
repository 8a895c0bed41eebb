"""Nodes with weights of few bits, in place of MatMul and Gather: names and order are onnxruntime's.

MatMul becomes MatMulNBits, or DequantizeLinear before a MatMul; Gather becomes GatherBlockQuantized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import node as new_node
from sardonyx.passes.blockwise import pack_columns, quantize_blocks
from sardonyx.quantization.enums import QuantFormat
from sardonyx.quantization.groupwise import k_quant, round_to_nearest
from sardonyx.quantization.leading_ones import restore_shape
from sardonyx.quantization.table import quantize_table
from sardonyx.quantization.weight_only_config import DefaultWeightOnlyQuantConfig

MICROSOFT = "com.microsoft"
FLOATS = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
SMALLEST_BLOCK = 16
Scope = Sequence[Graph]
"""A graph, after those around it."""


def as_float(tensor: Tensor) -> np.ndarray:
    """The elements of a tensor of floats; bfloat16 as float32."""
    array = tensor.array()
    if tensor.dtype is dtypes.bfloat16:
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


def as_stored(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats as a tensor of this type stores them; bfloat16 is rounded to nearest, halves to even."""
    if dtype is not dtypes.bfloat16:
        return array.astype(dtype.storage, copy=False)
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


class WeightRewriter:
    """Replaces nodes; a weight that several nodes read is stored once."""

    def __init__(self) -> None:
        self._stored: dict[tuple[Value, str], list[Value]] = {}

    def stored(
        self, weight: Value, form: str, scope: Scope, make: Callable[[], dict[str, tuple[np.ndarray, DType]]]
    ) -> list[Value]:
        """The initializers that hold a weight in some form, made once, in the graph that has the weight."""
        if (weight, form) not in self._stored:
            values = [constant(array, dtype, weight.name + name) for name, (array, dtype) in make().items()]
            graph = home(weight, scope)
            graph.initializers += values
            graph.inputs = [value for value in graph.inputs if value is not weight]
            self._stored[weight, form] = values
        return self._stored[weight, form]

    def matmul_nbits(self, node: Node, scope: Scope, config: DefaultWeightOnlyQuantConfig) -> list[Node]:
        """MatMulNBits for a MatMul by a constant of rank 2, or with leading sizes of 1; else the node itself."""
        found = matrix(node, scope)
        if found is None:
            return [node]
        weight, tensor, shape = found
        (rows, columns), bits, size = shape[-2:], config.bits, config.block_size

        def make() -> dict[str, tuple[np.ndarray, DType]]:
            blocks = quantize_blocks(as_float(tensor).reshape(rows, columns), bits, size, config.is_symmetric)
            packed, scales, zero_points = pack_columns(blocks, bits, size)
            stored = {f"_Q{bits}": (packed, dtypes.uint8), "_scales": (as_stored(scales, tensor.dtype), tensor.dtype)}
            return stored if config.is_symmetric else {**stored, "_zero_points": (zero_points, dtypes.uint8)}

        inputs = self.stored(weight, f"nbits {bits} {size} {config.is_symmetric}", scope, make)
        attributes = {"K": rows, "N": columns, "bits": bits, "block_size": size}
        attributes |= {"accuracy_level": config.accuracy_level} if config.accuracy_level else {}
        name = f"{node.name}_Q{bits}" if node.name else ""
        made = new_node("MatMulNBits", [node.inputs[0], *inputs], [""], attributes, MICROSOFT, name)
        return [made, *restore_shape(node, made, shape, home(weight, scope), name or f"{weight.name}_Q{bits}")]

    def grouped_matmul(
        self, node: Node, scope: Scope, method: str, fields: dict[str, Any], ratios: dict[str, float], accuracy: int
    ) -> list[Node]:
        """MatMulNBits for a MatMul by a constant of rank 2, whose integers a method of `groupwise` finds.

        `fields` are bits, 4 or 8, group_size (-1: all of K) and scheme, `sym` or `asym`.
        """
        found = matrix(node, scope)
        if found is None or len(found[2]) != 2:
            return [node]
        weight, tensor, (rows, columns) = found
        bits, symmetric = fields["bits"], fields["scheme"] == "sym" and method == "RTN"
        size = rows if fields["group_size"] == -1 else fields["group_size"]
        if bits not in (4, 8):
            raise InvalidArgument(f"{node.label}: bits={bits}, {method} has 4 and 8 alone")

        def make() -> dict[str, tuple[np.ndarray, DType]]:
            count = -(-rows // size)
            padded = np.zeros((count * size, columns), as_float(tensor).dtype)
            padded[:rows] = as_float(tensor)
            groups = padded.T.reshape(-1, size)
            if method == "RTN":
                integers, scales, zeros = round_to_nearest(groups, bits, symmetric, ratios.get(weight.name, 1))
            else:
                integers, scales, zeros = k_quant(groups, bits)
            stored = {"_scale": (as_stored(scales.reshape(columns, count), tensor.dtype), tensor.dtype)}
            if not symmetric:
                stored["_zp"] = packed_rows(zeros.reshape(columns, count), bits), dtypes.uint8
            packed = packed_rows(integers, bits).reshape(columns, count, -1)
            return {**stored, f"_Q{bits}G{size}": (packed, dtypes.uint8)}

        *parameters, integers = self.stored(weight, f"{method} {bits} {size} {symmetric}", scope, make)
        attributes = {"K": rows, "N": columns, "bits": bits, "block_size": size}
        attributes |= {"accuracy_level": accuracy} if accuracy > 0 else {}
        inputs = [node.inputs[0], integers, *parameters]
        name = f"{node.name}_Q{bits}" if node.name else ""
        made = new_node("MatMulNBits", inputs, [""], attributes, MICROSOFT, name)
        take_outputs(made, node)
        return [made]

    def dequantized_matmul(self, node: Node, scope: Scope, config: DefaultWeightOnlyQuantConfig) -> list[Node]:
        """DequantizeLinear, of 4 bits in blocks along K, before the MatMul.

        Symmetric integers with one block for each column are stored transposed, as onnxruntime has them for NPUs.
        """
        found = matrix(node, scope)
        if found is None:
            return [node]
        weight, tensor, shape = found
        (rows, columns), symmetric = shape[-2:], config.is_symmetric
        size = rows if config.channel_wised_quantize else config.block_size
        transposed = config.channel_wised_quantize and symmetric

        def make() -> dict[str, tuple[np.ndarray, DType]]:
            blocks = quantize_blocks(as_float(tensor).reshape(rows, columns), 4, size, symmetric, fused_rounding=False)
            scales = as_stored(blocks.scales, tensor.dtype)
            if not symmetric:
                integers, zeros = (blocks.integers, dtypes.uint4), (blocks.zero_points, dtypes.uint4)
                return {"_DQ_Q4": integers, "_DQ_scales": (scales, tensor.dtype), "_DQ_zero_points": zeros}
            signed = blocks.integers.astype(np.int8) - np.int8(8)
            if transposed:
                signed, scales = np.ascontiguousarray(signed.T), scales.reshape(columns, 1)
            return {"_DQ_Q4": (signed, dtypes.int4), "_DQ_scales": (scales, tensor.dtype)}

        inputs = self.stored(weight, f"dequantized {size} {symmetric} {transposed}", scope, make)
        prefix = f"{weight.name}_DQ_Q4"
        attributes = {"axis": int(transposed), "block_size": size}
        name = f"{node.name}_DQ_Q4" if node.name else ""
        output = f"{prefix}_output"
        widened = new_node("DequantizeLinear", inputs, [output], attributes, name=name)
        nodes = [widened]
        if transposed:
            nodes.append(new_node("Transpose", widened.outputs, [f"{output}_transposed"], {"perm": [1, 0]}))
        product = new_node("MatMul", [node.inputs[0], nodes[-1].outputs[0]], [""])
        product.name = f"{node.name}_matmul_Q4" if node.name else ""
        return [*nodes, product, *restore_shape(node, product, shape, home(weight, scope), name or prefix)]

    def gather_blocks(self, node: Node, scope: Scope, config: DefaultWeightOnlyQuantConfig) -> list[Node]:
        """GatherBlockQuantized, of 4 bits, for a Gather of a constant; else the node itself."""
        table = node.inputs[0]
        if config.quant_format != QuantFormat.QOperator:
            raise InvalidArgument(f"{node.label}: Gather has the form QOperator alone; QDQ would dequantize all rows")
        if table is None or table.constant is None or not held(table, scope) or table.constant.dtype not in FLOATS:
            return [node]
        tensor, size, symmetric = table.constant, config.block_size, config.is_symmetric
        rank, axis = len(tensor.shape), config.quant_axes.get("Gather", 1)
        if not -rank <= axis < rank:
            raise InvalidArgument(f"{node.label}: quant_axes has {axis} for Gather, its table has {rank} dimensions")
        if size < SMALLEST_BLOCK or size & (size - 1):
            raise InvalidArgument(f"{node.label}: block_size={size}; Gather takes powers of 2 from {SMALLEST_BLOCK} on")
        axis %= rank
        dtype = dtypes.int4 if symmetric else dtypes.uint4

        def make() -> dict[str, tuple[np.ndarray, DType]]:
            integers, scales, zeros = quantize_table(as_float(tensor), axis, size, symmetric)
            stored = {"_Q4": (integers, dtype), "_scales": (as_stored(scales, tensor.dtype), tensor.dtype)}
            return stored if symmetric else {**stored, "_zero_points": (zeros, dtype)}

        integers, *parameters = self.stored(table, f"table {axis} {size} {symmetric}", scope, make)
        attributes = {"gather_axis": node.attribute("axis", 0), "quantize_axis": axis, "block_size": size}
        name = f"{node.name}_Q4" if node.name else ""
        inputs = [integers, node.inputs[1], *parameters]
        made = new_node("GatherBlockQuantized", inputs, [""], attributes, MICROSOFT, name)
        take_outputs(made, node)
        return [made]


def matrix(node: Node, scope: Scope) -> tuple[Value, Tensor, tuple[int, ...]] | None:
    """The weight of a MatMul, where that is an initializer of floats [K, N], leading sizes being 1, and its shape."""
    weight = node.inputs[1]
    if weight is None or weight.constant is None or not held(weight, scope):
        return None
    tensor = weight.constant
    if tensor.dtype not in FLOATS or len(tensor.shape) < 2 or any(size != 1 for size in tensor.shape[:-2]):
        return None
    return weight, tensor, tensor.shape


def held(value: Value, scope: Scope) -> bool:
    """Whether a Value is an initializer of one of these graphs."""
    return any(value in graph.initializers for graph in scope)


def home(weight: Value, scope: Scope) -> Graph:
    """The innermost of these graphs that has an initializer."""
    return next(graph for graph in reversed(scope) if weight in graph.initializers)


def constant(array: np.ndarray, dtype: DType, name: str) -> Value:
    """A Value that holds an array of this type."""
    tensor = Tensor.of(array, dtype, name)
    return Value(name, TensorType(dtype, tensor.shape), constant=tensor)


def take_outputs(made: Node, node: Node) -> None:
    """Let the outputs of a node be those of another that takes its place."""
    made.outputs = node.outputs
    for value in made.outputs:
        value.producer = made


def packed_rows(rows: np.ndarray, bits: int) -> np.ndarray:
    """uint8 [n, size], each row in bytes of its own, the lower bits first; 8 fills the last byte of one of 4 bits."""
    if bits == 8:
        return rows
    filled = np.full((len(rows), rows.shape[1] + rows.shape[1] % 2), 8, np.uint8)
    filled[:, : rows.shape[1]] = rows
    packed: np.ndarray = filled[:, ::2] | filled[:, 1::2] << np.uint8(4)
    return packed
