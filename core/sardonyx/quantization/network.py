"""A model whose tensors are found by their names, as quantizers change it: nodes, initializers, element types.

Names are those of the file, which onnxruntime's tool keeps and extends; the order of nodes is its, too.
"""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Attribute, Graph, Model, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import attribute
from sardonyx.model.ir.order import is_sorted, sort
from sardonyx.model.serde.writer import save
from sardonyx.quantization.element_types import infer_element_types

MICROSOFT = "com.microsoft"
PRODUCER = ("onnx.quantize", "0.1.0")
"""What files say of who made them: runtimes and tools look for onnxruntime's name."""


class Network:
    """A model under change. `types` has the element types that are declared, or follow from what ONNX says of nodes."""

    def __init__(self, model: Model, graph: Graph | None = None, outer: Network | None = None) -> None:
        self.model = model
        self.graph = model.graph if graph is None else graph
        self.types = infer_element_types(model, self.graph, outer.all_types() if outer else None)
        self._outer = outer
        self._values: dict[str, Value] = {}
        graph_values = (*self.graph.inputs, *self.graph.initializers, *self.graph.outputs)
        used = (value for node in self.graph.nodes for value in (*node.inputs, *node.outputs))
        for value in (*graph_values, *used):
            if value is not None and value.name:
                self._values.setdefault(value.name, value)
        self.initializers: dict[str, Tensor] = {
            value.name: value.constant for value in self.graph.initializers if value.constant is not None
        }
        """The constants of this graph by name; changed by `keep` and `drop` alone."""
        self._users: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            self._register(node)

    @property
    def opset(self) -> int:
        """The operator set of ai.onnx."""
        return opset_of(self.model)

    # ---- names

    def value(self, name: str) -> Value:
        """The tensor of this name, which may be new."""
        if not name:
            return Value("")
        if name not in self._values:
            self._values[name] = self._around(name) or Value(name)
        return self._values[name]

    def _around(self, name: str) -> Value | None:
        """The tensor of this name of a graph around this one."""
        outer = self._outer
        while outer is not None and name not in outer._values:
            outer = outer._outer
        return outer._values[name] if outer is not None else None

    def all_types(self) -> Mapping[str, DType]:
        """The element types that are known here and around this graph, those of constants, too."""
        constants = {name: tensor.dtype for name, tensor in self.initializers.items()}
        return ChainMap(self.types, constants, dict(self._outer.all_types() if self._outer else {}))

    def is_input(self, name: str) -> bool:
        return any(value.name == name for value in self.graph.inputs)

    def is_output(self, name: str) -> bool:
        return any(value.name == name for value in self.graph.outputs)

    def fed(self) -> set[str]:
        """The inputs that are no initializers."""
        return {value.name for value in self.graph.inputs if value.name not in self.initializers}

    def users(self, name: str) -> list[Node]:
        """The nodes that take a tensor, as often as they do; subgraphs do not count."""
        return self._users.get(name, [])

    # ---- constants

    def keep(self, name: str, array: np.ndarray, dtype: DType, typed: bool = False) -> None:
        """Make an array an initializer; one of that name stays as it is."""
        if name in self.initializers:
            return
        tensor = Tensor.of(np.asarray(array), dtype, name)
        tensor.typed = typed
        value = self.value(name)
        value.constant, value.type = tensor, TensorType(dtype, tensor.shape)
        self.graph.initializers.append(value)
        self.initializers[name] = tensor

    def drop(self, name: str) -> None:
        """Remove an initializer, which may be an input, too."""
        if self.initializers.pop(name, None) is None:
            return
        value = self._values[name]
        value.constant = None
        self.graph.initializers.remove(value)
        self.graph.inputs[:] = [each for each in self.graph.inputs if each is not value]

    def reshape(self, name: str, shape: Sequence[int]) -> None:
        """Have an initializer the same elements in another shape."""
        old = self.initializers[name]
        tensor = Tensor.of(old.array().reshape(shape), old.dtype, name)
        tensor.typed = old.typed
        value = self._values[name]
        value.constant, value.type = tensor, TensorType(old.dtype, tensor.shape)
        self.initializers[name] = tensor

    def constant(self, name: str) -> np.ndarray | None:
        """What a node Constant or an initializer holds; None where the tensor is neither."""
        for node in self.graph.nodes:
            if node.op_type == "Constant" and node.outputs[0].name == name and "value" in node.attributes:
                held: Tensor = node.attributes["value"].value
                return held.array()
        tensor = self.initializers.get(name)
        return None if tensor is None else tensor.array()

    # ---- nodes

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str = "",
        attributes: dict[str, Attribute] | None = None,
        domain: str = "",
        **more: Any,
    ) -> Node:
        """A new node, which is not in the graph yet; attributes that are None are left out."""
        held = dict(attributes or {})
        held |= {key: attribute(key, value) for key, value in sorted(more.items()) if value is not None}
        made = Node(op_type, [self.value(each) if each else None for each in inputs], [], held, domain, name)
        made.outputs = [self.value(each) for each in outputs]
        for value in made.outputs:
            value.producer = made
        return made

    def add(self, *nodes: Node) -> None:
        """Append nodes."""
        for node in nodes:
            self.graph.nodes.append(node)
            self._register(node)

    def set_input(self, node: Node, index: int, name: str) -> None:
        """Have a node take another tensor; the index after the last one adds an input."""
        value = self.value(name)
        if index == len(node.inputs):
            node.inputs.append(value)
        else:
            old = node.inputs[index]
            node.inputs[index] = value
            if old is not None and node in self._users.get(old.name, ()):
                self._users[old.name].remove(node)
        self._users.setdefault(name, []).append(node)

    def set_output(self, node: Node, index: int, name: str) -> None:
        """Have a node make another tensor."""
        old = node.outputs[index]
        old.producer = None
        node.outputs[index] = self.value(name)
        node.outputs[index].producer = node

    def redirect(self, old: str, new: str, only: Iterable[str] | None = None) -> None:
        """Have all nodes that take a tensor, or those of them with these names, take another one."""
        names = None if only is None else set(only)
        value = self.value(new)
        for node in list(self._users.get(old, ())):
            if names is None or node.name in names:
                node.inputs = [value if each is not None and each.name == old else each for each in node.inputs]
                self._users[old].remove(node)
                self._users.setdefault(new, []).append(node)

    def rename_output(self, old: str, new: str) -> None:
        """Have the node that makes a tensor make another one instead."""
        for node in self.graph.nodes:
            for index, value in enumerate(node.outputs):
                if value.name == old:
                    self.set_output(node, index, new)

    def remove(self, nodes: Sequence[Node]) -> None:
        gone = set(map(id, nodes))
        self.graph.nodes[:] = [node for node in self.graph.nodes if id(node) not in gone]
        for node in nodes:
            for name in set(names(node.inputs)) - {""}:
                self._users[name] = [each for each in self._users.get(name, ()) if each is not node]

    def _register(self, node: Node) -> None:
        for value in node.inputs:
            if value is not None and value.name:
                self._users.setdefault(value.name, []).append(node)

    # ---- the whole

    def clean(self) -> set[str]:
        """Remove the initializers that nothing uses; the names that are used and come from nowhere."""
        unused, missing = _unused(self.graph)
        for value in unused:
            if value.name in self.initializers:
                self.drop(value.name)
        return missing

    def sort(self) -> None:
        """Sort the nodes as onnxruntime's tool does: those without inputs first, then as their inputs come in.

        ValueError where nodes wait for each other.
        """
        nodes = self.graph.nodes
        given = names((*self.graph.initializers, *self.graph.inputs))
        order = kahn([names(node.inputs) for node in nodes], [names(node.outputs) for node in nodes], given)
        if len(order) < len(nodes):
            stuck = next(node for position, node in enumerate(nodes) if position not in {*order})
            raise InvalidArgument(f"{stuck.label} waits for what comes after it, or from nowhere")
        self.graph.nodes[:] = [nodes[position] for position in order]
        if not is_sorted(self.graph):  # what a subgraph takes from around it does not count there
            sort(self.graph)

    def save(self, path: str | os.PathLike[str], external: bool = False) -> None:
        """Write the model, its nodes sorted; with `external`, large tensors go into a file beside it."""
        self.sort()
        location = f"{Path(path).name}.data" if external else None
        save(self.model, path, external_data=location)


