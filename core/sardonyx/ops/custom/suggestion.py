"""What is said of an operator that is missing: the lines that declare it."""

from __future__ import annotations

import re
from collections.abc import Collection

from sardonyx.errors import Fail, InvalidGraph, SardonyxError
from sardonyx.model.ir import Node

_STANDARD = ("", "ai.onnx", "ai.onnx.ml")
_OF_ONE_MACHINE = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""onnxruntime's domains for layouts of one processor, or of one provider: their tensors mean nothing elsewhere."""


def unknown(node: Node, imports: Collection[str] | None = None) -> SardonyxError:
    """The error for a node whose operator nobody declared: as in onnxruntime Fail, but InvalidGraph where the domain is
    ONNX's own, or is not among the imports, if these are given."""
    domain = node.domain or "ai.onnx"
    if domain in _OF_ONE_MACHINE:
        return Fail(
            f"{node.label}: onnxruntime saved this model in the layout of one machine; save it there again "
            "with graph_optimization_level = ORT_ENABLE_EXTENDED, or take the model that it was made from"
        )
    message = f"{node.label}: no operator {node.op_type!r} is known in domain {domain!r}; {suggestion(node)}"
    is_imported = imports is None or node.domain in imports
    return InvalidGraph(message) if node.domain in _STANDARD or not is_imported else Fail(message)


def suggestion(node: Node) -> str:
    """What to write for a node whose operator nobody declared.

    >>> from sardonyx.model.ir import Value
    >>> print(suggestion(Node("NoSuchThing", [Value("x")], [Value("y")], domain="my.domain")))
    declare it before the session is made:
    <BLANKLINE>
        @sardonyx.custom_op("my.domain", "NoSuchThing")
        def no_such_thing(x0):
            return ...  # of sardonyx.primitives, or with host=True of NumPy
    """
    needed = node.inputs.index(None) if None in node.inputs else len(node.inputs)
    inputs = [f"x{k}" if k < needed else f"x{k}=None" for k in range(len(node.inputs))]
    attributes = [
        f"{name}={_text(attribute.value)}" for name, attribute in node.attributes.items() if name.isidentifier()
    ]
    parameters = ", ".join([*inputs, *(["*", *attributes] if attributes else [])])
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|\W", "_", node.op_type).lower()
    return (
        "declare it before the session is made:\n\n"
        f'    @sardonyx.custom_op("{node.domain}", "{node.op_type}")\n'
        f"    def {snake}({parameters}):\n"
        "        return ...  # of sardonyx.primitives, or with host=True of NumPy"
    )


def _text(value: object) -> str:
    """An attribute as the default of a parameter."""
    if isinstance(value, (int, float, str)):
        return repr(value)
    if isinstance(value, list) and len(value) <= 8:
        return repr(tuple(value))
    return "None"
