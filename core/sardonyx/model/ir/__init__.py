"""The intermediate representation: ONNX's nouns as Python objects."""

from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, Value
from sardonyx.model.ir.types import (
    DimLike,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    size_name,
)

__all__ = [
    "Attribute",
    "DimLike",
    "Function",
    "Graph",
    "MapType",
    "Model",
    "Node",
    "OpaqueType",
    "OptionalType",
    "SequenceType",
    "SparseTensor",
    "SparseTensorType",
    "Tensor",
    "TensorType",
    "Value",
    "ValueType",
    "size_name",
]
