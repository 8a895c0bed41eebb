"""From the text form to models and graphs, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, Value
from sardonyx.model.ir.text.literals import parse_elements
from sardonyx.model.ir.text.scanner import IDENTIFIER, NAME, NUMBER
from sardonyx.model.ir.text.types import DEPTH, DTYPES, TypeParser
from sardonyx.model.ir.types import SparseTensorType, TensorType, ValueType

_MODEL_HEADER = {
    "ir_version": "ir_version",
    "opset_import": "opset_imports",
    "producer_name": "producer_name",
    "producer_version": "producer_version",
    "domain": "domain",
    "model_version": "model_version",
    "doc_string": "doc",
    "metadata_props": "metadata",
}
_FUNCTION_HEADER = {
    "domain": "domain",
    "opset_import": "opset_imports",
    "overload": "overload",
    "doc_string": "doc",
}
_SINGLE = ("float", "int", "string", "tensor", "graph", "sparse_tensor", "type_proto")
_KINDS = {*_SINGLE, *(f"{kind}s" for kind in _SINGLE)}


def parse_model(text: str) -> Model:
    """The model in a text; InvalidGraph gives line and column of what is wrong with it.

    >>> model = parse_model('<ir_version: 10, opset_import: ["" : 21]> main (float32[N] x) => (y) { y = Relu(x) }')
    >>> model.graph.nodes
    [<Node Relu 'y'>]
    """
    parser = _Parser(text)
    model = Model(Graph())
    for field, value in parser.header(_MODEL_HEADER).items():
        setattr(model, field, value)
    model.graph = parser.graph(None)
    while parser.pos < len(text):
        function = parser.function()
        model.functions[function.domain, function.name, function.overload] = function
    return model


def parse_graph(text: str) -> Graph:
    """The graph in a text.

    >>> graph = parse_graph("(float32[3] x) => (y) { float32[3] w = {1, 2, 3}  y = Add(x, w) }")
    >>> graph.initializers, graph.outputs
    ([<Value 'w': float32[3]>], [<Value 'y': ?>])
    """
    parser = _Parser(text)
    graph = parser.graph(None)
    if parser.pos < len(text):
        parser.fail("expected the end of the graph")
    return graph


class _Scope(dict[str, Value]):
    """The Values of a graph by name, in front of those around it; `types` are declared ahead of their Values."""

    def __init__(self, outer: _Scope | None) -> None:
        super().__init__()
        self.outer = outer
        self.types: dict[str, ValueType] = {}

    def find(self, name: str) -> Value | None:
        scope: _Scope | None = self
        while scope is not None and name not in scope:
            scope = scope.outer
        return None if scope is None else scope[name]


class _Parser(TypeParser):
    def header(self, fields: dict[str, str]) -> dict[str, Any]:
        """The fields of a model or function that stand in angle brackets before it, if any do."""
        values: dict[str, Any] = {}
        if not self.take("<"):
            return values
        while not self.take(">"):
            start = self.pos
            key = self.word(IDENTIFIER, "a field")
            if key not in fields:
                self.fail(f"'{key}' is none of {', '.join(fields)}", start)
            self.expect(":")
            if key in ("ir_version", "model_version"):
                values[fields[key]] = self.integer("a version")
            elif key in ("opset_import", "metadata_props"):
                values[fields[key]] = self.pairs(key)
            else:
                values[fields[key]] = self.text_in_quotes()
            if not self.take(","):
                self.expect(">")
                break
        return values

    def pairs(self, key: str) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        self.expect("[")
        while not self.take("]"):
            name = self.text_in_quotes()
            self.expect(":")
            entries[name] = self.integer("a version") if key == "opset_import" else self.text_in_quotes()
            if not self.take(","):
                self.expect("]")
                break
        return entries

    def text_in_quotes(self) -> str:
        text = self.string()
        if text is None:
            self.fail("expected a string in quotes")
        return text

    def function(self) -> Function:
        header = self.header(_FUNCTION_HEADER)
        name = self.word(NAME, "a function")
        attributes: list[str] = []
        defaults: dict[str, Attribute] = {}
        if self.take("<"):
            while not self.take(">"):
                attribute = self.word(IDENTIFIER, "an attribute")
                if self.at(":") or self.at("="):
                    defaults[attribute] = self.attribute(attribute, _Scope(None))
                else:
                    attributes.append(attribute)
                if not self.take(","):
                    self.expect(">")
                    break
        graph = self.body(name, _Scope(None))
        domain, imports = header.pop("domain", ""), header.pop("opset_imports", {})
        return Function(domain, name, graph, attributes, defaults, imports, **header)

    def graph(self, outer: _Scope | None) -> Graph:
        name = "graph" if self.at("(") else self.word(NAME, "a graph")
        return self.body(name, _Scope(outer))

    def body(self, name: str, scope: _Scope) -> Graph:
        if self.depth == DEPTH:
            self.fail(f"graphs nest more than {DEPTH} deep")
        self.depth += 1
        graph = Graph(name=name)
        self.inputs(graph, scope)
        self.expect("=>")
        outputs = self.outputs()
        if self.take("<"):
            self.declarations(graph, scope)
        self.expect("{")
        while not self.take("}"):
            self.statement(graph, scope)
            self.take(";")
        for kind, output, start in outputs:
            value = scope.find(output)
            if value is None:
                self.fail(f"nothing in the graph defines its output '{output}'", start)
            value.type = value.type or kind
            graph.outputs.append(value)
        self.depth -= 1
        return graph

    def inputs(self, graph: Graph, scope: _Scope) -> None:
        self.expect("(")
        while not self.take(")"):
            kind = self.optional_type()
            value = self.define(self.pos, self.word(NAME, "an input"), kind, scope)
            graph.inputs.append(value)
            if self.take("="):
                self.initializer(graph, value, kind)
            if not self.take(","):
                self.expect(")")
                break

    def outputs(self) -> list[tuple[ValueType | None, str, int]]:
        outputs = []
        self.expect("(")
        while not self.take(")"):
            kind, start = self.optional_type(), self.pos
            outputs.append((kind, self.word(NAME, "an output"), start))
            if not self.take(","):
                self.expect(")")
                break
        return outputs

    def declarations(self, graph: Graph, scope: _Scope) -> None:
        """ONNX's list of initializers and of the types of Values to come."""
        while not self.take(">"):
            kind, start = self.type(), self.pos
            name = self.word(NAME, "a name")
            if self.take("="):
                self.initializer(graph, scope.get(name) or self.define(start, name, kind, scope), kind)
            elif kind is not None:
                scope.types[name] = kind
            if not self.take(","):
                self.expect(">")
                break

    def statement(self, graph: Graph, scope: _Scope) -> None:
        """`[name] outputs = operator(inputs)`, or an initializer: `type name = {elements}`."""
        label = ""
        if self.take("["):
            label = self.word(NAME, "the name of a node")
            self.expect("]")
        targets: list[tuple[ValueType | None, str, int]] = []
        while not self.at("="):
            kind, start = self.optional_type(), self.pos
            targets.append((kind, self.word(NAME, "a name or '='"), start))
            if not self.take(","):
                break
        self.expect("=")
        if len(targets) == 1 and targets[0][0] and not self.at_operator():
            kind, name, start = targets[0]
            prior = scope.get(name)
            value = prior if prior in graph.inputs and prior is not None else self.define(start, name, kind, scope)
            self.initializer(graph, value, kind)
            return
        node = self.call(label, scope)
        for kind, name, start in targets:
            value = self.define(start, name, kind, scope) if name else Value("", kind)
            value.producer = node
            node.outputs.append(value)
        graph.nodes.append(node)

    def at_operator(self) -> bool:
        word = self.peek(IDENTIFIER)
        return bool(word or self.at('"')) and word not in DTYPES and word not in ("true", "false", "inf", "nan")

    def define(self, start: int, name: str, kind: ValueType | None, scope: _Scope) -> Value:
        if name in scope:
            self.fail(f"'{name}' is defined already", start)
        scope[name] = Value(name, kind or scope.types.get(name))
        return scope[name]

    def initializer(self, graph: Graph, value: Value, kind: ValueType | None) -> None:
        """The elements of an initializer, whose type is written before its name or before the elements."""
        if isinstance(kind, SparseTensorType):
            graph.sparse_initializers.append((value, self.sparse(kind)))
            graph.sparse_initializers[-1][1].values.name = value.name
            return
        if not self.at("{") and self.at_type():
            kind = self.type()
        value.constant = self.tensor(kind)
        value.constant.name = value.name
        value.type = value.type or kind
        graph.initializers.append(value)

    def call(self, label: str, scope: _Scope) -> Node:
        words = [self.word(IDENTIFIER, "an operator")]
        while self.take("."):
            words.append(self.word(IDENTIFIER, "an operator"))
        overload = self.word(NAME, "an overload") if self.take(":") else ""
        attributes = self.attributes(scope)
        inputs: list[Value | None] = []
        if not attributes or self.at("("):
            self.expect("(")
            while not self.take(")"):
                self.argument(inputs, attributes, scope)
                if not self.take(","):
                    self.expect(")")
                    break
        for attribute in (attributes or self.attributes(scope)).values():
            attributes[attribute.name] = attribute
        return Node(words[-1], inputs, [], attributes, ".".join(words[:-1]), label, overload)

    def argument(self, inputs: list[Value | None], attributes: dict[str, Attribute], scope: _Scope) -> None:
        """An input, the place of one that is missing, or `name = value` for an attribute."""
        start = self.pos
        name = "" if self.at(",") else self.word(NAME, "an input")
        if name and self.at("="):
            attributes[name] = self.attribute(name, scope)
            return
        value = scope.find(name)
        if name and value is None:
            self.fail(f"'{name}' is not defined here", start)
        inputs.append(value)

    def attributes(self, scope: _Scope) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {}
        if self.take("<"):
            while not self.take(">"):
                name = self.word(IDENTIFIER, "an attribute")
                attributes[name] = self.attribute(name, scope)
                if not self.take(","):
                    self.expect(">")
                    break
        return attributes

    def attribute(self, name: str, scope: _Scope) -> Attribute:
        start, kind = self.pos, ""
        if self.take(":"):
            kind = self.word(IDENTIFIER, "the kind of an attribute")
            if kind not in _KINDS:
                self.fail(f"'{kind}' is no kind of attribute", start)
        self.expect("=")
        if self.take("@"):
            if not kind:
                self.fail(f"a reference needs its kind: '{name}: int = @{name}'", start)
            return Attribute(name, kind, None, self.word(IDENTIFIER, "an attribute"))
        start = self.pos
        if not self.take("["):
            actual, value = self.element(scope)
        else:
            elements = []
            while not self.take("]"):
                if self.take("..."):
                    self.fail("elements were left out here when this was printed; limit=None prints all", start)
                elements.append(self.element(scope))
                if not self.take(","):
                    self.expect("]")
                    break
            kinds = {each for each, _ in elements}
            if not kinds and not kind:
                self.fail(f"an empty list needs its kind: '{name}: ints = []'", start)
            single = "float" if kinds == {"int", "float"} else next(iter(kinds)) if len(kinds) == 1 else ""
            if kinds and not single:
                self.fail(f"the elements of a list are of one kind, these are {', '.join(sorted(kinds))}", start)
            actual, value = (f"{single}s" if kinds else kind), [each for _, each in elements]
        if actual == "floats" or (actual in ("int", "ints") and kind in ("float", "floats")):
            value = float(value) if actual == "int" else list(map(float, value))
            actual = kind or actual
        if kind and actual != kind:
            self.fail(f"attribute '{name}' is to be of kind {kind}, this is of kind {actual}", start)
        return Attribute(name, actual, value)

    def element(self, scope: _Scope) -> tuple[str, Any]:
        """The kind and the value of one element."""
        text = self.string_or_bytes()
        if text is not None:
            return "string", text
        number = self.match(NUMBER)
        if number is not None:
            digits = number.lstrip("+-")
            return ("int", int(number)) if digits.isdigit() else ("float", _single(number))
        if not self.at_type():
            return "graph", self.graph(scope)
        kind = self.type()
        if isinstance(kind, SparseTensorType) and self.at_type():
            return "sparse_tensor", self.sparse(kind)
        if self.at("{") or self.at("=") or self.peek(NAME):
            name = self.match(NAME) or ""
            self.take("=")
            tensor = self.tensor(kind)
            tensor.name = name
            return "tensor", tensor
        return "type_proto", kind

    def sparse(self, kind: SparseTensorType) -> SparseTensor:
        values = self.tensor(self.type())
        self.expect("@")
        return SparseTensor(values, self.tensor(self.type()), self.sizes(kind))

    def tensor(self, kind: ValueType | None) -> Tensor:
        if not isinstance(kind, TensorType) or kind.dtype is None:
            self.fail("a tensor needs a type with all sizes, as in float32[2,3] {...}")
        return parse_elements(self, kind.dtype, self.sizes(kind))

    def sizes(self, kind: TensorType | SparseTensorType) -> tuple[int, ...]:
        if kind.shape is None or not all(isinstance(dim, int) for dim in kind.shape):
            self.fail(f"the sizes of {kind} must be numbers here")
        return tuple(dim for dim in kind.shape if isinstance(dim, int))


def _single(number: str) -> float:
    """An attribute's float, which has single precision in a file."""
    with np.errstate(over="ignore"):
        return float(np.float32(float(number)))
