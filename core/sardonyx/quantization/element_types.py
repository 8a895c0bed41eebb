"""The element types of tensors, as far as ONNX's own inference knows them.

Which tensors are quantized depends on whether their types are known. onnxruntime's tool asks `onnx.shape_inference`,
which knows the operators of ONNX alone: what follows from others is unknown, unless the model declares it. Shapes play
no part.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sardonyx import ops
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Graph, Model, Node, Tensor

Types: TypeAlias = Sequence[DType | None]
Rule: TypeAlias = Callable[[Node, Types], Types]


def infer_element_types(
    model: Model, graph: Graph | None = None, outer: Mapping[str, DType] | None = None
) -> dict[str, DType]:
    """The element type of each tensor of a graph, by name; tensors of which nothing is known are missing.

    A graph inside another one may take tensors of the `outer` one.

    >>> from sardonyx.model.ir.text import parse_model
    >>> model = parse_model('''<ir_version: 8, opset_import: ["" : 17]>
    ... main (float32[N] x) => (y) { s = Shape(x)  i, k = TopK(x, s)  y = Foo(x) }''')
    >>> infer_element_types(model)
    {'x': float32, 's': int64, 'i': float32, 'k': int64}
    """
    graph = model.graph if graph is None else graph
    found: dict[str, DType] = {}
    constants = {value.name: value.constant.dtype for value in graph.initializers if value.constant is not None}
    for value in (*graph.inputs, *graph.outputs, *(value for node in graph.nodes for value in node.outputs)):
        if value.dtype is not None and value.name:
            found.setdefault(value.name, value.dtype)
    known = ChainMap(found, constants, dict(outer or {}))
    for node in graph.nodes:
        inputs = [None if value is None else known.get(value.name) for value in node.inputs]
        for value, dtype in zip(node.outputs, _results(model, node, inputs, known), strict=False):
            if value.name and dtype is not None:
                found.setdefault(value.name, dtype)
    return found


def _results(model: Model, node: Node, inputs: Types, known: Mapping[str, DType]) -> Types:
    if node.domain not in ("", "ai.onnx", "ai.onnx.ml"):
        return ()
    if node.op_type in ("If", "Loop", "Scan"):
        return _of_branches(model, node, known)
    operator = ops.find(node.domain, node.op_type)
    opset = model.opset_imports.get("" if node.domain == "ai.onnx" else node.domain, 1)
    if operator is None or operator.since > opset:
        return ()
    rule = RULES.get(node.op_type)
    if rule is not None:
        return rule(node, inputs)
    return () if node.domain == "ai.onnx.ml" or not inputs else [inputs[0]] * len(node.outputs)


def _of_branches(model: Model, node: Node, known: Mapping[str, DType]) -> Types:
    """What the first graph of a node gives; Loop's begins with its condition."""
    graph = next(node.subgraphs(), None)
    if graph is None:
        return ()
    inside = infer_element_types(model, graph, known)
    types = [value.dtype or inside.get(value.name) for value in graph.outputs]
    return types[1:] if node.op_type == "Loop" else types


def _all(dtype: DType) -> Rule:
    return lambda node, _: [dtype] * len(node.outputs)


def _these(*types: DType | int | None) -> Rule:
    """A type, or the input whose type it is, for each output."""

    def rule(node: Node, inputs: Types) -> Types:
        return [each if not isinstance(each, int) else inputs[each] if each < len(inputs) else None for each in types]

    return rule


def _by(attribute: str, otherwise: DType | int | None) -> Rule:
    """The type that an attribute names by its number; else this one, or that of this input."""

    def rule(node: Node, inputs: Types) -> Types:
        number = node.attribute(attribute)
        return _these(dtypes.by_number(number) if number else otherwise)(node, inputs)

    return rule


def _constant(node: Node, inputs: Types) -> Types:
    for attribute in node.attributes.values():
        value = attribute.value
        if attribute.name == "sparse_value":
            value = value.values
        if isinstance(value, Tensor):
            return [value.dtype]
        kind = attribute.name.removeprefix("value_").removesuffix("s")
        found = {"float": dtypes.float32, "int": dtypes.int64, "string": dtypes.string}.get(kind)
        if found is not None:
            return [found]
    return ()


def _filled(node: Node, inputs: Types) -> Types:
    value = node.attribute("value")
    return [value.dtype if isinstance(value, Tensor) else dtypes.float32]


def _quantized(node: Node, inputs: Types) -> Types:
    if len(inputs) > 2 and inputs[2] is not None:
        return [inputs[2]]
    return _by("output_dtype", dtypes.uint8)(node, inputs)


def _first_of_type(node: Node, inputs: Types) -> Types:
    """BatchNormalization: running means have a type of their own."""
    return [inputs[0], *[inputs[3] if len(inputs) > 3 else inputs[0]] * 4] if inputs else ()


_INT64 = _all(dtypes.int64)
_BOOL = _all(dtypes.bool_)
_FLOAT = _all(dtypes.float32)

RULES: dict[str, Rule] = {
    **dict.fromkeys(("Shape", "Size", "NonZero", "ArgMax", "ArgMin", "NonMaxSuppression"), _INT64),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "Not"), _BOOL),
    **dict.fromkeys(("IsNaN", "IsInf", "RegexFullMatch"), _BOOL),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), _all(dtypes.int32)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), _these(7)),
    **dict.fromkeys(("Where", "SequenceInsert"), _these(1)),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), _by("dtype", dtypes.float32)),
    **dict.fromkeys(("RandomNormalLike", "RandomUniformLike", "EyeLike", "Bernoulli"), _by("dtype", 0)),
    **dict.fromkeys(("HammingWindow", "HannWindow", "BlackmanWindow"), _by("output_datatype", dtypes.float32)),
    **dict.fromkeys(
        ("Scaler", "Normalizer", "LinearRegressor", "TreeEnsembleRegressor", "SVMRegressor", "FeatureVectorizer"),
        _FLOAT,
    ),
    "BatchNormalization": _first_of_type,
    "Cast": _by("to", None),
    "CastLike": _these(1),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "DequantizeLinear": _these(1),
    "Dropout": _these(0, dtypes.bool_),
    "DynamicQuantizeLinear": _these(dtypes.uint8, dtypes.float32, dtypes.uint8),
    "ImageDecoder": _all(dtypes.uint8),
    "LayerNormalization": _these(0, dtypes.float32, dtypes.float32),
    "MaxPool": _these(0, dtypes.int64),
    "MelWeightMatrix": _by("output_datatype", dtypes.float32),
    "Multinomial": _by("dtype", dtypes.int32),
    "OneHot": _these(2),
    "QuantizeLinear": _quantized,
    "SimplifiedLayerNormalization": _these(),  # onnxruntime's, though it is in ai.onnx
    "GroupNormalization": _these(),  # of its function ONNX's inference says nothing
    "StringSplit": _these(dtypes.string, dtypes.int64),
    "TfIdfVectorizer": _FLOAT,
    "TopK": _these(0, dtypes.int64),
    "Unique": _these(0, dtypes.int64, dtypes.int64, dtypes.int64),
    **dict.fromkeys(
        ("SplitToSequence", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceMap", "Optional"),
        _these(),
    ),
}
"""The types of the results where they are not that of the first input."""
