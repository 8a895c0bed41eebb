"""Operators that nobody declared, refused before anything is made of a model."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx import ops
from sardonyx.model.ir import Model, Node
from sardonyx.model.ir.model import FunctionKey


def refuse_unknown(model: Model) -> None:
    """Raises InvalidGraph or Fail, as onnxruntime does, where a node has an operator that is not known.

    Nodes of subgraphs count, and those of functions that are called, whether they are ever run or not.
    """
    for node, imports in undeclared(model):
        from sardonyx.ops.custom import unknown  # which knows how operators are declared

        raise unknown(node, imports)


def undeclared(model: Model) -> list[tuple[Node, Mapping[str, int]]]:
    """The nodes whose operators are neither known nor functions of the model, with the imports that hold for them."""
    unresolved: list[tuple[Node, Mapping[str, int]]] = []
    declared: dict[tuple[str, str], bool] = {}
    called: set[FunctionKey] = set()
    waiting = [(model.graph, model.opset_imports)]
    for graph, imports in waiting:
        for node in graph.all_nodes():
            key, name = node.function_key, (node.domain, node.op_type)
            if (function := model.functions.get(key)) is not None:
                if key not in called:
                    called.add(key)
                    waiting.append((function.graph, function.opset_imports or model.opset_imports))
                continue
            if name not in declared:
                declared[name] = ops.find(*name) is not None
            if not declared[name]:
                unresolved.append((node, imports))
    return unresolved
