"""A pass that makes one product of several of the same input, such as those that give queries, keys and values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import record, replace
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import constant
from sardonyx.model.ir.build import node as new_node
from sardonyx.model.ir.order import uses
from sardonyx.passes.initializers import fed_apart, place_constants
from sardonyx.passes.intern import call_key
from sardonyx.passes.journal import Journal
from sardonyx.passes.pattern import Uses, changed, op
from sardonyx.passes.rewrite import PROJECTIONS

LARGEST = 64 << 20
"""Bytes up to which weights are merged into one product: these are copies, where those of a file are views."""


@record(frozen=True)
class WeightInputs:
    """The inputs of an operator that hold its weights, the matrix first, and the one that holds a bias [N]."""

    weights: tuple[int, ...]
    bias: int | None = None


WEIGHT_INPUTS = {
    ("", "MatMul"): WeightInputs((1,)),
    ("", "Gemm"): WeightInputs((1,), 2),
    ("com.microsoft", "FusedGemm"): WeightInputs((1,), 2),
    ("com.microsoft", "MatMulNBits"): WeightInputs((1, 2, 3), 5),
}


@record(frozen=True)
class Projection:
    """A product of `columns` columns; `parts` are its constant inputs by place, `axes` the axes of the columns there.

    The bias is that of an Add which is all that the product is for.
    """

    node: Node
    columns: int
    parts: Mapping[int, Tensor]
    axes: Mapping[int, int]
    add: Node | None = None
    bias: Tensor | None = None

    @property
    def output(self) -> Value:
        return (self.add or self.node).outputs[0]

    @property
    def bytes(self) -> int:
        return sum(tensor.size * tensor.dtype.itemsize for tensor in self.parts.values())

    @property
    def key(self) -> Hashable:
        """Equal for products that can be one."""
        node, parts = self.node, []
        for place, tensor in self.parts.items():
            sizes = list(tensor.shape)
            del sizes[self.axes[place]]
            parts.append((place, tensor.dtype, tuple(sizes)))
        attributes = {name: each for name, each in node.attributes.items() if name != "N"}
        alike = Node(node.op_type, [], [], attributes, node.domain)
        return call_key(alike, (node.inputs[0], tuple(parts)))


def merge_projections(graph: Graph, journal: Journal) -> None:
    """Make one product, and a Split, of those that multiply the same input by weights that nothing else uses.

    In place, in subgraphs too, and after the rules, which know attention by the products before it.
    """
    if not journal.allows(PROJECTIONS):
        return
    with fed_apart(graph):
        counts = Counter(graph.outputs)
        for node in graph.nodes:
            counts.update(uses(node))
        for each in [graph, *(inner for node in graph.all_nodes() for inner in node.subgraphs())]:
            _merge_in(each, counts, journal)
        place_constants(graph)


def _merge_in(graph: Graph, counts: Uses, journal: Journal) -> None:
    placed: dict[Node, list[Node]] = {}
    for group in _groups(_projections(graph, counts)):
        if not journal.allows(PROJECTIONS):
            break
        first, nodes = group[0].node, _product(group)
        journal.record(PROJECTIONS, first, nodes[-1].outputs, nodes)
        nodes.append(_split(nodes[-1].outputs[0], group))
        for each in nodes:
            each.name = first.name
        placed |= {node: [] for each in group for node in (each.node, each.add) if node is not None}
        placed[first] = nodes
    graph.nodes = [each for node in graph.nodes for each in placed.get(node, [node])]


def _groups(projections: Iterator[Projection]) -> Iterator[list[Projection]]:
    """Groups of two or more projections with equal keys, whose weights together have at most LARGEST bytes."""
    groups: dict[Hashable, list[list[Projection]]] = defaultdict(lambda: [[]])
    for each in projections:
        alike = groups[each.key]
        if sum(other.bytes for other in alike[-1]) + each.bytes > LARGEST:
            alike.append([])
        alike[-1].append(each)
    yield from (group for alike in groups.values() for group in alike if len(group) > 1)


def _projections(graph: Graph, counts: Uses) -> Iterator[Projection]:
    users = {value: node for node in graph.nodes for value in node.inputs}
    for node in graph.nodes:
        projection = _read(node)
        weights = node.inputs[1] if projection is not None else None
        if projection is None or weights is None or counts[weights] > 1:
            continue
        product = node.outputs[0]
        add = users.get(product) if counts[product] == 1 else None
        if add is not None and (add.op_type, add.domain) == ("Add", ""):
            bias = next((value for value in add.inputs if value is not product), None)
            tensor = bias and _constant(bias)
            if tensor and tensor.shape == (projection.columns,):
                projection = replace(projection, add=add, bias=tensor)
        yield projection


def _read(node: Node) -> Projection | None:
    slots = WEIGHT_INPUTS.get((node.domain, node.op_type))
    inputs = {place: value for place, value in enumerate(node.inputs) if place and value is not None}
    if slots is None or 1 not in inputs or not inputs.keys() <= {*slots.weights, slots.bias}:
        return None
    parts = {place: tensor for place, value in inputs.items() if (tensor := _constant(value))}
    if parts.keys() != inputs.keys() or not all(tensor.shape for tensor in parts.values()):
        return None
    axes = dict.fromkeys(parts, 0)
    if node.op_type != "MatMulNBits":
        axes[1] = 0 if node.attribute("transB", 0) else 1
        if len(parts[1].shape) != 2:
            return None
    columns = parts[1].shape[axes[1]]
    if node.attribute("N", columns) != columns:
        return None
    if slots.bias in parts and parts[slots.bias].shape != (columns,):
        return None
    return Projection(node, columns, parts, axes)


def _constant(value: Value) -> Tensor | None:
    """The elements of a constant whose type NumPy has."""
    return value.constant if value.constant is not None and value.constant.dtype.is_native else None


def _product(group: Sequence[Projection]) -> list[Node]:
    """The nodes that compute all outputs of a group side by side."""
    first, columns = group[0], [each.columns for each in group]
    inputs = list(first.node.inputs)
    for place, axis in first.axes.items():
        inputs[place] = constant(np.concatenate([each.parts[place].array() for each in group], axis))
    more: dict[str, Any] = {"N": sum(columns)} if "N" in first.node.attributes else {}
    values = [changed(first.node, *inputs, **more)]
    biases = [each.bias for each in group if each.bias is not None]
    if biases:
        kind = biases[0].dtype.storage
        rows = [np.zeros(each.columns, kind) if each.bias is None else each.bias.array() for each in group]
        values.append(op.Add(values[0], constant(np.concatenate(rows))))
    shape = first.output.shape
    for value in values:
        value.type = TensorType(first.output.dtype, (*shape[:-1], sum(columns))) if shape else None
    return [value.producer for value in values if value.producer is not None]


def _split(product: Value, group: Sequence[Projection]) -> Node:
    """A Split of the product whose outputs are the Values that a group's nodes made, so that their users stay."""
    sizes = constant(np.array([each.columns for each in group], np.int64))
    split = new_node("Split", [product, sizes], 0, {"axis": -1})
    split.outputs = [each.output for each in group]
    for value in split.outputs:
        value.producer = split
    return split
