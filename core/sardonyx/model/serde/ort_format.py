"""onnxruntime's own format of models (.ort), read as what it was made from: the records of an ONNX model.

`python -m onnxruntime.tools.convert_onnx_models_to_ort` writes it, with the model optimized, constants folded into
initializers, and nothing of what runtimes look for beyond the graph. The schema is onnxruntime's `ort.fbs`.
"""

from __future__ import annotations

from typing import Any

from sardonyx.errors import InvalidGraph, InvalidProtobuf, NotImplemented
from sardonyx.model.serde.flatbuffer import decode, parse
from sardonyx.model.serde.source import BytesLike
from sardonyx.model.serde.wire import Record

NEWEST = 6
"""The last version of the format whose graphs are known."""

TENSOR = """table Tensor
  string name
  string doc_string
  [int64] dims
  int32 data_type
  bytes raw_data
  [bytes] string_data
  int64 external_data_offset
"""
"""The table of a tensor, which training's checkpoints have, too."""
_TABLES = parse(f"""
table InferenceSession
  string ort_version
  Model model

table Model
  int64 ir_version
  [OperatorSetId] opset_import
  string producer_name
  string producer_version
  string domain
  int64 model_version
  string doc_string
  Graph graph
  string graph_doc_string
  [StringStringEntry] metadata_props

table OperatorSetId
  string domain
  int64 version

table StringStringEntry
  string key
  string value

table Graph
  [Tensor] initializers
  [ValueInfo] node_args
  [Node] nodes
  _ max_node_index
  _ node_edges
  [string] inputs
  [string] outputs
  [SparseTensor] sparse_initializers

table ValueInfo
  string name
  string doc_string
  TypeInfo type

table TypeInfo
  string denotation
  union value tensor_type:TensorTypeAndShape sequence_type:SequenceType map_type:MapType

table TensorTypeAndShape
  int32 elem_type
  Shape shape

table SequenceType
  TypeInfo elem_type

table MapType
  int32 key_type
  TypeInfo value_type

table Shape
  [Dimension] dim

table Dimension
  DimensionValue value
  string denotation

table DimensionValue
  int8 dim_type
  int64 dim_value
  string dim_param

table Node
  string name
  string doc_string
  string domain
  _ since_version
  _ index
  string op_type
  int32 type
  _ execution_provider_type
  [string] inputs
  [string] outputs
  [Attribute] attributes

table Attribute
  string name
  string doc_string
  int32 type
  float f
  int64 i
  bytes s
  Tensor t
  Graph g
  [float] floats
  [int64] ints
  [bytes] strings
  [Tensor] tensors
  [Graph] graphs

{TENSOR}
table SparseTensor
  Tensor values
  Tensor indices
  [int64] dims
""")
_VALUE, _PARAM = 1, 2
"""What a dimension can be besides unknown."""
_FUSED = 1
"""A node that an execution provider has compiled."""


def model_record(data: BytesLike) -> Record:
    """The ModelProto, as a record, of a model in this format; InvalidProtobuf where the bytes make no sense."""
    session = decode(data, _TABLES, "InferenceSession", "model in onnxruntime's own format")
    version = session.get("ort_version", "")
    if not version.isdecimal() or int(version) > NEWEST:
        raise NotImplemented(f"version {version!r} of onnxruntime's format is unknown; {NEWEST} is the last one known")
    model = session.get("model", {})
    if "graph" not in model:
        raise InvalidProtobuf("no graph is in it")
    record: Record = {**model, "graph": _graph(model.pop("graph"))}
    record["graph"]["doc_string"] = record.pop("graph_doc_string", "")
    return record


def _graph(graph: Record) -> Record:
    infos = {each.get("name", ""): _info(each) for each in graph.get("node_args", ())}
    ends = {*graph.get("inputs", ()), *graph.get("outputs", ())}
    return {
        "node": list(map(_node, graph.get("nodes", ()))),
        "initializer": list(map(_tensor, graph.get("initializers", ()))),
        "sparse_initializer": list(map(_sparse, graph.get("sparse_initializers", ()))),
        "input": [infos.get(name, {"name": name}) for name in graph.get("inputs", ())],
        "output": [infos.get(name, {"name": name}) for name in graph.get("outputs", ())],
        "value_info": [info for name, info in infos.items() if name and name not in ends],
    }


def _node(node: Record) -> Record:
    if node.get("type") == _FUSED:
        raise NotImplemented(
            f"{node.get('op_type')} {node.get('name')!r} was compiled by one of onnxruntime's providers: convert the "
            "model without that provider"
        )
    record = {name: node[name] for name in ("name", "doc_string", "domain", "op_type") if name in node}
    names: dict[str, Any] = {"input": node.get("inputs", []), "output": node.get("outputs", [])}
    return record | names | {"attribute": list(map(_attribute, node.get("attributes", ())))}


def _attribute(attribute: Record) -> Record:
    record = dict(attribute)
    for name, convert in (("t", _tensor), ("g", _graph)):
        if name in record:
            record[name] = convert(record[name])
    for name, convert in (("tensors", _tensor), ("graphs", _graph)):
        if name in record:
            record[name] = list(map(convert, record[name]))
    for name in ("s", "strings"):
        if name in record:
            record[name] = bytes(record[name]) if name == "s" else list(map(bytes, record[name]))
    return record


def _tensor(tensor: Record) -> Record:
    if tensor.pop("external_data_offset", -1) >= 0:
        raise NotImplemented(f"tensor {tensor.get('name', '')!r} lies in another file; convert the model as one file")
    if "string_data" in tensor:
        tensor["string_data"] = list(map(bytes, tensor["string_data"]))
    return tensor


def _sparse(tensor: Record) -> Record:
    if "values" not in tensor or "indices" not in tensor:
        raise InvalidGraph("a sparse initializer lacks its values, or their places")
    return {**tensor, "values": _tensor(tensor["values"]), "indices": _tensor(tensor["indices"])}


def _info(info: Record) -> Record:
    return {**info, "type": _type(info["type"])} if "type" in info else info


def _type(kind: Record) -> Record:
    record = {"denotation": kind["denotation"]} if "denotation" in kind else {}
    for field, inner in (("sequence_type", "elem_type"), ("map_type", "value_type")):
        if field in kind:
            content = kind[field]
            record[field] = {**content, inner: _type(content[inner])} if inner in content else content
    if "tensor_type" in kind:
        content = dict(kind["tensor_type"])
        if "shape" in content:
            content["shape"] = {"dim": list(map(_dimension, content["shape"].get("dim", ())))}
        record["tensor_type"] = content
    return record


def _dimension(dimension: Record) -> Record:
    record = {"denotation": dimension["denotation"]} if "denotation" in dimension else {}
    value = dimension.get("value", {})
    if value.get("dim_type") == _VALUE:
        record["dim_value"] = value.get("dim_value", 0)
    elif value.get("dim_type") == _PARAM:
        record["dim_param"] = value.get("dim_param", "")
    return record
