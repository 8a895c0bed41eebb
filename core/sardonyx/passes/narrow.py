"""Large weights in fewer bits, for files that go over a network: float32 again before a model runs.

`float16` rounds to 11 bits. `int8` has a scale for each channel of the results, the largest element over 127, as
DequantizeLinear takes it, for the weights of products, convolutions and tables of rows; others become float16. `int4`
has a scale of float16 and a zero point for 32 elements, as MatMulNBits and GatherBlockQuantized take them, for products
by matrices and for tables of rows; others become int8.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.passes.blockwise import pack_columns, quantize_blocks
from sardonyx.passes.checks import words

KINDS = ("float32", "float16", "int8", "int4")
"""What weights may be stored as, the first being as they are."""
FEWEST = 4096
"""Elements below which a constant stays as it is."""

BLOCK = 32
"""Elements of 4 bits that share a scale of 16 and a zero point of 4: 4.6 bits for each."""
_HALVES = (1e-3, 6e4)
"""Between which the largest element has to be for scales of float16."""

_CHANNELS = {"Conv": (1, 0), "FusedConv": (1, 0), "ConvTranspose": (1, 1), "MatMul": (1, -1), "Gather": (0, 0)}
_RECURRENT = words("LSTM GRU RNN")
_DOMAINS = ("", "com.microsoft")


class Narrowing:
    """Stores weights as one of `KINDS`; equal constants of several graphs stay one constant."""

    def __init__(self, kind: str) -> None:
        if kind not in KINDS:
            raise InvalidArgument(f"weights cannot be stored as {kind!r}, only as {', '.join(KINDS)}")
        self._kind = kind
        self._stored: dict[tuple[Tensor, int | None], list[Value]] = {}
        self._blocks: dict[tuple[Tensor, bool], list[Value]] = {}

    def apply(self, graph: Graph) -> None:
        """Replace large constants of float32 that nodes read, here and in the graphs inside, in place."""
        if self._kind == KINDS[0]:
            return
        for each in [graph, *(inner for one in graph.all_nodes() for inner in one.subgraphs())]:
            each.nodes = [placed for one in each.nodes for placed in self._narrowed(one)]

    def _narrowed(self, user: Node) -> list[Node]:
        """The nodes in a node's place."""
        if self._kind == "int4" and (made := self._in_blocks(user)):
            made[-1].outputs = user.outputs
            user.outputs[0].producer = made[-1]
            return made
        return [*self._before(user), user]

    def _in_blocks(self, user: Node) -> list[Node]:
        """What multiplies by a matrix, or looks rows up in a table, of 4 bits; nothing where a node does neither."""
        if user.op_type == "Gather" and not user.domain:
            return self._table(user)
        if user.op_type in ("MatMul", "Gemm", "FusedGemm") and user.domain in _DOMAINS:
            return self._product(user)
        return []

    def _table(self, user: Node) -> list[Node]:
        table, indices = user.inputs
        tensor = _matrix(table)
        if tensor is None or user.attribute("axis", 0) % 2 or tensor.shape[1] % BLOCK:
            return []
        attributes = {"block_size": BLOCK, "bits": 4, "gather_axis": 0, "quantize_axis": 1}
        packed, scales, zeros = self._packed(tensor, True)
        rows = node("Reshape", [packed, constant(np.array([tensor.shape[0], -1]))])
        operands = [rows.outputs[0], indices, scales, zeros]
        lookup = node("GatherBlockQuantized", operands, 1, attributes, "com.microsoft", user.name)
        return [rows, lookup, node("Cast", lookup.outputs, attributes={"to": dtypes.float32.number})]

    def _product(self, user: Node) -> list[Node]:
        x, weight, *rest = user.inputs
        tensor, bias = _matrix(weight), rest[0] if rest else None
        gamma = user.attribute("activation_gamma")
        scaled = user.attribute("alpha", 1.0) != 1 or (bias is not None and user.attribute("beta", 1.0) != 1)
        if tensor is None or x is None or len(x.shape or ()) < 2 or user.attribute("transA", 0) or scaled or gamma:
            return []
        rows = bool(user.attribute("transB", 0))
        n, k = tensor.shape if rows else tensor.shape[::-1]
        if k < BLOCK:
            return []
        attributes = {"K": k, "N": n, "bits": 4, "block_size": BLOCK}
        made = [node("MatMulNBits", [x, *self._packed(tensor, rows)], 1, attributes, "com.microsoft", user.name)]
        if bias is not None:
            made.append(node("Add", [made[-1].outputs[0], bias]))
        if activation := user.attribute("activation", ""):
            named = {name: user.attribute(f"activation_{name}") for name in ("alpha", "beta")}
            made.append(node(activation, made[-1].outputs, attributes=named))
        return made

    def _packed(self, tensor: Tensor, rows: bool) -> list[Value]:
        """The bytes [N, blocks, BLOCK / 2], scales and zero points of a matrix [K, N], or of its rows [N, K]."""
        if (tensor, rows) not in self._blocks:
            array = tensor.array().T if rows else tensor.array()
            least, most = _HALVES
            scales = np.float16 if least < np.abs(array).max() < most else np.float32
            blocks = quantize_blocks(array.astype(scales), 4, BLOCK, symmetric=False)
            self._blocks[tensor, rows] = [constant(part) for part in pack_columns(blocks, 4, BLOCK)]
        return self._blocks[tensor, rows]

    def _before(self, user: Node) -> Iterator[Node]:
        """The nodes that widen what a node reads."""
        for number, value in enumerate(user.inputs):
            tensor = value.constant if value is not None else None
            if tensor is None or tensor.dtype is not dtypes.float32 or len(tensor.shape) < 2 or tensor.size < FEWEST:
                continue
            axis = _axis(user, number, len(tensor.shape)) if self._kind in ("int8", "int4") else None
            if (tensor, axis) not in self._stored:
                self._stored[tensor, axis] = _stored(tensor, axis)
            stored = self._stored[tensor, axis]
            if len(stored) > 1:
                widening = node("DequantizeLinear", stored, attributes={"axis": axis})
            elif stored:
                widening = node("Cast", stored, attributes={"to": dtypes.float32.number})
            else:
                continue
            widening.outputs[0].type = TensorType(dtypes.float32, tensor.shape)
            user.inputs[number] = widening.outputs[0]
            yield widening


