"""From a Model to bytes: the mirror of the reader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any

from sardonyx.common import dtypes
from sardonyx.common.atomic import replacing
from sardonyx.errors import InvalidArgument, InvalidGraph
from sardonyx.model.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, Value
from sardonyx.model.ir.names import new_names
from sardonyx.model.ir.nesting import refuse_deep
from sardonyx.model.serde.reader import ATTRIBUTES
from sardonyx.model.serde.schema import MESSAGES, UNREAD, Message
from sardonyx.model.serde.tensors import raw_bytes, typed_field
from sardonyx.model.serde.types import type_record
from sardonyx.model.serde.wire import Record, encode

LIMIT = 2**31 - 1
"""The longest file that protobuf reads, in bytes."""

ALIGNMENT = 4096
"""External tensors start at multiples of this many bytes: at pages, so that they can be mapped."""

BARE_INITIALIZERS = 4
"""The first IR version in which an initializer need not be an input."""


def write(model: Model) -> bytes:
    """The model as the bytes of an .onnx file; Values whose names clash, or are missing, get new ones."""
    return b"".join(_encoded(_Writer(), model))


def save(
    model: Model, path: str | os.PathLike[str], *, external_data: str | None = None, threshold: int = 1024
) -> None:
    """Writes the model to a file, which appears complete or not at all.

    With `external_data`, a file name, tensors of `threshold` bytes and more go into that file in the same folder;
    models over 2 GiB need it (InvalidArgument). NoSuchFile where there can be no such file.
    """
    target = os.fspath(path)
    if external_data is None:
        with replacing(target) as file:
            file.writelines(_encoded(_Writer(), model))
        return
    if os.path.basename(external_data) != external_data:
        raise InvalidArgument(f"external_data='{external_data}' must be a file name without a folder")
    with replacing(target) as file, replacing(os.path.join(os.path.dirname(target), external_data)) as data:
        file.writelines(_encoded(_Writer(data, external_data, threshold), model))


def _encoded(writer: _Writer, model: Model) -> list[bytes | memoryview]:
    pieces = encode(model, MESSAGES["ModelProto"], writer.describe)
    size = sum(map(len, pieces))
    if size > LIMIT:
        raise InvalidArgument(f"{size:,} bytes are more than a protobuf file may have; save(..., external_data=name)")
    return pieces


class _Writer:
    """Makes the record of each message for the encoder; tensors may go to a file of their own."""

    def __init__(self, data: IO[bytes] | None = None, location: str = "", threshold: int = 0) -> None:
        self.data = data
        self.location = location
        self.threshold = threshold
        self.bare = True
        self.names: dict[Value, str] = {}
        self.makers: dict[str, Callable[[Any], Record]] = {
            "ModelProto": self.model,
            "GraphProto": self.graph,
            "FunctionProto": self.function,
            "NodeProto": self.node,
            "AttributeProto": self.attribute,
            "TensorProto": self.tensor,
            "SparseTensorProto": self.sparse,
            "ValueInfoProto": self.info,
            "TypeProto": type_record,
        }

    def describe(self, message: Message, thing: Any) -> Record:
        maker = None if isinstance(thing, dict) else self.makers.get(message.name)
        return maker(thing) if maker else thing

    def name(self, value: Value) -> str:
        return self.names.get(value, value.name)

    def model(self, model: Model) -> Record:
        for graph in (model.graph, *(function.graph for function in model.functions.values())):
            refuse_deep(graph)
        self.bare = model.ir_version >= BARE_INITIALIZERS
        self.names = new_names(model.graph)
        for function in model.functions.values():
            self.names |= new_names(function.graph)
        return {
            "ir_version": model.ir_version,
            "producer_name": model.producer_name or None,
            "producer_version": model.producer_version or None,
            "domain": model.domain or None,
            "model_version": model.model_version or None,
            "doc_string": model.doc or None,
            "graph": model.graph,
            "opset_import": _opsets(model.opset_imports),
            "metadata_props": _entries(model.metadata),
            "functions": list(model.functions.values()),
            UNREAD: model.unread,
        }

    def function(self, function: Function) -> Record:
        graph = function.graph
        return {
            "name": function.name,
            "input": list(map(self.name, graph.inputs)),
            "output": list(map(self.name, graph.outputs)),
            "attribute": function.attributes,
            "node": graph.nodes,
            "doc_string": function.doc or None,
            "opset_import": _opsets(function.opset_imports),
            "domain": function.domain,
            "attribute_proto": list(function.defaults.values()),
            "value_info": _described([*graph.inputs, *_outputs(graph)], ()),
            "overload": function.overload or None,
            "metadata_props": _entries(function.metadata),
            UNREAD: function.unread,
        }

    def graph(self, graph: Graph) -> Record:
        inputs = dict.fromkeys(graph.inputs if self.bare else (*graph.inputs, *graph.initializers))
        return {
            "node": graph.nodes,
            "name": graph.name or None,
            "initializer": [(_constant(value), self.name(value)) for value in graph.initializers],
            "doc_string": graph.doc or None,
            "input": list(inputs),
            "output": graph.outputs,
            "value_info": _described(_outputs(graph), graph.outputs),
            "quantization_annotation": [
                {"tensor_name": name, "quant_parameter_tensor_names": _entries(parameters)}
                for name, parameters in graph.quantization
            ],
            "sparse_initializer": [(sparse, self.name(value)) for value, sparse in graph.sparse_initializers],
            "metadata_props": _entries(graph.metadata),
            UNREAD: graph.unread,
        }

    def node(self, node: Node) -> Record:
        return {
            "input": ["" if value is None else self.name(value) for value in node.inputs],
            "output": list(map(self.name, node.outputs)),
            "name": node.name or None,
            "op_type": node.op_type,
            "attribute": list(node.attributes.values()),
            "doc_string": node.doc or None,
            "domain": node.domain or None,
            "overload": node.overload or None,
            "metadata_props": _entries(node.metadata),
            UNREAD: node.unread,
        }

    def attribute(self, attribute: Attribute) -> Record:
        if attribute.kind not in ATTRIBUTES:
            raise InvalidGraph(f"attribute '{attribute.name}' has the unknown kind '{attribute.kind}'")
        number, field = ATTRIBUTES[attribute.kind]
        return {
            "name": attribute.name,
            field: None if attribute.reference else attribute.value,
            "doc_string": attribute.doc or None,
            "type": number,
            "ref_attr_name": attribute.reference or None,
            UNREAD: attribute.unread,
        }

    def tensor(self, item: Tensor | tuple[Tensor, str], inside: bool = False) -> Record:
        tensor, name = item if isinstance(item, tuple) else (item, item.name)
        record: Record = {
            "dims": tensor.shape,
            "data_type": tensor.dtype.number,
            "name": name or None,
            "doc_string": tensor.doc or None,
            "metadata_props": _entries(tensor.metadata),
            UNREAD: tensor.unread,
        }
        if tensor.dtype is dtypes.string:
            return record | {"string_data": tensor.array().reshape(-1).tolist()}
        if tensor.typed:
            field, numbers = typed_field(tensor)
            return record | {field: numbers}
        raw = raw_bytes(tensor)
        if inside or self.data is None or len(raw) < max(self.threshold, 1):
            return record | {"raw_data": raw}
        offset = -(-self.data.tell() // ALIGNMENT) * ALIGNMENT
        self.data.seek(offset)
        self.data.write(raw)
        where = {"location": self.location, "offset": str(offset), "length": str(len(raw))}
        return record | {"external_data": _entries(where), "data_location": 1}

    def sparse(self, item: SparseTensor | tuple[SparseTensor, str]) -> Record:
        sparse, name = item if isinstance(item, tuple) else (item, item.values.name)
        values, indices = self.tensor((sparse.values, name), inside=True), self.tensor(sparse.indices, inside=True)
        return {"values": values, "indices": indices, "dims": sparse.shape}

    def info(self, value: Value) -> Record:
        return {
            "name": self.name(value),
            "type": value.type,
            "doc_string": value.doc or None,
            "metadata_props": _entries(value.metadata),
            UNREAD: value.unread,
        }


def _constant(value: Value) -> Tensor:
    if value.constant is None:
        raise InvalidGraph(f"initializer '{value.name}' has no constant")
    return value.constant


def _outputs(graph: Graph) -> Iterator[Value]:
    return (value for node in graph.nodes for value in node.outputs)


def _described(values: Iterable[Value], elsewhere: Sequence[Value]) -> list[Value]:
    """The Values with a type, documentation or metadata, but for those in `elsewhere`."""
    skip = set(elsewhere)
    return [value for value in values if (value.type or value.doc or value.metadata) and value not in skip]


def _entries(pairs: dict[str, str]) -> list[Record]:
    return [{"key": key, "value": value} for key, value in pairs.items()]


def _opsets(imports: dict[str, int]) -> list[Record]:
    return [{"domain": domain, "version": version} for domain, version in imports.items()]
