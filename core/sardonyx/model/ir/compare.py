"""Whether two models are the same, and if not, where they part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, Value

_MODEL = ("opset_imports", "ir_version", "producer_name", "producer_version", "domain", "model_version")
_FUNCTION = ("domain", "name", "overload", "attributes", "opset_imports")


def equal(one: Model | Graph, other: Model | Graph, *, names: bool = True, docs: bool = True) -> bool:
    """Whether two models or graphs have the same nodes, Values, types and data, in the same order.

    Without `names`, those of Values, nodes and graphs do not matter; without `docs`, documentation, metadata (but the
    model's), quantization annotations, denotations and unread fields do not.
    """
    return not difference(one, other, names=names, docs=docs)


def difference(one: Model | Graph, other: Model | Graph, *, names: bool = True, docs: bool = True) -> str:
    """The first difference that `equal` sees, in words, or "" if there is none."""
    compare = _Comparison(names, docs)
    if isinstance(one, Model) and isinstance(other, Model):
        differences = compare.models(one, other)
    elif isinstance(one, Graph) and isinstance(other, Graph):
        differences = compare.graphs(one, other, "graph")
    else:
        return f"a {type(one).__name__} is no {type(other).__name__}"
    return next(differences, "")


class _Comparison:
    """Walks both sides at once; Values correspond by where they are defined."""

    def __init__(self, names: bool, docs: bool) -> None:
        self.named = ("name",) if names else ()
        self.docs = ("doc", "metadata", "unread") if docs else ()
        self.partner: dict[Value, Value] = {}
        self.pending: list[tuple[Graph, Graph, str]] = []

    def models(self, one: Model, other: Model) -> Iterator[str]:
        yield from self.fields(one, other, (*_MODEL, *(self.docs or ("metadata",))), "model")
        yield from self.graphs(one.graph, other.graph, "graph")
        if one.functions.keys() != other.functions.keys():
            yield f"functions: {list(one.functions)} and {list(other.functions)}"
        for key, function in one.functions.items():
            yield from self.functions(function, other.functions[key])

    def functions(self, one: Function, other: Function) -> Iterator[str]:
        place = f"function {one.name}"
        yield from self.fields(one, other, (*_FUNCTION, *self.docs), place)
        yield from self.graphs(one.graph, other.graph, place)
        yield from self.attributes(one.defaults, other.defaults, place)
        yield from self.nested()

    def graphs(self, one: Graph, other: Graph, place: str) -> Iterator[str]:
        self.pending.append((one, other, place))
        yield from self.nested()

    def nested(self) -> Iterator[str]:
        while self.pending:
            yield from self.graph(*self.pending.pop())

    def graph(self, one: Graph, other: Graph, place: str) -> Iterator[str]:
        yield from self.fields(one, other, (*self.named, *self.docs, *(("quantization",) if self.docs else ())), place)
        yield from self.definitions(one.inputs, other.inputs, f"{place}: inputs")
        yield from self.definitions(_inner(one), _inner(other), f"{place}: initializers")
        if len(one.sparse_initializers) != len(other.sparse_initializers):
            yield f"{place}: {len(one.sparse_initializers)} and {len(other.sparse_initializers)} sparse initializers"
        for (mine, my_data), (yours, your_data) in zip(one.sparse_initializers, other.sparse_initializers):
            yield from self.definitions([mine], [yours], f"{place}: sparse initializers")
            yield from self.sparse(my_data, your_data, f"{place}: '{mine.name}'")
        if len(one.nodes) != len(other.nodes):
            yield f"{place}: {len(one.nodes)} and {len(other.nodes)} nodes"
        for mine_node, your_node in zip(one.nodes, other.nodes):
            yield from self.node(mine_node, your_node, place)
        yield from self.uses(one.outputs, other.outputs, f"{place}: outputs")

    def node(self, one: Node, other: Node, place: str) -> Iterator[str]:
        place = f"{place}: {one.label}"
        yield from self.fields(one, other, ("domain", "op_type", "overload", *self.named, *self.docs), place)
        yield from self.uses(one.inputs, other.inputs, f"{place}: inputs")
        yield from self.definitions(one.outputs, other.outputs, f"{place}: outputs")
        yield from self.attributes(one.attributes, other.attributes, place)

    def definitions(self, one: list[Value], other: list[Value], place: str) -> Iterator[str]:
        if len(one) != len(other):
            yield f"{place}: {len(one)} and {len(other)}"
        for mine, yours in zip(one, other):
            if self.partner.setdefault(mine, yours) is not yours:
                yield f"{place}: '{mine.name}' and '{yours.name}' are defined elsewhere too"
            yield from self.fields(mine, yours, ("type", *self.named, *self.docs), f"{place}: '{mine.name}'")
            if self.docs and repr(mine.type) != repr(yours.type):  # equality overlooks denotations
                yield f"{place}: '{mine.name}': type is {mine.type!r} and {yours.type!r}"
            if bool(mine.name) != bool(yours.name):
                yield f"{place}: '{mine.name}' and '{yours.name}'"
            if mine.constant and yours.constant:
                yield from self.element("tensor", mine.constant, yours.constant, f"{place}: '{mine.name}'")
            elif mine.constant or yours.constant:
                yield f"{place}: '{mine.name}' is constant on one side only"

    def uses(self, one: Sequence[Value | None], other: Sequence[Value | None], place: str) -> Iterator[str]:
        for mine, yours in zip_longest(one, other):
            if (mine and self.partner.get(mine)) is not yours:
                yield f"{place}: {_names(one)} and {_names(other)}"
                return
        if len(one) != len(other):
            yield f"{place}: {len(one)} and {len(other)}"

    def attributes(self, one: dict[str, Attribute], other: dict[str, Attribute], place: str) -> Iterator[str]:
        if one.keys() != other.keys():
            yield f"{place}: attributes {sorted(one)} and {sorted(other)}"
            return
        for name, mine in one.items():
            yours, where = other[name], f"{place}: attribute '{name}'"
            yield from self.fields(mine, yours, ("kind", "reference", *(("doc", "unread") if self.docs else ())), where)
            if mine.reference or mine.kind != yours.kind:
                continue
            if not mine.kind.endswith("s"):
                yield from self.element(mine.kind, mine.value, yours.value, where)
            elif len(mine.value) != len(yours.value):
                yield f"{where}: {len(mine.value)} and {len(yours.value)} elements"
            else:
                for left, right in zip(mine.value, yours.value):
                    yield from self.element(mine.kind[:-1], left, right, where)

    def element(self, kind: str, one: Any, other: Any, place: str) -> Iterator[str]:
        if kind == "graph":
            self.pending.append((one, other, place))
        elif kind == "tensor":
            yield from self.tensor(one, other, place)
        elif kind == "sparse_tensor":
            yield from self.sparse(one, other, place)
        elif one != other and (one == one or other == other):  # NaN equals NaN here
            yield f"{place}: {one!r} and {other!r}"

    def sparse(self, one: SparseTensor, other: SparseTensor, place: str) -> Iterator[str]:
        yield from self.fields(one, other, ("shape",), place)
        yield from self.tensor(one.values, other.values, f"{place}: values")
        yield from self.tensor(one.indices, other.indices, f"{place}: indices")

    def tensor(self, one: Tensor, other: Tensor, place: str) -> Iterator[str]:
        yield from self.fields(one, other, ("dtype", "shape", *self.docs), place)
        if one.dtype is other.dtype and one.shape == other.shape and not _same_data(one.array(), other.array()):
            yield f"{place}: the data differ"

    def fields(self, one: Any, other: Any, names: Sequence[str], place: str) -> Iterator[str]:
        for name in names:
            mine, yours = getattr(one, name), getattr(other, name)
            if mine != yours:
                yield f"{place}: {name} is {mine!r} and {yours!r}"


def _inner(graph: Graph) -> list[Value]:
    """The initializers that are no inputs; the order of the others means nothing."""
    inputs = set(graph.inputs)
    return [value for value in graph.initializers if value not in inputs]


def _same_data(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype == object:
        return bool(one.tolist() == other.tolist())
    return one.tobytes() == other.tobytes()


def _names(values: Sequence[Value | None]) -> list[str]:
    return ["" if value is None else value.name for value in values]
