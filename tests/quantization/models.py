"""Small models with every operator that onnxruntime's registries know, and samples of what goes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {}


class Builder:
    """A graph that grows node by node; constants are random, seeded by what was made before."""

    def __init__(self, *shape: int, opset: int = 17, dtype: type = np.float32) -> None:
        self.random = np.random.default_rng(7)
        self.opset, self.dtype = opset, dtype
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs = [helper.make_tensor_value_info("x", self.element, list(shape))]
        self.domains: dict[str, int] = {}

    @property
    def element(self) -> int:
        return TensorProto.FLOAT16 if self.dtype is np.float16 else TensorProto.FLOAT

    def constant(self, name: str, *shape: int, value: Any = None) -> str:
        if value is None:
            value = self.random.normal(0, 0.4, shape).astype(self.dtype)
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, op_type: str, inputs: list[str], *outputs: str, name: str | None = None, **attributes: Any) -> str:
        made = outputs or (f"t{len(self.nodes)}",)
        label = f"{op_type}_{len(self.nodes)}" if name is None else name
        self.nodes.append(helper.make_node(op_type, inputs, list(made), label, **attributes))
        if attributes.get("domain"):
            self.domains[attributes["domain"]] = 1
        return made[0]

    def conv(self, taken: str, channels: int, given: int, bias: bool = True) -> str:
        k = len(self.nodes)
        inputs = [taken, self.constant(f"w{k}", channels, given, 3, 3)]
        inputs += [self.constant(f"b{k}", channels)] if bias else []
        return self.node("Conv", inputs, pads=[1, 1, 1, 1])

    def model(self, *results: str, element: int | None = None, ir_version: int = 8) -> onnx.ModelProto:
        outputs = [helper.make_tensor_value_info(each, element or self.element, None) for each in results]
        graph = helper.make_graph(self.nodes, "g", self.inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", self.opset), *(helper.make_opsetid(*each) for each in self.domains.items())]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10 if self.opset > 20 else ir_version)


def samples(model: onnx.ModelProto, count: int = 3) -> list[dict[str, Any]]:
    """Random samples of what a model takes."""
    random = np.random.default_rng(3)
    constants = {each.name for each in model.graph.initializer}
    made: list[dict[str, Any]] = [{} for _ in range(count)]
    for info in model.graph.input:
        if info.name in constants:
            continue
        shape = [dim.dim_value or 2 for dim in info.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        for each in made:
            if dtype.kind == "b":
                each[info.name] = random.random(shape) < 0.5
            elif np.issubdtype(dtype, np.integer):
                each[info.name] = random.integers(0, 4, shape).astype(dtype)
            else:
                each[info.name] = random.normal(0.2, 1.0, shape).astype(dtype)
    return made


def model(function: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    MODELS[function.__name__] = function
    return function


@model
def convolutions() -> onnx.ModelProto:
    b = Builder(1, 3, 8, 8)
    t = b.node("Relu", [b.conv("x", 4, 3)])
    t = b.node(
        "Clip",
        [b.conv(t, 4, 4, bias=False), b.constant("low", value=np.float32(0)), b.constant("high", value=np.float32(6))],
    )
    t = b.node("MaxPool", [t], kernel_shape=[2, 2], strides=[2, 2])
    t = b.node("Add", [t, b.conv(t, 4, 4)])
    t = b.node("GlobalAveragePool", [t])
    t = b.node("Flatten", [t])
    t = b.node("Gemm", [t, b.constant("g", 5, 4), b.constant("gc", 5)], "y", transB=1)
    return b.model("y")


@model
def activations() -> onnx.ModelProto:
    b = Builder(2, 6)
    t = b.node("MatMul", ["x", b.constant("w", 6, 6)])
    t = b.node("LeakyRelu", [t], alpha=0.1)
    t = b.node("Sigmoid", [t])
    t = b.node("Mul", [t, b.constant("m", 6)])
    t = b.node("Tanh", [t])
    t = b.node("Softmax", [t])
    t = b.node("Relu", [t], "y")
    return b.model("y")


@model
def movements() -> onnx.ModelProto:
    b = Builder(1, 4, 6, 6)
    t = b.conv("x", 4, 4)
    t = b.node("Transpose", [t], perm=[0, 2, 3, 1])
    t = b.node("Reshape", [t, b.constant("s", value=np.array([1, 6, 24], np.int64))])
    t = b.node("Unsqueeze", [t, b.constant("u", value=np.array([0], np.int64))])
    t = b.node("Squeeze", [t, "u"])
    t = b.node(
        "Slice",
        [
            t,
            b.constant("s0", value=np.array([0], np.int64)),
            b.constant("s1", value=np.array([12], np.int64)),
            b.constant("s2", value=np.array([2], np.int64)),
        ],
    )
    a, c = "p0", "p1"
    b.node("Split", [t, b.constant("parts", value=np.array([6, 6], np.int64))], a, c, axis=2)
    t = b.node("Concat", [a, c, a], axis=1)
    t = b.node("Pad", [t, b.constant("pads", value=np.array([0, 1, 1, 0, 0, 2], np.int64))])
    t = b.node("Pad", [t, "pads", b.constant("fill", value=np.float32(0.7))])
    t = b.node("Pad", [t, "pads"], mode="edge")
    t = b.node("MatMul", [t, b.constant("w", 15, 4)], "y")
    return b.model("y")


@model
def pools() -> onnx.ModelProto:
    b = Builder(1, 3, 8, 8)
    t = b.conv("x", 3, 3)
    t = b.node("AveragePool", [t], kernel_shape=[2, 2], strides=[2, 2])
    t = b.node("Resize", [t, "", b.constant("scales", value=np.array([1, 1, 2, 2], np.float32))], mode="nearest")
    t = b.node("MaxPool", [t], kernel_shape=[2, 2])
    t = b.node("ConvTranspose", [t, b.constant("wt", 3, 2, 2, 2), b.constant("bt", 2)])
    t = b.node("InstanceNormalization", [t, b.constant("is", 2), b.constant("ib", 2)])
    t = b.node(
        "BatchNormalization",
        [
            t,
            b.constant("bs", 2),
            b.constant("bb", 2),
            b.constant("bm", 2),
            b.constant("bv", value=np.ones(2, np.float32)),
        ],
    )
    t = b.node("GlobalAveragePool", [t], "y")
    return b.model("y")


@model
def choices() -> onnx.ModelProto:
    b = Builder(2, 5)
    b.inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, [2, 5]))
    t = b.node("MatMul", ["x", b.constant("w", 5, 5)])
    u = b.node("MatMul", ["x", b.constant("v", 5, 5)])
    t = b.node("Where", ["c", t, u])
    values, places = "values", "places"
    b.node("TopK", [t, b.constant("k", value=np.array([3], np.int64))], values, places)
    i = b.node("ArgMax", [u], "best", axis=1)
    t = b.node("GatherElements", [values, b.constant("ge", value=np.array([[0, 1], [1, 0]], np.int64))], axis=1)
    t = b.node("CumSum", [t, b.constant("axis", value=np.int64(1))])
    t = b.node("MatMul", [t, b.constant("z", 2, 3)], "y")
    made = b.model("y")
    made.graph.output.append(helper.make_tensor_value_info(i, TensorProto.INT64, None))
    return made


@model
def embeddings() -> onnx.ModelProto:
    b = Builder(2, 3)
    b.inputs[:] = [helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 3])]
    t = b.node("Gather", [b.constant("table", 7, 8), "ids"])
    t = b.node("LayerNormalization", [t, b.constant("ls", 8), b.constant("lb", 8)])
    q = b.node("MatMul", [t, b.constant("wq", 8, 8)])
    k = b.node("Transpose", [b.node("MatMul", [t, b.constant("wk", 8, 8)])], perm=[0, 2, 1])
    t = b.node("Softmax", [b.node("MatMul", [q, k])])
    t = b.node("MatMul", [t, q])
    t = b.node("Add", [t, b.constant("a", 8)], "y")
    return b.model("y")


@model
def products() -> onnx.ModelProto:
    """Gemm in all its forms, and nodes without names."""
    b = Builder(3, 4)
    t = b.node("Gemm", ["x", b.constant("w0", 4, 4), b.constant("c0", 4)], name="")
    t = b.node("Gemm", [t, b.constant("w1", 4, 4), b.constant("c1", 1, 4)])
    t = b.node("Gemm", [t, b.constant("w2", 4, 4)], transB=1)
    t = b.node("MatMul", [t, "w2"], name="")
    b.node("MatMul", [t, "w0"], "y", name="")
    return b.model("y")


@model
def factors() -> onnx.ModelProto:
    """Gemm with factors, which onnxruntime's tool takes into the scale of C."""
    b = Builder(3, 4)
    b.node("Gemm", ["x", b.constant("w", 4, 4), b.constant("c", 4)], "y", beta=0.5, alpha=2.0)
    return b.model("y")


