"""The float form of a model of dynamic int8: the same weights, and no rounding of what a run computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]


def floated(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the float form of a model.

    DynamicQuantizeLinear gives what it takes, with the scale 1. Products of integers become products of floats, whose
    weights have lost their zero points; a bias that was rounded to be added to such integers is not rounded. An LSTM
    has the weights that its integers stand for.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.value_info[:]  # They tell of integers.
    _Form(made.graph).rewrite()
    onnx.checker.check_model(made, full_check=True)
    return made


class _Form:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.sums: set[str] = set()

    def rewrite(self) -> None:
        rules: dict[str, Callable[[onnx.NodeProto], None]] = {
            "DynamicQuantizeLinear": self.quantize,
            "MatMulInteger": self.product,
            "ConvInteger": self.convolution,
            "DynamicQuantizeLSTM": self.recurrent,
            "Add": self.add,
        }
        for node in self.graph.node:
            if node.op_type in rules:
                rules[node.op_type](node)
        read = {name for node in self.graph.node for name in node.input}
        kept = [tensor for tensor in self.graph.initializer if tensor.name in read]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)

    def quantize(self, node: onnx.NodeProto) -> None:
        whole, scale, _ = node.output
        self.become(node, "Identity", node.input, [whole])
        self.graph.initializer.append(numpy_helper.from_array(np.array(1, np.float32), scale))

    def product(self, node: onnx.NodeProto) -> None:
        a, b, _, zero = _padded(node.input, 4)
        self.become(node, "MatMul", [a, self.centred(b, zero)], node.output)
        self.sums.add(node.output[0])

    def convolution(self, node: onnx.NodeProto) -> None:
        x, filters, _, zero = _padded(node.input, 4)
        axes = len(self.weights[filters].dims) - 1
        self.become(node, "Conv", [x, self.centred(filters, zero, (-1, *[1] * axes))], node.output)
        self.sums.add(node.output[0])

    def recurrent(self, node: onnx.NodeProto) -> None:
        x, w, r, b, lengths, h, c, peephole, *parameters = _padded(node.input, 12)
        matrices = []
        for name, (scale, zero) in zip((w, r), (parameters[:2], parameters[2:]), strict=True):
            factors = self.array(scale)
            shape = (len(factors), 1, -1)
            whole = self.array(name).astype(np.float32)
            if zero:
                whole = whole - self.array(zero).astype(np.float32).reshape(shape)
            matrices.append(self.kept(f"{name} {scale} {zero}", (whole * factors.reshape(shape)).transpose(0, 2, 1)))
        self.become(node, "LSTM", [x, *matrices, b, lengths, h, c, peephole], node.output)

    def add(self, node: onnx.NodeProto) -> None:
        """The bias of a product is a quotient that was rounded to an integer."""
        if self.sums.isdisjoint(node.input):
            return
        for name in node.input:
            while name not in self.sums:
                maker = self.makers[name]
                if maker.op_type == "Cast":
                    maker.attribute[0].i = onnx.TensorProto.FLOAT
                elif maker.op_type in ("Floor", "Round", "Identity"):
                    maker.op_type = "Identity"
                    break
                elif maker.op_type not in ("Reshape", "Unsqueeze"):
                    raise ValueError(f"{node.name}: {maker.op_type} is before a sum of integers; expected a rounding")
                name = maker.input[0]
        self.sums.add(node.output[0])

    def become(self, node: onnx.NodeProto, op_type: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        made = helper.make_node(op_type, inputs, outputs, node.name)
        made.attribute.extend(node.attribute)
        node.CopyFrom(made)

    def centred(self, name: str, zero: str, shape: tuple[int, ...] = (-1,)) -> str:
        """Weights without their zero point, as floats; what a run computes has none any more."""
        if name not in self.weights:
            return name
        whole = self.array(name).astype(np.float32)
        if zero:
            whole = whole - self.array(zero).astype(np.float32).reshape(shape)
        return self.kept(f"{name} {zero}", whole)

    def array(self, name: str) -> Array:
        return numpy_helper.to_array(self.weights[name])

    def kept(self, name: str, array: Array) -> str:
        name = f"{name} as floats"
        if name not in self.weights:
            self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
            self.graph.initializer.append(self.weights[name])
        return name


def _padded(names: Sequence[str], count: int) -> list[str]:
    return [*names, *[""] * (count - len(names))]
