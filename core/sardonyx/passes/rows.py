"""Outputs of which one row of each entry of a batch is wanted: the others are not computed.

hidden [B, S, D] -> MatMul -> logits [B, S, V]
hidden [B, S, D] -> GatherND (positions) -> [B, 1, D] -> MatMul -> logits [B, 1, V]
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import replace
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, Node, TensorType, Value
from sardonyx.model.ir.build import constant, node

NEWEST_NEEDED = 13
"""The operator set that has all operators that are put in."""
_PRODUCTS = {("", "MatMul"), ("com.microsoft", "MatMulNBits"), ("com.microsoft", "MatMulBnb4")}
_UNARY = {"Cast", "Identity", "Tanh", "Neg", "Sigmoid", "Softmax", "LogSoftmax"}
_BINARY = {"Add", "Sub", "Mul", "Div"}


def choose_rows(model: Model, output: str, positions: str) -> None:
    """Have an output [B, S, ...] of a model be [B, 1, ...]: the rows that `positions`, a new input int64 [B], numbers.

    Models without such an output, or of operator sets before `NEWEST_NEEDED`, stay as they are. Raises InvalidArgument
    where the model has an input of the new one's name.
    """
    graph = model.graph
    value = next((each for each in graph.outputs if each.name == output), None)
    is_old = model.opset_imports.get("", 0) < NEWEST_NEEDED
    if value is None or value.producer is None or is_old:
        return
    if value.shape is None or len(value.shape) != 3 or value.shape[1] == 1:
        return
    if any(each.name == positions for each in graph.inputs):
        raise InvalidArgument(f"the model has an input {positions!r} already")
    varying = _varying(graph)
    chain: list[Node] = []
    while (found := _operand(graph, value, varying)) is not None and value.producer is not None:
        chain.append(value.producer)
        value = found
    _choose(graph, value, chain, positions)


def _choose(graph: Graph, value: Value, chain: list[Node], positions: str) -> None:
    """Have the nodes that follow a value, in reverse, work on chosen rows of it."""
    wanted = Value(positions, TensorType(dtypes.int64, (_sizes(value, graph)[0],)))
    shape = node("Reshape", [wanted, constant(np.array([-1, 1, 1]), f"{positions}_shape")], [f"{positions}_index"])
    rows = node("GatherND", [value, shape.outputs[0]], [f"{value.name}_rows"], {"batch_dims": 1})
    (first,) = rows.outputs
    users = chain[-1:] or []
    for user in users:
        user.inputs = [first if each is value else each for each in user.inputs]
    if not users:
        graph.outputs = [first if each is value else each for each in graph.outputs]
        first.type, first.name, value.name = value.type, value.name, f"{value.name}_all"
    place = graph.nodes.index(users[0]) if users else len(graph.nodes)
    graph.nodes[place:place] = [shape, rows]
    graph.inputs.append(wanted)
    for each in [first, *(out for made in chain for out in made.outputs)]:
        if isinstance(each.type, TensorType) and each.type.shape is not None:
            each.type = replace(each.type, shape=(each.type.shape[0], 1, *each.type.shape[2:]))


def _sizes(value: Value, graph: Graph) -> tuple[int | str | None, ...]:
    """The shape of a value, or that of the first input, which has the same batch."""
    return value.shape or graph.inputs[0].shape or (None,)


def _varying(graph: Graph) -> set[Value]:
    """What depends on inputs."""
    initialized = {*graph.initializers}
    found = {value for value in graph.inputs if value not in initialized}
    for each in graph.nodes:
        if any(value in found for value in each.inputs) or any(each.subgraphs()):
            found.update(each.outputs)
    return found


def _operand(graph: Graph, value: Value, varying: Collection[Value]) -> Value | None:
    """What a value's rows are made of, each of one, by a node that nothing else reads; None if that is not so."""
    made = value.producer
    if made is None or len(made.outputs) != 1 or _uses(graph, value) != 1:
        return None
    inputs = [each for each in made.inputs if each is not None]
    found = [each for each in inputs if each in varying]
    if len(found) != 1 or len(found[0].shape or (0, 0, 0)) != 3:
        return None
    others = [each for each in inputs if each is not found[0]]
    if (made.domain, made.op_type) in _PRODUCTS:
        is_matrix = made.domain != "" or all(each.shape is None or len(each.shape) <= 2 for each in others)
        return found[0] if made.inputs[0] is found[0] and is_matrix else None
    if made.domain or (made.op_type in ("Softmax", "LogSoftmax") and made.attribute("axis", -1) not in (-1, 2)):
        return None
    is_along = all(each.shape is not None and len(each.shape) <= 1 for each in others)
    return found[0] if made.op_type in _UNARY or (made.op_type in _BINARY and is_along) else None


def _uses(graph: Graph, value: Value) -> int:
    """How often a value is read, be it as an output, or in the body of another node."""
    reads = sum(each is value for made in graph.nodes for each in made.inputs)
    inner = sum(value in body.captures() for made in graph.nodes for body in made.subgraphs())
    return reads + inner + sum(each is value for each in graph.outputs)