def _matrix(value: Value | None) -> Tensor | None:
    """A large finite constant of float32 with two dimensions."""
    tensor = None if value is None else value.constant
    if tensor is None or tensor.dtype is not dtypes.float32 or len(tensor.shape) != 2 or tensor.size < FEWEST:
        return None
    return tensor if np.isfinite(tensor.array()).all() else None


def _axis(user: Node, number: int, rank: int) -> int | None:
    """The axis along which each slice has a scale of its own; None for an operator without such an axis."""
    if user.domain not in _DOMAINS:
        return None
    if user.op_type == "Gemm" and number == 1:
        return 0 if user.attribute("transB", 0) else 1
    if user.op_type in _RECURRENT and number in (1, 2):
        return 1
    operand, axis = _CHANNELS.get(user.op_type, (-1, 0))
    if operand != number or (user.op_type == "Gather" and user.attribute("axis", 0) % rank):
        return None
    return axis % rank


def _stored(tensor: Tensor, axis: int | None) -> list[Value]:
    """Integers and their scales, or float16; nothing where neither can hold the elements."""
    array = tensor.array()
    if not np.isfinite(array).all():
        return []
    if axis is None:
        return [constant(array.astype(np.float16))] if np.abs(array).max() <= np.finfo(np.float16).max else []
    rest = tuple(other for other in range(array.ndim) if other != axis)
    largest = np.abs(array).max(rest, keepdims=True)
    scales = np.where(largest < 1e-30, 1, largest / 127).astype(np.float32)
    integers = np.rint(array / scales).astype(np.int8)
    return [constant(integers), constant(scales.reshape(-1))]
