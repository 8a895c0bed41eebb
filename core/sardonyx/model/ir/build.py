"""Nodes and graphs made from Python values: for upgrades, rewriting rules and tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir.model import Attribute, Graph, Node, Tensor, Value
from sardonyx.model.ir.types import TensorType

_KINDS: list[tuple[type, str]] = [
    (bool, "int"),
    (int, "int"),
    (float, "float"),
    (str, "string"),
    (bytes, "string"),
    (Tensor, "tensor"),
    (Graph, "graph"),
]


def attribute(name: str, value: Any) -> Attribute:
    """The attribute that holds this Python value.

    >>> attribute("axes", [0, 1]).kind, attribute("alpha", 0.5).kind
    ('ints', 'float')
    """
    if isinstance(value, np.ndarray):
        value = Tensor.of(value, dtypes.of(value.dtype))
    if isinstance(value, (list, tuple)):
        items = [attribute(name, item) for item in value]
        kinds = {item.kind for item in items} or {"int"}
        kind = "float" if kinds == {"int", "float"} else kinds.pop()
        return Attribute(name, f"{kind}s", [item.value for item in items])
    for python_type, kind in _KINDS:
        if isinstance(value, python_type):
            return Attribute(name, kind, value + 0 if isinstance(value, bool) else value)
    raise TypeError(f"attribute {name!r} cannot hold a {type(value).__name__}")


def node(
    op_type: str,
    inputs: Sequence[Value | None],
    outputs: int | Sequence[str] = 1,
    attributes: dict[str, Any] | None = None,
    domain: str = "",
    name: str = "",
) -> Node:
    """A node with new output Values; attributes that are None are left out."""
    names = [f"{name or op_type}_{k}" for k in range(outputs)] if isinstance(outputs, int) else outputs
    by_name = {key: attribute(key, value) for key, value in (attributes or {}).items() if value is not None}
    return Node(op_type, list(inputs), [Value(out) for out in names], by_name, domain, name)


def constant(array: np.ndarray, name: str = "") -> Value:
    """A Value that holds an array, as initializers do."""
    dtype = dtypes.of(array.dtype)
    return Value(name, TensorType(dtype, tuple(array.shape)), constant=Tensor.of(array, dtype, name))
