"""A model whose nodes are quantized by switches: one session tells the noise that each node alone adds.

    w -- quantize -- dequantize --> Where(switch 3, ., w) --> node

A tensor is quantized if a node is that makes or reads it, as quantizers have it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Model, Node, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.model.ir.order import sort
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.infer import infer_types
from sardonyx.quantization.tuning.preparation import by_name, plain
from sardonyx.quantization.tuning.samples import Feeds

SWITCHES = "sardonyx_switches"


class Switched:
    """The session, and which switches each node has."""

    def __init__(self, model: Model, touched: Sequence[set[str]], providers: list[str]) -> None:
        self._touched = touched
        self._session = InferenceSession(write(model), providers=providers)
        self.outputs = [value.name for value in model.graph.outputs]

    def run(self, feeds: Feeds, quantized: Collection[str]) -> list[np.ndarray]:
        """The model's outputs where these nodes are quantized."""
        on = set(quantized)
        switches = np.array([not touching.isdisjoint(on) for touching in self._touched] or [False])
        results: list[np.ndarray] = self._session.run(self.outputs, {**feeds, SWITCHES: switches})
        return results


def of_pairs(model: Model, simulated: Path, candidates: Sequence[str], providers: list[str]) -> Switched:
    """Switches for what has pairs of QuantizeLinear and DequantizeLinear in the file; `model` has the floats."""
    floats = plain(model)
    return Switched(*_Pairs(plain(read(simulated)), floats, set(candidates)).built(), providers)


def of_halves(model: Model, candidates: Sequence[str], providers: list[str]) -> Switched:
    """Switches for rounding to 16 bits what a node reads of constants, and what it gives."""
    switched = plain(model)
    infer_types(switched.graph)
    builder = _Builder(switched.graph)
    for each in list(switched.graph.nodes):
        if each.name not in candidates:
            continue
        for place, value in enumerate(each.inputs):
            if value is not None and value.constant is not None and value.dtype is dtypes.float32:
                each.inputs[place] = builder.switch({each.name}, _rounded(builder, value), value)
        for value in each.outputs:
            if value.name and value.dtype is dtypes.float32:
                builder.replace(value, builder.switch({each.name}, _rounded(builder, value), value))
    return Switched(*builder.finished(switched), providers)


def _rounded(builder: _Builder, value: Value) -> Value:
    half = builder.add(node("Cast", [value], [f"{value.name} half"], {"to": 10}))
    return builder.add(node("Cast", [half], [f"{value.name} rounded"], {"to": 1}))


