"""Models of one node each, in the sizes that networks have, to compare kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper


@dataclass(frozen=True)
class Kernel:
    """A node: the shape of its input, those of its weights, which the model holds, and its attributes.

    Several operators are nodes one after the other, each with a weight. `operations` counts additions and
    multiplications; 0 where that says nothing.
    """

    operator: str
    shape: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    operations: float = 0

    def model(self, dtype: str = "float32", last: bool = False) -> onnx.ModelProto:
        """The model; weights are normal with variance 1 / fan-in, from one seed. If `last`, images have their channels
        last."""
        rng = np.random.default_rng(1)
        names = ["x", *(f"w{number}" for number in range(len(self.weights)))]
        tensors = [
            numpy_helper.from_array(np.asarray(rng.normal(0, _deviation(self.operator, shape), shape), dtype), name)
            for name, shape in zip(names[1:], self.weights, strict=True)
        ]
        operators = self.operator.split()
        shares = [names[1:]] if len(operators) == 1 else [[name] for name in names[1:]]
        nodes = [
            helper.make_node(operator, [f"t{k}", *share], [f"t{k + 1}"], **self.attributes)
            for k, (operator, share) in enumerate(zip(operators, shares, strict=True))
        ]
        shape, end = self.shape, f"t{len(operators)}"
        if last and self.is_image:
            first, back = self._perms()
            shape = tuple(self.shape[axis] for axis in back)
            nodes.insert(0, helper.make_node("Transpose", ["x"], ["t0"], perm=first))
            nodes.append(helper.make_node("Transpose", [end], ["y"], perm=back))
        else:
            nodes[0].input[0], nodes[-1].output[0] = "x", "y"
        given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        graph = helper.make_graph(nodes, self.operator, [given], [onnx.ValueInfoProto(name="y")], tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def feeds(self, dtype: str = "float32", last: bool = False) -> dict[str, npt.NDArray[Any]]:
        """Normal numbers, from one seed."""
        x = np.random.default_rng(0).normal(size=self.shape).astype(dtype)
        return {"x": np.ascontiguousarray(x.transpose(self._perms()[1])) if last and self.is_image else x}

    @property
    def is_image(self) -> bool:
        """Whether x and y have channels."""
        return self.operator.startswith("Conv")

    def _perms(self) -> tuple[list[int], list[int]]:
        """What brings images with their channels last to the operator's order, and back."""
        rank = len(self.shape)
        return [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]


def _deviation(operator: str, shape: tuple[int, ...]) -> float:
    fan_in = math.prod(shape[1:] if operator.startswith("Conv") else shape[:1])
    return float(max(fan_in, 1) ** -0.5) if len(shape) > 1 else 1.0


def matmul(rows: int, inner: int, columns: int) -> Kernel:
    return Kernel("MatMul", (rows, inner), ((inner, columns),), operations=2.0 * rows * inner * columns)


