"""Large weights in fewer bits, for files that go over a network: float32 again before a model runs.

`float16` rounds to 11 bits. `int8` has a scale for each channel of the results, the largest element over 127, as
DequantizeLinear takes it, for the weights of products, convolutions and tables of rows; others become float16.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.passes.checks import words

KINDS = ("float32", "float16", "int8")
"""What weights may be stored as, the first being as they are."""
FEWEST = 4096
"""Elements below which a constant stays as it is."""

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

    def apply(self, graph: Graph) -> None:
        """Replace large constants of float32 that nodes read, here and in the graphs inside, in place."""
        if self._kind == KINDS[0]:
            return
        for each in [graph, *(inner for one in graph.all_nodes() for inner in one.subgraphs())]:
            each.nodes = [placed for one in each.nodes for placed in (*self._before(one), one)]

    def _before(self, user: Node) -> Iterator[Node]:
        """The nodes that widen what a node reads."""
        for number, value in enumerate(user.inputs):
            tensor = value.constant if value is not None else None
            if tensor is None or tensor.dtype is not dtypes.float32 or len(tensor.shape) < 2 or tensor.size < FEWEST:
                continue
            axis = _axis(user, number, len(tensor.shape)) if self._kind == "int8" else None
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
