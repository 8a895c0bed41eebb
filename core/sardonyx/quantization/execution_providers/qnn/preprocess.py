"""Graphs rewritten for QNN before they are quantized: operators that it has of its own, and layouts at the borders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, Node, TensorType, Value
from sardonyx.model.ir.build import node as new_node
from sardonyx.model.serde.writer import save
from sardonyx.quantization.execution_providers.qnn.fusion_lpnorm import FusionLpNormalization
from sardonyx.quantization.fusions import FusionGelu, FusionLayerNormalization
from sardonyx.quantization.inferred import record_types
from sardonyx.quantization.proto import as_model

LAYER_NORMALIZATION = 17
"""The operator set since which ONNX has LayerNormalization."""


def qnn_preprocess_model(
    model_input: Any,
    model_output: str | os.PathLike[str],
    exclude_initializer_from_input: bool = False,
    fuse_layernorm: bool = False,
    save_as_external_data: bool = False,
    all_tensors_to_one_file: bool = False,
    external_data_location: str | None = None,
    external_data_size_threshold: int = 1024,
    external_data_convert_attribute: bool = False,
    inputs_to_make_channel_last: Sequence[str] | None = None,
    outputs_to_make_channel_last: Sequence[str] | None = None,
    dynamic_input_shapes: Sequence[tuple[str, str]] | None = None,
) -> bool:
    """Write a model (a path, bytes, a ModelProto) for QNN if there is something to change; whether there was.

    Gelu, LpNormalization and, with `fuse_layernorm`, LayerNormalization stand where exporters spelled them out. Inputs
    and outputs named as channel-last [N, C, ...] become [N, ..., C], with a Transpose inside. `dynamic_input_shapes`,
    pairs of a name and sizes as "1,3,224,224", close sizes that the file leaves open; nodes without a name get one.
    Tensors of the threshold and more go into one file beside, with `save_as_external_data`; attributes stay where they
    are. SpaceToDepth is not recognised.

    InvalidArgument where the model has no such input or output, or it has fewer than three axes.
    """
    model = as_model(model_input)
    changed = bool(dynamic_input_shapes)
    for name, text in dynamic_input_shapes or ():
        value = _named(model.graph.inputs, name)
        value.type = TensorType(value.dtype, tuple(int(size) for size in text.split(",")))
    record_types(model)
    if exclude_initializer_from_input:
        inputs = [value for value in model.graph.inputs if value not in model.graph.initializers]
        changed |= len(inputs) < len(model.graph.inputs)
        model.graph.inputs = inputs
    fusions = [FusionGelu, FusionLpNormalization]
    if fuse_layernorm and model.opset_imports.get("", 1) >= LAYER_NORMALIZATION:
        fusions.append(FusionLayerNormalization)
    for fusion in fusions:
        fused = fusion.fused(model)
        model, changed = fused or model, changed or fused is not None
    changed |= _transpose(model.graph, inputs_to_make_channel_last or (), outputs_to_make_channel_last or ())
    changed |= _name(model.graph)
    if changed:
        _save(model, model_output, save_as_external_data, external_data_location, external_data_size_threshold)
    return changed


def _save(model: Model, path: str | os.PathLike[str], beside: bool, location: str | None, threshold: int) -> None:
    data = (location or f"{os.path.basename(os.fspath(path))}.data") if beside else None
    save(model, path, external_data=data, threshold=threshold)


def _named(values: Sequence[Value], name: str) -> Value:
    found = next((value for value in values if value.name == name), None)
    if found is None:
        raise InvalidArgument(f"{name!r} is no input or output of the graph: {', '.join(v.name for v in values)}")
    return found


def _transpose(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Put the channels of these inputs and outputs last, and a Transpose between them and the nodes."""
    taken = {node.name for node in graph.all_nodes()}
    names = (f"Transpose_channel_{k}" for k in range(len(taken) + len(inputs) + len(outputs)))
    free: Iterator[str] = (name for name in names if name not in taken)
    for name in inputs:
        outer = _named(graph.inputs, name)
        rank = _rank(outer)
        node = new_node("Transpose", [outer], [f"{name}_channel_first"], {"perm": [0, rank - 1, *range(1, rank - 1)]})
        node.name = next(free)
        inner = node.outputs[0]
        inner.type = outer.type
        outer.type = _last(outer)
        _read_instead(graph, outer, inner)
        graph.nodes.insert(0, node)
    for name in outputs:
        outer = _named(graph.outputs, name)
        rank = _rank(outer)
        inner = Value(f"{name}_channel_first", outer.type)
        maker = outer.producer
        if maker is None:
            raise InvalidArgument(f"output {name!r} is an input, too; only what a node makes can be transposed")
        maker.outputs[maker.outputs.index(outer)] = inner
        inner.producer = maker
        _read_instead(graph, outer, inner)
        node = new_node("Transpose", [inner], [""], {"perm": [0, *range(2, rank), 1]}, name=next(free))
        node.outputs, outer.producer, outer.type = [outer], node, _last(outer)
        graph.nodes.append(node)
    return bool(inputs or outputs)


def _read_instead(graph: Graph, old: Value, new: Value) -> None:
    """Let all nodes read another Value."""
    for node in graph.all_nodes():
        node.inputs = [new if value is old else value for value in node.inputs]


def _rank(value: Value) -> int:
    if value.shape is None or len(value.shape) < 3:
        raise InvalidArgument(f"{value.name!r} has no channels that could be last: it needs three axes or more")
    return len(value.shape)


def _last(value: Value) -> TensorType:
    """The type with axis 1 last."""
    assert value.shape is not None
    batch, channels, *rest = value.shape
    return TensorType(value.dtype, (batch, *rest, channels))


def _name(graph: Graph) -> bool:
    """Name the nodes that have no name; whether there were any."""
    nameless: list[Node] = [node for node in graph.nodes if not node.name and node.op_type != "Constant"]
    taken = {node.name for node in graph.all_nodes()}
    names = (f"qnn_preproc_node_{k}" for k in range(len(taken) + len(nameless)))
    for node, name in zip(nameless, (name for name in names if name not in taken), strict=False):
        node.name = name
    return bool(nameless)