@model
def recurrent() -> onnx.ModelProto:
    b = Builder(5, 2, 3)
    y, last = "steps", "last"
    inputs = ["x", b.constant("w", 1, 16, 3), b.constant("r", 1, 16, 4), b.constant("b", 1, 32)]
    b.node("LSTM", inputs, y, last, hidden_size=4)
    t = b.node("Squeeze", [last, b.constant("axes", value=np.array([0], np.int64))])
    b.node("MatMul", [t, b.constant("z", 4, 2)], "y")
    return b.model("y")


@model
def attention() -> onnx.ModelProto:
    """onnxruntime's own operators, of whose results ONNX's inference knows nothing."""
    b = Builder(1, 3)
    b.inputs[:] = [helper.make_tensor_value_info(each, TensorProto.INT32, [1, 3]) for each in ("ids", "segments")]
    tables = [b.constant("words", 6, 8), b.constant("places", 5, 8), b.constant("kinds", 4, 8)]
    norms = [b.constant("gamma", 8), b.constant("beta", 8)]
    b.node("EmbedLayerNormalization", ["ids", "segments", *tables, *norms], "e", "m", domain="com.microsoft")
    b.node("Attention", ["e", b.constant("w", 8, 24), b.constant("bias", 24)], "a", num_heads=2, domain="com.microsoft")
    b.node("MatMul", ["a", b.constant("z", 8, 4)], "y")
    return b.model("y")


