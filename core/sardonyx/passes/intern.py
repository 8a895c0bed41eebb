"""Keys by which equal nodes and equal constants are found."""

from __future__ import annotations

from collections.abc import Hashable
from math import prod
from typing import Any

from sardonyx import ops
from sardonyx.model.ir import Attribute, Node, Tensor, Value

SMALL = 64
"""Elements up to which constants are compared by value; larger ones are equal only if they are one Tensor."""

LONG = 4096
"""Entries of an attribute above which lists are equal only if they are one object: trees have millions."""

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def is_pure(node: Node) -> bool:
    """Whether two nodes like this one give the same. Of unknown operators nothing is known."""
    if node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None:
        training = node.inputs[2].constant
        return training is not None and not training.array().any()
    operator = ops.find(node.domain, node.op_type)
    return node.op_type not in RANDOM and operator is not None and operator.pure


def node_key(node: Node) -> Hashable:
    """Equal for nodes that compute the same: operator, attributes, the identities of the inputs."""
    return call_key(node, tuple(map(id, node.inputs)))


def call_key(node: Node, inputs: Hashable) -> Hashable:
    """Equal for nodes that do the same with inputs of equal keys: operator, attributes, which outputs are asked for."""
    attributes = frozenset([(name, _attribute_key(each)) for name, each in node.attributes.items()])
    return node.op_type, node.domain, inputs, attributes, tuple([bool(value.name) for value in node.outputs])


def _attribute_key(attribute: Attribute) -> Hashable:
    value: Any = attribute.value
    if attribute.kind == "tensor":
        return tensor_key(value)
    if attribute.kind in ("ints", "floats", "strings") and len(value) > LONG:
        return attribute.kind, id(value)
    if attribute.kind in ("int", "string"):
        return attribute.kind, value
    if attribute.kind in ("ints", "strings"):
        return attribute.kind, tuple(value)
    if attribute.kind in ("float", "floats"):  # -0.0 equals 0.0, and no NaN equals itself
        return attribute.kind, tuple(float(item).hex() for item in ([value] if attribute.kind == "float" else value))
    return attribute.kind, id(value)


def tensor_key(tensor: Tensor) -> Hashable:
    """Equal for small constants of the same type, shape and bytes."""
    if prod(tensor.shape) > SMALL or tensor.dtype.kind == "string":
        return id(tensor)
    return tensor.dtype.number, tensor.shape, tensor.array().tobytes()


class Constants:
    """One Value for each of the small constants that are equal."""

    def __init__(self) -> None:
        self._representatives: dict[Value, Value] = {}
        self._by_key: dict[Hashable, Value] = {}

    def unique(self, value: Value) -> Value:
        """The first Value that was seen with this constant."""
        if value.constant is None:
            return value
        if value not in self._representatives:
            self._representatives[value] = self._by_key.setdefault(tensor_key(value.constant), value)
        return self._representatives[value]
