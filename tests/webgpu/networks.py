"""Well-known networks with weights at random, built of ONNX nodes: what is counted of them needs no training."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from tests.models.derived.graph import Graph


class Images:
    """A network of images in the making: each convolution is followed by a normalization."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.rng = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        scale = np.float32(1 / np.sqrt(max(1, np.prod(shape[1:]))))
        array = self.rng.random(shape, np.float32) * 2 - 1
        return self.graph.tensor(f"w{len(self.graph.tensors)}", array * scale)

    def conv(self, x: str, channels: int, made: int, size: int = 1, stride: int = 1, groups: int = 1) -> str:
        w = self.weight(made, channels // groups, size, size)
        x = self.graph.Conv(x, w, pads=[size // 2] * 4, strides=[stride] * 2, group=groups)
        return self.graph.BatchNormalization(x, *(self.weight(made) for _ in range(3)), self.positive(made))

    def positive(self, made: int) -> str:
        return self.graph.tensor(f"w{len(self.graph.tensors)}", self.rng.random(made, np.float32) + 0.5)

    def classified(self, name: str, x: str, channels: int) -> onnx.ModelProto:
        """The model whose classes come of the mean of each channel."""
        flat = self.graph.Flatten(self.graph.GlobalAveragePool(x), axis=1)
        self.graph.Gemm(flat, self.weight(1000, channels), self.weight(1000), transB=1, outputs=["y"])
        kind = TensorProto.FLOAT
        return self.graph.model(name, {"x": (kind, [1, 3, 224, 224])}, {"y": (kind, [1, 1000])}, {"": 21})


def mobilenet_v2() -> onnx.ModelProto:
    """M. Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (2018), table 2."""
    net = Images()

    def clipped(x: str) -> str:
        return net.graph.Clip(x, 0.0, 6.0)

    x, channels = clipped(net.conv("x", 3, 32, 3, 2)), 32
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, made, count, first in stages:
        for k in range(count):
            stride, wide = first if k == 0 else 1, channels * expansion
            inner = clipped(net.conv(x, channels, wide)) if expansion > 1 else x
            inner = clipped(net.conv(inner, wide, wide, 3, stride, groups=wide))
            inner = net.conv(inner, wide, made)
            x = net.graph.Add(x, inner) if stride == 1 and channels == made else inner
            channels = made
    return net.classified("mobilenet_v2", clipped(net.conv(x, 320, 1280)), 1280)


def resnet50() -> onnx.ModelProto:
    """K. He et al., "Deep Residual Learning for Image Recognition" (2015), table 1; strides at the 3x3 filters."""
    net = Images()
    x = net.graph.Relu(net.conv("x", 3, 64, 7, 2))
    x = net.graph.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, count in enumerate([3, 4, 6, 3]):
        narrow, made = 64 << stage, 256 << stage
        for k in range(count):
            stride = 2 if k == 0 and stage > 0 else 1
            inner = net.graph.Relu(net.conv(x, channels, narrow))
            inner = net.graph.Relu(net.conv(inner, narrow, narrow, 3, stride))
            inner = net.conv(inner, narrow, made)
            shortcut = net.conv(x, channels, made, 1, stride) if k == 0 else x
            x = net.graph.Relu(net.graph.Add(inner, shortcut))
            channels = made
    return net.classified("resnet50", x, channels)


def bert(layers: int, size: int = 256, heads: int = 4, length: int = 32) -> onnx.ModelProto:
    """J. Devlin et al., "BERT" (2018): the encoder's layers, as PyTorch exports them."""
    net = Images()
    graph, kind = net.graph, TensorProto.FLOAT

    def dense(x: str, read: int, made: int) -> str:
        return graph.Add(graph.MatMul(x, net.weight(read, made)), net.weight(made))

    def split(x: str) -> str:
        return graph.Transpose(graph.Reshape(x, [0, 0, heads, size // heads]), perm=[0, 2, 1, 3])

    def normalized(x: str) -> str:
        return graph.LayerNormalization(x, net.weight(size), net.weight(size), axis=-1, epsilon=1e-12)

    x = "x"
    seen = graph.Cast(graph.Unsqueeze("attention_mask", [1, 2]), to=kind)
    mask = graph.Mul(graph.Sub(1.0, seen), -10000.0)
    for _ in range(layers):
        q, k, v = (split(dense(x, size, size)) for _ in range(3))
        scores = graph.MatMul(q, graph.Transpose(k, perm=[0, 1, 3, 2]))
        scores = graph.Add(graph.Div(scores, float(np.sqrt(size // heads))), mask)
        merged = graph.Transpose(graph.MatMul(graph.Softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = normalized(graph.Add(dense(graph.Reshape(merged, [0, 0, size]), size, size), x))
        inner = dense(x, size, 4 * size)
        halved = graph.Add(graph.Erf(graph.Div(inner, float(np.sqrt(2)))), 1.0)
        x = normalized(graph.Add(dense(graph.Mul(graph.Mul(inner, halved), 0.5), 4 * size, size), x))
    graph.Identity(x, outputs=["y"])
    inputs = {"x": (kind, [1, length, size]), "attention_mask": (TensorProto.INT64, [1, length])}
    return graph.model("bert", inputs, {"y": (kind, [1, length, size])}, {"": 21})
