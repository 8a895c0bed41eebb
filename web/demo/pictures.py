"""A network for pictures that needs no training before its head: edges and colours, where they are and all in all.

Edges are found by filters in eight directions, of two sizes (Gabor, 1946), and averaged over an eighth of the picture
each, as histograms of oriented gradients are (Dalal and Triggs, 2005); so are colours.
"""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Model, Node, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.model.serde.writer import write

SIDE = 64
DIRECTIONS = 8
TAPS = 7
LUMINANCE = (0.299, 0.587, 0.114)
STRENGTH = 16.0
"""The length of the features of a picture, with which training begins fast."""
CLASSES = 3


def filters() -> np.ndarray:
    """Odd Gabor filters [directions, 3, taps, taps] for pictures of red, green and blue."""
    place = np.arange(TAPS) - TAPS // 2
    y, x = np.meshgrid(place, place, indexing="ij")
    found = []
    for turn in np.arange(DIRECTIONS) * np.pi / DIRECTIONS:
        across = x * np.cos(turn) + y * np.sin(turn)
        wave = np.exp(-(x**2 + y**2) / 5) * np.sin(across * 1.4)
        found.append(np.multiply.outer(LUMINANCE, wave / np.abs(wave).sum()))
    return np.array(found, np.float32)


class _Net:
    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: list[Value] = []

    def __call__(self, op_type: str, *inputs: Value | np.ndarray, **attributes: object) -> Value:
        name = f"{op_type.lower()}_{len(self.nodes)}"
        given = [self.constant(each) if isinstance(each, np.ndarray) else each for each in inputs]
        made = node(op_type, given, [name], attributes, name=name)
        self.nodes.append(made)
        return made.outputs[0]

    def constant(self, array: np.ndarray, name: str = "") -> Value:
        value = constant(array, name or f"constant_{len(self.constants)}")
        self.constants.append(value)
        return value


def network() -> bytes:
    """The .onnx file: `image` float32 [N, 3, 64, 64] in 0..1, red, green and blue, to `probabilities` [N, 3]."""
    net = _Net()
    image = Value("image", TensorType(dtypes.float32, ("N", 3, SIDE, SIDE)))
    half = net("AveragePool", image, kernel_shape=[2, 2], strides=[2, 2])
    parts = [net("AveragePool", image, kernel_shape=[8, 8], strides=[8, 8])]
    for picture, cell in ((image, 8), (half, 4)):
        edges = net("Conv", picture, filters(), pads=[TAPS // 2] * 4)
        parts.append(net("AveragePool", net("Abs", edges), kernel_shape=[cell] * 2, strides=[cell] * 2))
    fields = net("Sqrt", net("Concat", *parts, axis=1))
    whole = net("Mul", net("GlobalAveragePool", fields), np.array(4, np.float32))
    flat = net("Concat", net("Flatten", fields), net("Flatten", whole), axis=1)
    centred = net("Sub", flat, net("ReduceMean", flat, axes=[1]))
    features = net("Mul", net("LpNormalization", centred, axis=1), np.array(STRENGTH, np.float32))
    count = (3 + 2 * DIRECTIONS) * ((SIDE // 8) ** 2 + 1)
    weights = np.random.default_rng(0).uniform(-1, 1, (CLASSES, count)) / np.sqrt(count)
    head = [
        net.constant(weights.astype(np.float32), "head.weight"),
        net.constant(np.zeros(CLASSES, np.float32), "head.bias"),
    ]
    scores = net("Gemm", features, *head, transB=1)
    probabilities = net("Softmax", scores, axis=1)
    probabilities.name, probabilities.type = "probabilities", TensorType(dtypes.float32, ("N", CLASSES))
    graph = Graph([image], [probabilities], net.nodes, net.constants, name="pictures")
    return write(Model(graph, {"": 17}, ir_version=8))
