"""From bytes to a Model: names become Values, tensors become views."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sardonyx.errors import InvalidGraph, InvalidProtobuf, SardonyxError, printable
from sardonyx.model.ir import order
from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Value
from sardonyx.model.ir.types import SparseTensorType, TensorType
from sardonyx.model.serde.schema import MESSAGES, UNREAD
from sardonyx.model.serde.source import BytesLike, DataFiles, open_file, refuse_strangers, stranger
from sardonyx.model.serde.tensors import as_text, pairs, read_tensor
from sardonyx.model.serde.types import read_type
from sardonyx.model.serde.wire import Record, decode

ATTRIBUTES: dict[str, tuple[int, str]] = {
    "float": (1, "f"),
    "int": (2, "i"),
    "string": (3, "s"),
    "tensor": (4, "t"),
    "graph": (5, "g"),
    "floats": (6, "floats"),
    "ints": (7, "ints"),
    "strings": (8, "strings"),
    "tensors": (9, "tensors"),
    "graphs": (10, "graphs"),
    "sparse_tensor": (11, "sparse_tensor"),
    "sparse_tensors": (12, "sparse_tensors"),
    "type_proto": (13, "tp"),
    "type_protos": (14, "type_protos"),
}
"""The kinds of attributes: AttributeType's number, and the field that holds the value."""

ORT = b"ORTM"
"""What stands behind the first four bytes of onnxruntime's format."""
_KINDS = {number: (kind, field) for kind, (number, field) in ATTRIBUTES.items()}
_EMPTY: dict[str, Any] = {"float": 0.0, "int": 0, "string": b""}


