"""The signal-to-noise ratio of each layer: both models run in one graph, which gives sums of squares and no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.model.ir.build import node
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_graph
from sardonyx.passes.infer import infer_types
from sardonyx.quantization.tuning.preparation import by_name, plain
from sardonyx.quantization.tuning.samples import Samples
from sardonyx.quantization.tuning.score import decibels

CLAMPS = ("Relu", "Clip")
"""Operators that are left out where the range of integers does their work: they are done again on what is found."""
FLOAT = TensorType(dtypes.float32, ())


def ratios(model: Model, built: Path, names: Sequence[str], samples: Samples, providers: list[str]) -> dict[str, float]:
    """For each of these nodes the signal-to-noise ratio of its first output in dB, over all samples.

    Noise is what a quantized model's tensor differs by from that of the model, the noise of earlier layers included:
    10 log10(sum x^2 / sum (x' - x)^2). Nodes whose results the quantized model does not have are left out.
    """
    both = _Both(plain(model), plain(read(built)), names)
    if not both.watched:
        return {}
    session = InferenceSession(write(both.model), providers=providers)
    outputs = [value.name for value in both.model.graph.outputs]
    sums = np.zeros(len(outputs))
    for number in range(len(samples)):
        sums += np.array([float(value) for value in session.run(outputs, dict(samples[number]))])
    return {name: decibels(*pair) for name, pair in zip(both.watched, sums.reshape(-1, 2).tolist(), strict=True)}


class _Both:
    """Two models of the same inputs as one graph; its outputs are the signal and the noise of each node `watched`."""

    def __init__(self, model: Model, built: Model, names: Sequence[str]) -> None:
        graph = self.model_graph = model.graph
        infer_types(graph)
        nodes = by_name(model)
        inputs = {value.name: value for value in graph.inputs}
        initialized = set(built.graph.initializers)
        given = {value: inputs[value.name] for value in built.graph.inputs if value not in initialized}
        other = copy_graph(built.graph, dict(given))
        made = {value.name: value for each in other.nodes for value in each.outputs}
        graph.outputs.clear()
        self.watched: list[str] = []
        sums: list[Node] = []
        extra: list[Node] = []
        absorbed = {
            each for each in graph.nodes if each.op_type in CLAMPS and not _is_clamp(made.get(each.outputs[0].name))
        }
        unclamped = {each.inputs[0] for each in absorbed}
        for name in names:
            one = nodes[name].outputs[0] if name in nodes else None
            if one is None or one.dtype is not dtypes.float32 or one in unclamped:
                continue
            stems = [one, nodes[name].inputs[0]] if nodes[name] in absorbed else [one]
            given_names = [value.name for value in stems if value is not None]
            found = next((made[each] for each in given_names if each in made), None)
            for each in given_names:
                found = found or _dequantized(made.get(f"{each}_quantized"), extra)
            if found is not None and nodes[name] in absorbed:
                attributes = {key: each.value for key, each in nodes[name].attributes.items()}
                again = node(nodes[name].op_type, [found, *nodes[name].inputs[1:]], [f"{name} again"], attributes)
                extra.append(again)
                found = again.outputs[0]
            if found is None:
                continue
            self.watched.append(name)
            number = len(self.watched)
            wide = node("Cast", [found], [f"wide {number}"], {"to": 1})
            difference = node("Sub", [wide.outputs[0], one], [f"difference {number}"])
            signal = node("ReduceSumSquare", [one], [f"signal {number}"], {"keepdims": 0})
            noise = node("ReduceSumSquare", [difference.outputs[0]], [f"noise {number}"], {"keepdims": 0})
            sums += [wide, difference, signal, noise]
            for value in (signal.outputs[0], noise.outputs[0]):
                value.type = FLOAT
                graph.outputs.append(value)
        graph.nodes += [*other.nodes, *extra, *sums]
        graph.initializers += [value for value in other.initializers if value not in set(given.values())]
        imports = {
            domain: max(model.opset_imports.get(domain, 1), version) for domain, version in built.opset_imports.items()
        }
        model.opset_imports |= imports
        model.ir_version = max(model.ir_version, built.ir_version)
        self.model = model


SCALES = {"QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QGemm": (7, 8)}
"""Where operators on integers have the scale and the zero point of their result, if these are not the last inputs."""


def _is_clamp(value: Value | None) -> bool:
    return value is not None and value.producer is not None and value.producer.op_type in CLAMPS


def _dequantized(value: Value | None, nodes: list[Node]) -> Value | None:
    """What integers that an operator made stand for; None where it does not tell."""
    producer = None if value is None else value.producer
    if value is None or producer is None:
        return None
    if producer.op_type == "QuantizeLinear":
        scale, zero = producer.inputs[1:3]
    elif producer.op_type.startswith(("QLinear", "QGemm")):
        places = SCALES.get(producer.op_type, (len(producer.inputs) - 2, len(producer.inputs) - 1))
        scale, zero = (producer.inputs[place] for place in places)
    else:
        return None
    made = node("DequantizeLinear", [value, scale, zero], [f"{value.name} as floats"])
    nodes.append(made)
    return made.outputs[0]
