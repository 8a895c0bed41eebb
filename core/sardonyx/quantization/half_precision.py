"""Floats of 32 bits become floats of 16, in graphs and those inside them, with casts where a node does without.

Every tensor of floats has one type from its maker, every user wants one, and a cast stands, once, where these differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record, replace
from sardonyx.model.ir import (
    Attribute,
    Graph,
    Model,
    Node,
    OptionalType,
    SequenceType,
    Tensor,
    TensorType,
    Value,
    ValueType,
)
from sardonyx.model.ir.build import attribute
from sardonyx.model.ir.build import node as new_node
from sardonyx.quantization.inferred import inferred_types

Narrow = Callable[[Tensor, DType, str], Tensor]
"""A tensor of float32 as one of another type; the name is for warnings."""

FLOAT_ONLY = frozenset(
    {
        *("DynamicQuantizeLinear", "TfIdfVectorizer", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM"),
        *("MatMulIntegerToFloat", "QAttention", "QEmbedLayerNormalization", "QGemm", "BitCast"),
    }
)
"""Operators that have no form for float16."""
SUMS = frozenset({"MatMulInteger", "ConvInteger"})
SCALED = frozenset({"QuantizeLinear", "DequantizeLinear"})
SCALED_SINCE = 19
"""The operator set from which on their scales may be float16."""
STATISTICS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization", "SkipLayerNormalization"})
"""Operators that give statistics after the first result, which are float32 whatever that is."""
SUM = 3
"""The place of SkipLayerNormalization's sum, which is of the first result's type."""
SUFFIXES = {dtypes.float32: "fp32", dtypes.float16: "fp16", dtypes.bfloat16: "bf16"}
TYPE_ATTRIBUTES = ("dtype", "output_datatype", "output_dtype", "to")
DEFAULTS = {
    **dict.fromkeys(("RandomNormal", "RandomUniform", "SequenceEmpty"), "dtype"),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"), "output_datatype"),
}
"""Operators that give float32 where an attribute is left out, and the attribute."""


@record
class Choices:
    """Which nodes keep float32, or `wide` in its place, and which inputs and outputs of the model do."""

    operators: Collection[str] = ()
    names: Collection[str] = ()
    kept: Collection[str] = ()
    wide: DType = dtypes.float32
    narrow_all: bool = False
    """Have all initializers be float16, those too that only wide nodes read."""
    float_inputs: Mapping[str, Collection[int]] = field(default_factory=dict)
    """Inputs that are float32 whatever the others are, by operator."""


def convert(model: Model, choices: Choices, narrow: Narrow) -> None:
    """Convert a model in place. Its functions have to be inlined; tensors of which no type is known are left alone."""
    _Conversion(model, choices, narrow).run()


class _Conversion:
    """One conversion: `survey` finds what each tensor is made as, `wire` gives each user what it wants."""

    def __init__(self, model: Model, choices: Choices, narrow: Narrow) -> None:
        self.model, self.choices, self.narrow = model, choices, narrow
        self.opset = model.opset_imports.get("", 1)
        self.types = inferred_types(model)
        self.made: dict[Value, DType] = {}
        self.wanted: dict[Value, set[DType]] = {}
        """What users want of initializers."""
        self.homes: dict[Value, Graph] = {}
        """The graphs that have inputs and initializers."""
        self.casts: dict[tuple[Value, DType], Value] = {}
        self.placed: dict[Node | Graph, list[Node]] = {}
        """Casts after a node, and at the beginning of a graph."""
        self.kept = {value for value in model.graph.outputs if value.name in choices.kept}
        self.inputs: dict[Value, int] = {}
        """The inputs that stay float32, by their place."""

    def run(self) -> None:
        graph = self.model.graph
        for place, value in enumerate(graph.inputs):
            kept = value.name in self.choices.kept and value.constant is None
            if kept and self.is_float(value):
                self.inputs[value] = place
            self.make(value, dtypes.float32 if kept else dtypes.float16)
        self.survey(graph, False)
        for value in graph.outputs:
            self.want(value, self.given_out(value))
        for value in [value for value, home in self.homes.items() if value.constant is not None]:
            self.store(value)
        self.wire(graph, False)
        for place, value in enumerate(graph.outputs):
            graph.outputs[place] = self.output(value, place)
        for value, dtype in self.made.items():
            value.type = _of(value.type, dtype)
        self.place(graph)

    # ---- what tensors are made as

    def is_float(self, value: Value) -> bool:
        """Whether a Value holds float32, also in a sequence or an optional."""
        if value.constant is not None:
            return value.constant.dtype is dtypes.float32
        return _holds_floats(self.types.get(value) or value.type)

    def make(self, value: Value, dtype: DType) -> None:
        if value.name and self.is_float(value):
            self.made[value] = dtype

    def want(self, value: Value | None, dtype: DType) -> None:
        if value is not None and value.constant is not None:
            self.wanted.setdefault(value, set()).add(dtype)

    def survey(self, graph: Graph, wide: bool) -> None:
        self.homes.update(dict.fromkeys((*graph.inputs, *graph.initializers), graph))
        for node in graph.nodes:
            inside = wide or self.is_wide(node)
            for place, value in enumerate(node.inputs):
                self.want(value, self.operand(node, place, inside))
            for inner in node.subgraphs():
                for value in inner.inputs:
                    self.make(value, self.blocked(inside))
                self.survey(inner, inside)
                for value in inner.outputs:
                    self.want(value, self.blocked(inside))
            for place, value in enumerate(node.outputs):
                self.make(value, self.result(node, place, inside))

    def is_wide(self, node: Node) -> bool:
        if _is_sum(node) or (node.op_type == "Mul" and any(_is_sum(maker) for maker in _makers(node))):
            return True
        return node.op_type in self.choices.operators or (bool(node.name) and node.name in self.choices.names)

    def blocked(self, wide: bool) -> DType:
        return self.choices.wide if wide else dtypes.float16

    def is_float_only(self, node: Node) -> bool:
        """Whether an operator computes with float32 alone."""
        scaled = node.op_type in SCALED and not node.domain and self.opset < SCALED_SINCE
        trees = node.domain == "ai.onnx.ml"
        return scaled or trees or node.op_type in FLOAT_ONLY or node.op_type.startswith("QLinear")

    def operand(self, node: Node, place: int, wide: bool) -> DType:
        """The type that a node wants of an operand that is of floats."""
        if self.is_float_only(node):
            return dtypes.float32
        if not wide and place in self.choices.float_inputs.get(node.op_type, ()):
            return dtypes.float32
        return self.blocked(wide)

    def result(self, node: Node, place: int, wide: bool) -> DType:
        """The type of a result that is of floats."""
        if self.is_float_only(node) or (node.op_type in STATISTICS and 0 < place < SUM):
            return dtypes.float32
        return self.blocked(wide)

    def given_out(self, value: Value) -> DType:
        return dtypes.float32 if value in self.kept else dtypes.float16

    def store(self, value: Value) -> None:
        """Convert an initializer to what its users want; to float16 where any of them wants that, or there are none."""
        tensor = value.constant
        if tensor is None or tensor.dtype is not dtypes.float32:
            return
        wanted = self.wanted.get(value, set())
        dtype = dtypes.float16
        if wanted and dtypes.float16 not in wanted and not self.choices.narrow_all:
            dtype = self.choices.wide if self.choices.wide in wanted else dtypes.float32
        if dtype is not dtypes.float32:
            value.constant = self.narrow(tensor, dtype, f"initializer '{value.name}'")
        self.made[value] = dtype

    # ---- casts

    def wire(self, graph: Graph, wide: bool) -> None:
        for node in graph.nodes:
            inside = wide or self.is_wide(node)
            for place, value in enumerate(node.inputs):
                if value is not None:
                    node.inputs[place] = self.cast(value, self.operand(node, place, inside))
            for inner in node.subgraphs():
                self.wire(inner, inside)
                inner.outputs = [self.cast(value, self.blocked(inside)) for value in inner.outputs]
            dtype = self.result(node, 0, inside)
            if dtype is not dtypes.float32:
                self.retype(node, dtype)

    def cast(self, value: Value, dtype: DType) -> Value:
        """A Value as this type; itself where it is that already, or is no tensor of floats."""
        made = self.made.get(value)
        if made is None or made is dtype or isinstance(value.type, (SequenceType, OptionalType)):
            return value
        if (value, dtype) not in self.casts:
            name = f"{value.name}_cast_to_{SUFFIXES[dtype]}"
            node_name = f"{name}_node"
            if value in self.inputs and dtype is dtypes.float16:
                place = self.inputs[value]
                name, node_name = f"graph_input_cast_{place}", f"graph_input_cast{place}"
            elif value.producer is not None and dtype is dtypes.float16 and value not in self.kept:
                value.name, name = name, value.name  # what the other nodes read keeps its name
            self.casts[value, dtype] = self.add_cast(value, dtype, name, node_name)
        return self.casts[value, dtype]

    def add_cast(self, value: Value, dtype: DType, name: str, node_name: str) -> Value:
        node = new_node("Cast", [value], [name], {"to": dtype.number}, name=node_name)
        (result,) = node.outputs
        result.type = _of(value.type or self.types.get(value), dtype)
        self.placed.setdefault(value.producer or self.homes[value], []).append(node)
        return result

    def output(self, value: Value, place: int) -> Value:
        """What the model gives in an output's place, with its name."""
        wanted, name = self.given_out(value), value.name
        if self.made.get(value, wanted) is wanted or isinstance(value.type, (SequenceType, OptionalType)):
            return value
        if wanted is dtypes.float16 and value.producer is not None:
            return self.cast(value, wanted)
        result = self.casts.get((value, wanted))
        value.name = f"graph_output_cast_{place}"
        if result is None:
            result = self.casts[value, wanted] = self.add_cast(value, wanted, name, f"graph_output_cast{place}")
        result.name = name
        return result

    def place(self, graph: Graph) -> None:
        for inner in (inner for node in graph.nodes for inner in node.subgraphs()):
            self.place(inner)
        nodes = self.placed.get(graph, [])
        graph.nodes = [*nodes, *(each for node in graph.nodes for each in (node, *self.placed.get(node, ())))]

    # ---- attributes

    def retype(self, node: Node, dtype: DType) -> None:
        """Have a node that says itself which type it gives say this one in place of float32."""
        held = node.attributes
        if node.op_type == "Constant":
            for name in ("value_float", "value_floats"):
                if name in held:
                    array = np.array(held.pop(name).value, np.float32)
                    held["value"] = attribute("value", Tensor.of(array, dtypes.float32))
        if node.op_type == "ConstantOfShape" and "value" not in held:
            held["value"] = attribute("value", Tensor.of(np.zeros(1, np.float32), dtypes.float32))
        if not node.domain and (default := DEFAULTS.get(node.op_type)) and default not in held:
            held[default] = attribute(default, dtypes.float32.number)
        for name, item in list(held.items()):
            if item.kind in ("tensor", "tensors", "type_proto") or (not node.domain and name in TYPE_ATTRIBUTES):
                held[name] = replace(item, value=self.retyped(item, dtype, node))

    def retyped(self, item: Attribute, dtype: DType, node: Node) -> object:
        if item.kind == "type_proto":
            return _of(item.value, dtype)
        if item.kind == "int":
            return dtype.number if item.value == dtypes.float32.number else item.value
        tensors = item.value if item.kind == "tensors" else [item.value]
        found = [
            self.narrow(tensor, dtype, node.label) if tensor.dtype is dtypes.float32 else tensor for tensor in tensors
        ]
        return found if item.kind == "tensors" else found[0]


def _is_sum(node: Node) -> bool:
    """Whether a node makes floats of sums of integers, which are beyond float16 until they are scaled."""
    return node.op_type == "Cast" and any(maker.op_type in SUMS for maker in _makers(node))


def _makers(node: Node) -> list[Node]:
    return [value.producer for value in node.inputs if value is not None and value.producer is not None]


def _holds_floats(kind: ValueType | None) -> bool:
    if isinstance(kind, (SequenceType, OptionalType)):
        return _holds_floats(kind.element)
    return isinstance(kind, TensorType) and kind.dtype is dtypes.float32


def _of(kind: ValueType | None, dtype: DType) -> ValueType | None:
    """A type with this in place of float32."""
    if isinstance(kind, (SequenceType, OptionalType)):
        return replace(kind, element=_of(kind.element, dtype))
    return replace(kind, dtype=dtype) if isinstance(kind, TensorType) and _holds_floats(kind) else kind
