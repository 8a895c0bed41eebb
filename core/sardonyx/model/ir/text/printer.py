"""The text form of models and graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, Value
from sardonyx.model.ir.names import new_names
from sardonyx.model.ir.text.literals import format_elements
from sardonyx.model.ir.text.scanner import IDENTIFIER, named, quote
from sardonyx.model.ir.text.types import format_type
from sardonyx.model.ir.types import SparseTensorType, TensorType

WIDTH = 110
LIMIT = 16


def format_model(model: Model, *, limit: int | None = LIMIT) -> str:
    """The model as text; tensors of more than `limit` elements are given as a hash, with None all elements are printed.

    Documentation and metadata are printed for the model alone, quantization annotations not at all.
    """
    header = [f"ir_version: {model.ir_version}", f"opset_import: {_opsets(model.opset_imports)}"]
    for key, text in (
        ("producer_name", model.producer_name),
        ("producer_version", model.producer_version),
        ("domain", model.domain),
        ("doc_string", model.doc),
    ):
        header += [f"{key}: {quote(text)}"] if text else []
    header += [f"model_version: {model.model_version}"] if model.model_version else []
    if model.metadata:
        entries = ", ".join(f"{quote(key)}: {quote(value)}" for key, value in model.metadata.items())
        header.append(f"metadata_props: [{entries}]")
    parts = [f"<{_wrapped(header)}>", format_graph(model.graph, limit=limit)]
    functions = (_Printer(new_names(each.graph), limit).function(each) for each in model.functions.values())
    return "\n".join(parts + [f"\n{text}" for text in functions]) + "\n"


def format_graph(graph: Graph, *, limit: int | None = LIMIT) -> str:
    """The graph as text, which `parse_graph` reads."""
    return _Printer(new_names(graph), limit).graph(graph, "")


class _Printer:
    def __init__(self, names: dict[Value, str], limit: int | None) -> None:
        self.names = names
        self.limit = limit

    def function(self, function: Function) -> str:
        header = [f"domain: {quote(function.domain)}", f"opset_import: {_opsets(function.opset_imports)}"]
        header += [f"overload: {quote(function.overload)}"] if function.overload else []
        header += [f"doc_string: {quote(function.doc)}"] if function.doc else []
        attributes = [*map(_word, function.attributes)]
        attributes += [self.attribute(each, "", True) for each in function.defaults.values()]
        title = named(function.name) + (f" <{', '.join(attributes)}>" if attributes else "")
        return f"<{_wrapped(header)}>\n{title}{self.body(function.graph, '')}"

    def graph(self, graph: Graph, indent: str) -> str:
        return named(graph.name) + self.body(graph, indent)

    def body(self, graph: Graph, indent: str) -> str:
        inner = indent + "  "
        constants = set(graph.initializers)
        inputs = [self.input(value, value in constants) for value in graph.inputs]
        graph_inputs = set(graph.inputs)
        lines = [self.initializer(value) for value in graph.initializers if value not in graph_inputs]
        lines += [f"{self.value(value)} = {self.sparse(sparse)}" for value, sparse in graph.sparse_initializers]
        produced = {value for node in graph.nodes for value in node.outputs}
        outputs = [self.value(value) if value in produced else self.name(value) for value in graph.outputs]
        typed = set(graph.outputs)
        lines += [self.node(node, inner, typed) for node in graph.nodes]
        title = f" ({_wrapped(inputs, inner)}) => ({_wrapped(outputs, inner)}) {{"
        return "\n".join([title, *(inner + line for line in lines), indent + "}"])

    def name(self, value: Value | None) -> str:
        return named(self.names.get(value, value.name)) if value else '""'

    def value(self, value: Value) -> str:
        return f"{format_type(value.type)} {self.name(value)}" if value.type else self.name(value)

    def input(self, value: Value, constant: bool) -> str:
        return self.value(value) + (f" = {self.tensor(value.constant)}" if constant and value.constant else "")

    def initializer(self, value: Value) -> str:
        if value.constant is None:
            raise InvalidGraph(f"initializer '{value.name}' has no constant")
        kind = TensorType(value.constant.dtype, value.constant.shape)
        return f"{format_type(kind)} {self.name(value)} = {format_elements(value.constant, self.limit)}"

    def node(self, node: Node, indent: str, typed: set[Value]) -> str:
        """A node in one line; the types of Values in `typed` stand elsewhere."""
        label = f"[{named(node.name)}] " if node.name else ""
        outputs = ", ".join(self.name(each) if each in typed else self.value(each) for each in node.outputs)
        operator = ".".join([*map(_word, node.domain.split(".") if node.domain else ()), _word(node.op_type)])
        operator += f":{_word(node.overload)}" if node.overload else ""
        inputs = f"({', '.join(map(self.name, node.inputs))})"
        attributes = [self.attribute(each, indent + "  ") for each in node.attributes.values()]
        if next(node.subgraphs(), None):
            between = f",\n{indent}  "
            return f"{label}{outputs} = {operator}{inputs} <\n{indent}  {between.join(attributes)}\n{indent}>"
        between = f" <{', '.join(attributes)}> " if attributes else ""
        return f"{label}{outputs} = {operator}{between}{inputs}"

    def attribute(self, attribute: Attribute, indent: str, typed: bool = False) -> str:
        kind, value = attribute.kind, attribute.value
        needed = attribute.reference or (kind.endswith("s") and not len(value))  # nothing else tells the kind
        name = _word(attribute.name) + (f": {kind}" if typed or needed else "")
        if attribute.reference:
            return f"{name} = @{_word(attribute.reference)}"
        if not kind.endswith("s"):
            return f"{name} = {self.element(kind, value, indent)}"
        shown = value if self.limit is None else value[: max(self.limit, 1)]
        words = [self.element(kind[:-1], each, indent) for each in shown]
        words += [f"... {len(value) - len(shown)} more"] if len(shown) < len(value) else []
        return f"{name} = [{', '.join(words)}]"

    def element(self, kind: str, value: Any, indent: str) -> str:
        if kind == "float":
            return _float(value)
        if kind == "string":
            return quote(value) if isinstance(value, str) else repr(value)
        if kind == "tensor":
            return self.tensor(value)
        if kind == "graph":
            return self.graph(value, indent)
        if kind == "sparse_tensor":
            dense = SparseTensorType(value.values.dtype, value.shape)
            return f"{format_type(dense)} {self.sparse(value)}"
        return format_type(value) if kind == "type_proto" else str(value)

    def tensor(self, tensor: Tensor) -> str:
        return f"{format_type(TensorType(tensor.dtype, tensor.shape))} {format_elements(tensor, self.limit)}"

    def sparse(self, sparse: SparseTensor) -> str:
        return f"{self.tensor(sparse.values)} @ {self.tensor(sparse.indices)}"


def _float(value: float) -> str:
    with np.errstate(over="ignore"):
        short = np.float32(value)
    return str(short) if float(short) == value or value != value else repr(float(value))


def _word(text: str) -> str:
    return text if IDENTIFIER.fullmatch(text) else quote(text)


def _opsets(imports: dict[str, int]) -> str:
    return f"[{', '.join(f'{quote(domain)} : {version}' for domain, version in imports.items())}]"


def _wrapped(items: Iterable[str], indent: str = "  ") -> str:
    """The items with commas: in one line, or each in its own where that gets too long."""
    listed = list(items)
    line = ", ".join(listed)
    if len(line) <= WIDTH:
        return line
    return "\n" + ",\n".join(indent + item for item in listed) + "\n" + indent[2:]
