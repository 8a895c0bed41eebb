"""Models in a newer operator set, for what quantizers write."""

from __future__ import annotations

from sardonyx import ops
from sardonyx.model.ir import Model
from sardonyx.passes.downgrade import IR_VERSIONS, OLDEST, lower
from sardonyx.passes.upgrade import upgrade


def raise_operator_set(model: Model, version: int, ir_version: bool = True) -> None:
    """Put a model that is in an older operator set of ai.onnx into this one, in place.

    Nodes whose form is the same in both stay as they are, with their names; if all do, the number alone changes. With
    `ir_version`, the format is the first that goes with the operator set, or a later one.
    """
    present = model.opset_imports.get("", 1)
    if present < version:
        operators = (ops.find(node.domain, node.op_type) for node in model.graph.all_nodes() if not node.domain)
        forms = {form for operator in operators if operator for form in operator.upgrades}
        if any(present < form <= version for form in forms):
            wanted = {**model.opset_imports, "": version}
            functions, model.functions = model.functions, {}
            lower(upgrade(model), wanted)
            model.functions = functions
        model.opset_imports[""] = max(version, model.opset_imports.get("", 1))
    if ir_version:
        model.ir_version = max(model.ir_version, IR_VERSIONS.get(version, OLDEST))
