"""One model, quantized by both tools with the same ranges, and where the two files differ."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization as theirs
from onnx import numpy_helper

import sardonyx.quantization as ours


class Reader(ours.CalibrationDataReader):
    """A list of samples."""

    def __init__(self, samples: list[dict[str, Any]]) -> None:
        self.samples = samples
        self.rewind()

    def get_next(self) -> dict[str, Any] | None:
        return next(self.iterator, None)

    def rewind(self) -> None:
        self.iterator: Iterator[dict[str, Any]] = iter(self.samples)

    def __len__(self) -> int:
        return len(self.samples)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.iterator = iter(self.samples[start_index:end_index])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what onnxruntime's tool prints and warns."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(level)


def named(options: dict[str, Any], tool: Any) -> dict[str, Any]:
    """Options with the enumerations of a tool, which are written as `QuantType.QInt8` and the like."""

    def own(value: Any) -> Any:
        if isinstance(value, str) and value.partition(".")[0] in ("QuantType", "QuantFormat", "CalibrationMethod"):
            kind, _, member = value.partition(".")
            return getattr(getattr(tool, kind, None) or getattr(tool.calibrate, kind), member)
        if isinstance(value, dict):
            return {key: own(each) for key, each in value.items()}
        return [own(each) for each in value] if isinstance(value, list) else value

    return {key: own(value) for key, value in options.items()}


def static(model: Path, folder: Path, samples: list[dict[str, Any]], options: dict[str, Any]) -> tuple[Path, Path]:
    """The files of both tools; theirs takes the ranges that ours has found."""
    cache, mine, its = folder / "ranges.json", folder / "ours.onnx", folder / "theirs.onnx"
    with quiet():
        ours.quantize_static(model, mine, Reader(samples), calibration_cache_path=cache, **named(options, ours))
        theirs.quantize_static(model, its, calibration_cache_path=cache, **named(options, theirs))
    return mine, its


def dynamic(model: Path, folder: Path, options: dict[str, Any]) -> tuple[Path, Path]:
    """The files of both tools."""
    mine, its = folder / "ours.onnx", folder / "theirs.onnx"
    with quiet():
        ours.quantize_dynamic(model, mine, **named(options, ours))
        theirs.quantize_dynamic(model, its, **named(options, theirs))
    return mine, its


def differences(mine: Path, its: Path) -> list[str]:
    """Where two files differ: nodes in order, initializers by name, inputs, outputs, versions, what they say."""
    return list(_differences(onnx.load(mine), onnx.load(its)))


def _differences(mine: onnx.ModelProto, its: onnx.ModelProto) -> Iterator[str]:
    for field in ("ir_version", "producer_name", "producer_version", "domain", "model_version"):
        if getattr(mine, field) != getattr(its, field):
            yield f"{field}: {getattr(mine, field)!r}, theirs {getattr(its, field)!r}"
    versions = [{each.domain: each.version for each in model.opset_import} for model in (mine, its)]
    if versions[0] != versions[1]:
        yield f"operator sets: {versions[0]}, theirs {versions[1]}"
    told = [{each.key: each.value for each in model.metadata_props} for model in (mine, its)]
    if told[0] != told[1]:
        yield f"metadata: {told[0]}, theirs {told[1]}"
    yield from _of_graphs(mine.graph, its.graph, "")


def _of_graphs(mine: onnx.GraphProto, its: onnx.GraphProto, where: str) -> Iterator[str]:
    yield from _of_infos(mine, its, where)
    nodes = [[(each.op_type, each.domain, each.name) for each in graph.node] for graph in (mine, its)]
    if nodes[0] != nodes[1]:
        place = next((k for k, (a, b) in enumerate(zip(*nodes)) if a != b), min(map(len, nodes)))
        yield f"{where}node {place}: {nodes[0][place : place + 2]}, theirs {nodes[1][place : place + 2]}"
    for one, other in zip(mine.node, its.node):
        label = f"{where}{one.op_type} {one.name!r}"
        ends = [(list(each.input), list(each.output)) for each in (one, other)]
        if ends[0] != ends[1]:
            yield f"{label}: {ends[0]}, theirs {ends[1]}"
        attributes = [{each.name: each for each in node.attribute} for node in (one, other)]
        if attributes[0].keys() != attributes[1].keys():
            yield f"{label}: attributes {sorted(attributes[0])}, theirs {sorted(attributes[1])}"
        for name in attributes[0].keys() & attributes[1].keys():
            held = [each[name] for each in attributes]
            if held[0].type == onnx.AttributeProto.GRAPH:
                yield from _of_graphs(held[0].g, held[1].g, f"{label}.{name}: ")
            elif _value(held[0]) != _value(held[1]):
                yield f"{label}: {name} differs"
    yield from _of_constants(mine, its, where)


def _value(attribute: onnx.AttributeProto) -> Any:
    """What an attribute holds; of a tensor its elements, however they are stored."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        array = numpy_helper.to_array(value)
        return value.data_type, array.shape, array.tobytes()
    return list(value) if attribute.type in (6, 7, 8) else value


def _of_infos(mine: onnx.GraphProto, its: onnx.GraphProto, where: str) -> Iterator[str]:
    for field in ("input", "output"):
        told = [
            [(each.name, each.type.tensor_type.elem_type if not where else 0) for each in getattr(graph, field)]
            for graph in (mine, its)
        ]
        if told[0] != told[1]:
            yield f"{where}{field}: {told[0]}, theirs {told[1]}"


def _of_constants(mine: onnx.GraphProto, its: onnx.GraphProto, where: str) -> Iterator[str]:
    held = [{each.name: each for each in graph.initializer} for graph in (mine, its)]
    if held[0].keys() != held[1].keys():
        more, fewer = (sorted(a.keys() - b.keys()) for a, b in (held, held[::-1]))
        yield f"{where}initializers: {more} more, {fewer} fewer"
    for name in held[0].keys() & held[1].keys():
        one, other = held[0][name], held[1][name]
        if (one.data_type, list(one.dims)) != (other.data_type, list(other.dims)):
            yield f"{where}{name}: {one.data_type}{list(one.dims)}, theirs {other.data_type}{list(other.dims)}"
            continue
        if one.HasField("raw_data") != other.HasField("raw_data") and name.endswith(("scale", "zero_point")):
            yield f"{where}{name}: raw {one.HasField('raw_data')}, theirs {other.HasField('raw_data')}"
        arrays = [numpy_helper.to_array(each) for each in (one, other)]
        if not np.array_equal(*(each.astype(np.float64) for each in arrays)):
            yield f"{where}{name}: {arrays[0].reshape(-1)[:4]}, theirs {arrays[1].reshape(-1)[:4]}"