def names(values: Iterable[Value | None]) -> list[str]:
    """The names of tensors, empty for those that are left out."""
    return [value.name if value is not None else "" for value in values]


def opset_of(model: Model) -> int:
    """The operator set of ai.onnx; ValueError where the model imports none."""
    versions = [version for domain, version in model.opset_imports.items() if domain in ("", "ai.onnx")]
    if len(versions) != 1:
        raise InvalidArgument("the model imports no operator set of ai.onnx")
    return versions[0]


def _unused(graph: Graph) -> tuple[list[Value], set[str]]:
    """The initializers, of this graph and those inside it, that nothing uses; and the names that come from nowhere."""
    asked = {value.name for node in graph.nodes for value in node.inputs if value is not None}
    asked |= {value.name for value in graph.outputs}
    unused: list[Value] = []
    for node in graph.nodes:
        for inner in node.subgraphs():
            dropped, outside = _unused(inner)
            inner.initializers[:] = [value for value in inner.initializers if value not in dropped]
            asked |= outside
    asked -= {value.name for node in graph.nodes for value in node.outputs}
    for value in graph.initializers:
        if value.name not in asked:
            unused.append(value)
        asked.discard(value.name)
    asked -= {value.name for value in graph.inputs}
    return unused, asked - {""}


def kahn(taken: Sequence[Sequence[str]], made: Sequence[Sequence[str]], given: Iterable[str]) -> list[int]:
    """The order of nodes, of which these names go in and come out, where these are given: by Kahn's algorithm.

    What is ready stands in the order in which its last input came; the given ones come in the order of the alphabet.
    Nodes that wait for something else are missing.

    >>> kahn([["x", "y"], ["x"]], [["z"], ["y"]], ["x"])
    [1, 0]
    """
    waiting: list[int] = []
    takers: dict[str, list[int]] = {}
    for position, inputs in enumerate(taken):
        present = [name for name in inputs if name]
        waiting.append(len(present))
        for name in present:
            takers.setdefault(name, []).append(position)
    ready = [position for position, count in enumerate(waiting) if not count]

    def arrived(name: str) -> Iterator[int]:
        for position in takers.get(name, ()):
            waiting[position] -= 1
            if not waiting[position]:
                yield position

    for name in sorted(set(given)):
        ready.extend(arrived(name))
    for position in ready:
        for name in made[position]:
            if name:
                ready.extend(arrived(name))
    return ready