def read(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    folder: str | os.PathLike[str] | None = None,
    files: Mapping[str, BytesLike] | DataFiles | None = None,
) -> Model:
    """The model in a file, or in these bytes, in ONNX's format or in onnxruntime's own (.ort). Tensors are views of
    them: a file is mapped, never copied.

    External data is looked up in `files` (bytes by location), then in `folder`, which is the model's own where it was
    given by path; `DataFiles` know folder and files, and what was opened already. Nodes that stand in the wrong order
    are sorted. NoSuchFile, InvalidProtobuf (not an ONNX model) and InvalidGraph (a name without a definition, or with
    two) say where.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data: BytesLike
        name, data = "", source if isinstance(source, bytes) else memoryview(source).cast("B")
    else:
        opened = files.model if isinstance(files, DataFiles) else None
        name, data, folder = f"{os.fspath(source)}: ", opened or open_file(source), folder or source
    data_files = files if isinstance(files, DataFiles) else DataFiles(folder, files)
    data_files.model = data
    try:
        refuse_strangers(data)
        with _collector_at_rest():
            record = _decode(data)
            return _Reader(data_files).model(record)
    except SardonyxError as error:
        error.args = (f"{name}{printable(error.args[0])}",)
        raise


def _decode(data: BytesLike) -> Record:
    """The ModelProto, as a record, in bytes of either format."""
    if bytes(data[4:8]) == ORT:
        from sardonyx.model.serde.ort_format import model_record  # which few models need

        return model_record(data)
    try:
        record = decode(data, MESSAGES["ModelProto"])
    except InvalidProtobuf as error:
        raise InvalidProtobuf(f"{error.args[0]}{stranger(data)}") from None
    if "graph" not in record:
        raise InvalidProtobuf("no graph is in it; this is no ONNX model")
    return record


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Pause the garbage collector: reading makes no garbage, and the search for it takes more than half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Scope:
    """The names that a graph defines, and the scope around it."""

    def __init__(self, owner: str, outer: _Scope | None = None) -> None:
        self.owner = owner
        self.outer = outer
        self.names: dict[str, Value] = {}
        self.awaited: dict[str, Value] = {}

    def use(self, name: str) -> Value:
        """The Value of this name, which a later node of this graph may have to define yet."""
        scope: _Scope | None = self
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                return value
            scope = scope.outer
        return self.awaited.setdefault(name, Value(name))

    def define(self, name: str) -> Value:
        if not name:
            raise InvalidGraph(f"{self.owner}: one of its inputs or initializers has no name")
        value = self.awaited.pop(name, None) or Value(name)
        if self.names.setdefault(name, value) is not value:
            earlier = self.names[name]
            by = f"by {earlier.producer.label}" if earlier.producer else "as an input or initializer"
            raise InvalidGraph(f"{self.owner}: '{name}' is defined already, {by}; a name may be defined once")
        return value


class _Reader:
    """One reading. Subgraphs wait in `pending` until the names of the graph around them are known."""

    def __init__(self, files: DataFiles) -> None:
        self.files = files
        self.pending: list[tuple[Record, Graph, _Scope]] = []
        self.in_order = True

    def model(self, record: Record) -> Model:
        model = Model(
            Graph(),
            _opset_imports(record),
            ir_version=record.get("ir_version", 0),
            producer_name=record.get("producer_name", ""),
            producer_version=record.get("producer_version", ""),
            domain=record.get("domain", ""),
            model_version=record.get("model_version", 0),
            doc=record.get("doc_string", ""),
            metadata=pairs(record.get("metadata_props", ())),
            unread=_unread(record),
        )
        self.graphs(record["graph"], model.graph)
        for each in record.get("functions", ()):
            function = self.function(each)
            key = (function.domain, function.name, function.overload)
            if key in model.functions:
                raise InvalidGraph(f"function '{'.'.join(filter(None, key))}' is defined twice")
            model.functions[key] = function
        return model

    def function(self, record: Record) -> Function:
        name, domain = record.get("name", ""), _domain(record.get("domain", ""))
        body: Record = {field: record[field] for field in ("name", "node", "value_info") if field in record}
        for field in ("input", "output"):
            body[field] = [{"name": each} for each in record.get(field, ())]
        graph = Graph()
        self.graphs(body, graph)
        defaults = [self.attribute(each, _Scope(name)) for each in record.get("attribute_proto", ())]
        self.finish()
        return Function(
            domain,
            name,
            graph,
            record.get("attribute", []),
            {attribute.name: attribute for attribute in defaults},
            _opset_imports(record),
            record.get("overload", ""),
            record.get("doc_string", ""),
            pairs(record.get("metadata_props", ())),
            _unread(record),
        )

    def graphs(self, record: Record, graph: Graph) -> None:
        """Fills a graph, and all that are nested in it."""
        self.in_order = True
        self.pending.append((record, graph, _Scope(f"graph '{record.get('name', '')}'")))
        self.finish()
        if not self.in_order and not order.is_sorted(graph):
            order.sort(graph)

    def finish(self) -> None:
        while self.pending:
            record, graph, scope = self.pending.pop()
            self.graph(record, graph, scope)
            self.in_order &= not self.pending

    def graph(self, record: Record, graph: Graph, scope: _Scope) -> None:
        graph.name = record.get("name", "")
        graph.doc = record.get("doc_string", "")
        graph.metadata = pairs(record.get("metadata_props", ()))
        graph.unread = _unread(record)
        graph.inputs = [_describe(scope.define(info.get("name", "")), info) for info in record.get("input", ())]
        inputs = set(scope.names)
        for each in record.get("initializer", ()):
            tensor = read_tensor(each, self.files)
            value = scope.names[tensor.name] if tensor.name in inputs else scope.define(tensor.name)
            inputs.discard(tensor.name)
            value.constant = tensor
            value.type = value.type or TensorType(tensor.dtype, tensor.shape)
            graph.initializers.append(value)
        for each in record.get("sparse_initializer", ()):
            sparse = self.sparse(each)
            name = sparse.values.name
            value = scope.names[name] if name in inputs else scope.define(name)
            inputs.discard(name)
            value.type = value.type or SparseTensorType(sparse.values.dtype, sparse.shape)
            graph.sparse_initializers.append((value, sparse))
        graph.nodes = [self.node(each, scope) for each in record.get("node", ())]
        for info in record.get("output", ()):
            value = scope.use(info.get("name", ""))
            if isinstance(value.type, SparseTensorType):  # an initializer: only how it is stored is known
                value.type = None
            graph.outputs.append(value if value.type else _describe(value, info))
        if scope.awaited:
            raise InvalidGraph(_undefined(scope, graph))
        for info in record.get("value_info", ()):
            declared = scope.names.get(info.get("name", ""))
            if declared is not None:
                _describe(declared, info, keep=True)
        graph.quantization = [
            (each.get("tensor_name", ""), pairs(each.get("quant_parameter_tensor_names", ())))
            for each in record.get("quantization_annotation", ())
        ]

    def node(self, record: Record, scope: _Scope) -> Node:
        names = scope.names
        waiting = len(scope.awaited)
        inputs = [(names.get(name) or scope.use(name)) if name else None for name in record.get("input", ())]
        self.in_order &= len(scope.awaited) == waiting
        node = Node(
            record.get("op_type", ""),
            inputs,
            [],
            {},
            _domain(record.get("domain", "")),
            record.get("name", ""),
            record.get("overload", ""),
            record.get("doc_string", ""),
        )
        if "metadata_props" in record:
            node.metadata = pairs(record["metadata_props"])
        node.unread = _unread(record)
        for name in record.get("output", ()):
            value = scope.define(name) if name else Value("")
            value.producer = node
            node.outputs.append(value)
        try:
            for each in record.get("attribute", ()):
                attribute = self.attribute(each, scope)
                if node.attributes.setdefault(attribute.name, attribute) is not attribute:
                    raise InvalidGraph(f"attribute '{attribute.name}' is there twice")
        except SardonyxError as error:
            error.args = (f"{node.label}: {error.args[0]}",)
            raise
        return node

    def attribute(self, record: Record, scope: _Scope) -> Attribute:
        name = record.get("name", "")
        number = record.get("type", 0)
        if not number:  # models older than IR version 2 leave the type to the field that is there
            number = next((number for number, (_, field) in _KINDS.items() if field in record), 0)
        if number not in _KINDS:
            raise InvalidGraph(f"attribute '{name}' has the unknown type {number}")
        kind, field = _KINDS[number]
        reference = record.get("ref_attr_name", "")
        value = None if reference else self.content(name, kind, field, record, scope)
        return Attribute(name, kind, value, reference, record.get("doc_string", ""), _unread(record))

    def content(self, name: str, kind: str, field: str, record: Record, scope: _Scope) -> Any:
        """The value of an attribute, or protobuf's default where the field is missing."""
        value = record.get(field)
        if value is None:
            others = [other for other, (_, held) in ATTRIBUTES.items() if held in record]
            if others:
                raise InvalidGraph(f"attribute '{name}' calls itself {kind}, yet it holds {others[0]}")
            if kind not in _EMPTY and not kind.endswith("s"):
                raise InvalidGraph(f"attribute '{name}' is a {kind} without a value")
            value = _EMPTY.get(kind, [])
        if kind in ("int", "float", "ints", "floats"):
            return value
        if kind == "strings":
            texts = {each: as_text(each) for each in set(value)}  # trees repeat a few words millions of times
            return [texts[each] for each in value]
        if kind.endswith("s"):
            return [self.element(kind[:-1], each, scope) for each in value]
        return self.element(kind, value, scope)

    def element(self, kind: str, value: Any, scope: _Scope) -> Any:
        """One value of an attribute, or of its list."""
        if kind == "string":
            return as_text(value)
        if kind == "tensor":
            return read_tensor(value, self.files)
        if kind == "graph":
            graph = Graph()
            self.pending.append((value, graph, _Scope(f"graph '{value.get('name', '')}'", scope)))
            return graph
        if kind == "sparse_tensor":
            return self.sparse(value)
        return read_type(value) if kind == "type_proto" else value

    def sparse(self, record: Record) -> SparseTensor:
        values, indices = (read_tensor(record.get(field, {}), self.files) for field in ("values", "indices"))
        return SparseTensor(values, indices, tuple(record.get("dims", ())))


def _undefined(scope: _Scope, graph: Graph) -> str:
    name, value = next(iter(scope.awaited.items()))
    for node in graph.nodes:
        if value in node.inputs:
            return f"{node.label}: input '{name}' is not defined by any node, input or initializer of {scope.owner}"
    return f"{scope.owner}: no node, input or initializer defines its output '{name}'"


def _describe(value: Value, info: Record, keep: bool = False) -> Value:
    """Sets type, doc and metadata of a Value from a ValueInfoProto; with `keep`, a type that it has stays."""
    if "type" in info and not (keep and value.type):
        value.type = read_type(info["type"])
    value.doc = value.doc or info.get("doc_string", "")
    if "metadata_props" in info and not value.metadata:
        value.metadata = pairs(info["metadata_props"])
    value.unread = value.unread or _unread(info)
    return value


def _unread(record: Record) -> bytes:
    return bytes(record.get(UNREAD, b""))


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opset_imports(record: Record) -> dict[str, int]:
    """The version of each domain; of several the last one holds, as in onnxruntime."""
    versions: dict[str, int] = {}
    for each in record.get("opset_import", ()):
        versions[_domain(each.get("domain", ""))] = each.get("version", 0)
    return versions