@model
def shared() -> onnx.ModelProto:
    """One bias and one weight for two nodes, and a tensor that is an output, too."""
    b = Builder(1, 2, 6, 6)
    weights = [b.constant("w", 2, 2, 1, 1), b.constant("b", 2)]
    t = b.node("Conv", ["x", *weights], "first")
    t = b.node("Relu", [t])
    t = b.node("Conv", [t, *weights], name="again")
    t = b.node("Add", [t, "first"], "y")
    return b.model("y", "first")


@model
def halves() -> onnx.ModelProto:
    b = Builder(2, 4, dtype=np.float16)
    t = b.node("MatMul", ["x", b.constant("w", 4, 4)])
    t = b.node("Relu", [t])
    t = b.node("Gemm", [t, b.constant("v", 4, 3), b.constant("c", 3)], "y")
    return b.model("y")


@model
def tiny_bias_scale() -> onnx.ModelProto:
    """A weight so small that its bias would not fit int32."""
    b = Builder(1, 2, 4, 4)
    b.constant("w", value=np.full((3, 2, 1, 1), 1e-9, np.float32) * np.array([1, -1], np.float32).reshape(1, 2, 1, 1))
    b.constant("c", value=np.array([5.0, -4.5, 3.0], np.float32))
    b.node("Conv", ["x", "w", "c"], "y")
    return b.model("y")
