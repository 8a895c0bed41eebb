"""Classes of ONNX's reference implementation as operators of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from sardonyx.ops.custom.function import declare, host_expand
from sardonyx.ops.custom.results import Infer
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array

T = TypeVar("T", bound=type)


def register(op: T, *, types: Sequence[str] | None = None, infer: Infer | None = None, pure: bool = True) -> T:
    """Have a class of `onnx.reference.op_run.OpRun` be the operator of its `op_domain` and name; a decorator, too.

    What it gives is told as for `custom_op`. Needs the package onnx.
    """
    domain, name = str(getattr(op, "op_domain", "")), op.__name__

    def run(*inputs: Any, outputs: int, node: dict[str, Any]) -> Any:
        from onnx import helper

        names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
        proto = helper.make_node(name, names, [f"y{k}" for k in range(outputs)], domain=domain, **node)
        settings = {"log": lambda *_: None, "opsets": {"": 1, domain: 1}, "new_ops": None, "verbose": 0}
        return op(proto, settings).run(*inputs)

    call = host_expand(f"custom.{domain}.{name}", run, types, infer and _without(infer), pure)

    def inputs_alone(*inputs: Any) -> None: ...

    def expand(operator: Operator, inputs: Sequence[Array | None], attributes: dict[str, Any]) -> Any:
        node = {}
        for key, attribute in operator.node.attributes.items():
            if attribute.kind not in ("int", "float", "string", "ints", "floats", "strings"):
                raise NotImplementedError(f"the attribute {key!r} is a {attribute.kind}, which stays in the model")
            node[key] = list(attribute.value) if attribute.kind.endswith("s") else attribute.value
        return call(operator, inputs, {"outputs": len(operator.node.outputs), "node": node})

    inputs_alone.__doc__, inputs_alone.__module__ = op.__doc__, op.__module__
    declare(domain, name, inputs_alone, expand, pure)
    return op


def _without(infer: Infer) -> Infer:
    """The inference function for the attributes of the node alone."""
    return lambda *inputs, outputs, node: infer(*inputs, **node)