class _Builder:
    """Adds switches to a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._replaced: list[tuple[Value, Value]] = []
        self.touched: list[set[str]] = []
        self._switches = Value(SWITCHES, TensorType(dtypes.bool_, ()))

    def add(self, made: Node) -> Value:
        self._nodes.append(made)
        return made.outputs[0]

    def switch(self, touching: set[str], quantized: Value, float_value: Value) -> Value:
        """What is quantized if one of these nodes is, else not."""
        number = len(self.touched)
        self.touched.append(touching)
        index = constant(np.array(number, np.int64), f"switch {number} index")
        self._graph.initializers.append(index)
        on = self.add(node("Gather", [self._switches, index], [f"switch {number}"], {"axis": 0}))
        return self.add(node("Where", [on, quantized, float_value], [f"switched {number}"]))

    def replace(self, value: Value, other: Value) -> None:
        """Have the nodes that are there already, and the outputs, read another value."""
        self._replaced.append((value, other))

    def finished(self, model: Model) -> tuple[Model, list[set[str]]]:
        """The model, and the nodes that turn each switch on."""
        others = dict(self._replaced)
        for each in self._graph.nodes:
            each.inputs = [others.get(value, value) if value is not None else None for value in each.inputs]
        outputs = []
        for value in self._graph.outputs:
            if value in others:
                renamed = node("Identity", [others[value]], [value.name])
                value.name = f"{value.name} float"
                renamed.outputs[0].type = value.type
                self._nodes.append(renamed)
                value = renamed.outputs[0]
            outputs.append(value)
        self._graph.outputs = outputs
        self._graph.nodes += self._nodes
        self._switches.type = TensorType(dtypes.bool_, (max(len(self.touched), 1),))
        self._graph.inputs.append(self._switches)
        sort(self._graph)
        return model, self.touched


class _Pairs:
    """A model with pairs, switched."""

    def __init__(self, model: Model, floats: Model, candidates: set[str]) -> None:
        self._model = model
        self._floats = by_name(floats)
        self._makers = {value.name: each for each in floats.graph.nodes for value in each.outputs}
        self._candidates = candidates
        self._builder = _Builder(model.graph)

    def built(self) -> tuple[Model, list[set[str]]]:
        readers: dict[Value, list[tuple[Node, int]]] = {}
        for each in self._model.graph.nodes:
            for place, value in enumerate(each.inputs):
                if value is not None:
                    readers.setdefault(value, []).append((each, place))
        for each in list(self._model.graph.nodes):
            if each.op_type == "DequantizeLinear":
                self._pair(each, readers)
        return self._builder.finished(self._model)

    def _pair(self, pair: Node, readers: dict[Value, list[tuple[Node, int]]]) -> None:
        value, given = pair.outputs[0], pair.inputs[0]
        users = readers.get(value, [])
        if given is None:
            return
        if given.constant is not None:
            for user, place in users:
                floats = self._floats.get(user.name) or self._makers.get(user.outputs[0].name)
                if floats is not None and place < len(floats.inputs) and floats.name in self._candidates:
                    self._weight(user, place, floats.name, floats.inputs[place])
            return
        quantizer = given.producer
        if quantizer is None or quantizer.op_type != "QuantizeLinear" or quantizer.inputs[0] is None:
            return
        origin = quantizer.inputs[0]
        touching = {user.name for user, _ in users} | ({origin.producer.name} if origin.producer else set())
        self._builder.replace(value, self._builder.switch(touching & self._candidates, value, origin))

    def _weight(self, user: Node, place: int, name: str, found: Value | None) -> None:
        value = user.inputs[place]
        if value is None or found is None or found.constant is None:
            return
        weight = constant(found.constant.array(), f"{found.name} of {name} float")
        self._model.graph.initializers.append(weight)
        user.inputs[place] = self._builder.switch({name}, value, weight)


def alone(
    switched: Switched, candidates: Sequence[str], samples: Sequence[Feeds], step: Callable[[], None]
) -> dict[str, float]:
    """The noise that each node adds if it alone is quantized: power over that of the signal, of the worst output."""
    expected = [switched.run(feeds, ()) for feeds in samples]
    noises = {}
    for name in candidates:
        found = [switched.run(feeds, {name}) for feeds in samples]
        noises[name] = share(expected, found)
        step()
    return noises


def share(expected: Sequence[Sequence[np.ndarray]], found: Sequence[Sequence[np.ndarray]]) -> float:
    """The power of noise over that of the signal, summed over samples, of the output where it is largest.

    >>> share([[np.float32([3, 4])]], [[np.float32([3, 5])]])
    0.04
    """
    largest = 0.0
    for outputs, others in zip(zip(*expected), zip(*found), strict=True):
        pairs = [_powers(*pair) for pair in zip(outputs, others, strict=True)]
        signal, noise = (sum(column) for column in zip(*pairs))
        largest = max(largest, noise / signal if signal else float(noise > 0))
    return largest


def _powers(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The power of a signal, and of what differs; of values that are no floats the count, and how many differ."""
    if one.shape != other.shape:
        return float(one.size), float(one.size)
    if one.dtype.kind != "f":
        return float(one.size), float(np.count_nonzero(one != other))
    wide = one.astype(np.float64)
    with np.errstate(all="ignore"):
        return float((wide**2).sum()), float(np.nan_to_num(((other - wide) ** 2).sum(), nan=np.inf))