def conv(inputs: int, outputs: int, size: int, kernel: int, stride: int = 1, group: int = 1) -> Kernel:
    """A convolution of `size` squared pixels, with a border that keeps the size, and a bias."""
    attributes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": group, "kernel_shape": [kernel] * 2}
    weights = (outputs, inputs // group, kernel, kernel)
    operations = 2.0 * np.prod(weights) * (size // stride) ** 2
    return Kernel("Conv", (1, inputs, size, size), (weights, (outputs,)), attributes, float(operations))


def volume(
    inputs: int, outputs: int, sizes: tuple[int, int, int], kernel: tuple[int, int, int], **given: Any
) -> Kernel:
    """A convolution over three axes of these sizes, with a border that keeps them unless there are strides."""
    pads = [taps // 2 for taps in kernel] * 2
    attributes = {"kernel_shape": list(kernel), "pads": pads, **given}
    weights = (outputs, inputs // given.get("group", 1), *kernel)
    places = np.prod([size // step for size, step in zip(sizes, given.get("strides", (1, 1, 1)), strict=True)])
    operations = 2.0 * np.prod(weights) * places
    return Kernel("Conv", (1, inputs, *sizes), (weights, (outputs,)), attributes, float(operations))


KERNELS = {
    "MatMul 512 x 512 x 512": matmul(512, 512, 512),
    "MatMul 128 x 768 x 3072": matmul(128, 768, 3072),
    "MatMul 196 x 768 x 768": matmul(196, 768, 768),
    "MatMul 1 x 768 x 3072": matmul(1, 768, 3072),
    "Conv 3x3, 64 at 56": conv(64, 64, 56, 3),
    "Conv 3x3, 128 at 28": conv(128, 128, 28, 3),
    "Conv 3x3, 256 at 14": conv(256, 256, 14, 3),
    "Conv 3x3, 512 at 7": conv(512, 512, 7, 3),
    "Conv 3x3, stride 2, 64 to 128 at 56": conv(64, 128, 56, 3, stride=2),
    "Conv 7x7, stride 2, 3 to 64 at 224": conv(3, 64, 224, 7, stride=2),
    "Conv 1x1, 64 to 256 at 56": conv(64, 256, 56, 1),
    "Conv 1x1, 256 to 64 at 56": conv(256, 64, 56, 1),
    "Conv 1x1, 512 to 128 at 28": conv(512, 128, 28, 1),
    "Conv 3x3, depthwise, 96 at 112": conv(96, 96, 112, 3, group=96),
    "Conv 5x5, depthwise, 120 at 28": conv(120, 120, 28, 5, group=120),
    "Conv 3x3, 32 groups of 4 at 56": conv(128, 128, 56, 3, group=32),
    "Conv 3x3, 32 groups of 8 at 28": conv(256, 256, 28, 3, group=32),
    "Conv 3x3, 32 groups of 16 at 14": conv(512, 512, 14, 3, group=32),
    "Conv 3x3, 32 groups of 32 at 7": conv(1024, 1024, 7, 3, group=32),
    "Conv 3x3, stride 2, 32 groups of 8 at 56": conv(256, 256, 56, 3, stride=2, group=32),
    "Conv 1x1, 3 groups of 80 at 28": conv(240, 240, 28, 1, group=3),
    "Conv 3x3x3, 32 at 16 x 32 x 32": volume(32, 32, (16, 32, 32), (3, 3, 3)),
    "Conv 3x3x3, stride 2, 32 to 64 at 16 x 32 x 32": volume(32, 64, (16, 32, 32), (3, 3, 3), strides=[2, 2, 2]),
    "Conv 3x7x7, stride 1x2x2, 3 to 64 at 8 x 112 x 112": volume(3, 64, (8, 112, 112), (3, 7, 7), strides=[1, 2, 2]),
    "Conv 1x3x3, 64 at 8 x 28 x 28": volume(64, 64, (8, 28, 28), (1, 3, 3)),
    "Conv 3x1x1, 64 at 8 x 28 x 28": volume(64, 64, (8, 28, 28), (3, 1, 1)),
    "Conv 1x1x1, 64 to 128 at 8 x 28 x 28": volume(64, 128, (8, 28, 28), (1, 1, 1)),
    "Conv 3x3x3, depthwise, 54 at 16 x 40 x 40": volume(54, 54, (16, 40, 40), (3, 3, 3), group=54),
    "ConvTranspose 2x2x2, stride 2, 64 to 32 at 8 x 16 x 16": Kernel(
        "ConvTranspose",
        (1, 64, 8, 16, 16),
        ((64, 32, 2, 2, 2), (32,)),
        {"strides": [2, 2, 2]},
        2.0 * 64 * 32 * 8 * 2048,
    ),
    "Softmax 2364 x 197": Kernel("Softmax", (2364, 197)),
    "LayerNormalization 197 x 768": Kernel("LayerNormalization", (197, 768), ((768,), (768,))),
    "Gelu 197 x 3072": Kernel("Gelu", (197, 3072)),
    "Sigmoid 197 x 3072": Kernel("Sigmoid", (197, 3072)),
    "Mul, Add, Max, Mul, Add, 802,816 elements": Kernel("Mul Add Max Mul Add", (64, 112, 112), ((),) * 5),
}
