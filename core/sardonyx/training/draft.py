"""A model under construction, whose tensors go by their names, as blocks of onnxblock hand them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Node, TensorType, Value
from sardonyx.model.ir.build import attribute, constant
from sardonyx.quantization.inferred import inferred_types


class Draft:
    """A model that grows; `values` has its tensors by name, those inside subgraphs left out."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = model.graph
        self.values: dict[str, Value] = {}
        graph_values = (*self.graph.inputs, *self.graph.initializers, *self.graph.outputs)
        made = (value for node in self.graph.nodes for value in node.outputs)
        for value in (*graph_values, *made):
            if value.name:
                self.values.setdefault(value.name, value)

    def fresh(self, name: str) -> str:
        """This name, or, where there is such a tensor, one that begins with it."""
        count, found = 1, name
        while found in self.values:
            count += 1
            found = f"{name}_{count}"
        return found

    def value(self, name: str) -> Value:
        """The tensor of this name; InvalidArgument where there is none."""
        if name not in self.values:
            raise InvalidArgument(f"the model has no tensor {name!r}; its outputs are {self.output_names()}")
        return self.values[name]

    def output_names(self) -> list[str]:
        return [value.name for value in self.graph.outputs]

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        output: str | Sequence[str] = "",
        attributes: dict[str, Any] | None = None,
        domain: str = "",
    ) -> str:
        """Append a node and give the name of its first output; a name of an input that is empty leaves it out."""
        wished = [output] if isinstance(output, str) else output
        node = Node(op_type, [self.value(name) if name else None for name in inputs], [], domain=domain)
        node.attributes = {key: attribute(key, each) for key, each in (attributes or {}).items() if each is not None}
        node.outputs = [self._new(name or op_type.lower()) for name in wished]
        for value in node.outputs:
            value.producer = node
        node.name = node.outputs[0].name
        self.graph.nodes.append(node)
        return node.outputs[0].name

    def named(self, name: str, producer: Node) -> Value:
        """A further output of a node."""
        value = self._new(name)
        value.producer = producer
        return value

    def _new(self, name: str) -> Value:
        value = Value(self.fresh(name))
        self.values[value.name] = value
        return value

    def constant(self, array: np.ndarray, name: str) -> str:
        """Append an initializer and give its name."""
        value = constant(array, self.fresh(name))
        self.values[value.name] = value
        self.graph.initializers.append(value)
        return value.name

    def input(self, name: str, kind: TensorType) -> str:
        """Append an input of the graph and give its name."""
        value = self._new(name)
        value.type = kind
        self.graph.inputs.append(value)
        return value.name

    def output(self, name: str) -> None:
        """Make a tensor an output of the graph."""
        self.graph.outputs.append(self.value(name))

    def type_of(self, name: str) -> TensorType:
        """What is declared, or else inferred, of a tensor; InvalidArgument where it is nothing."""
        value = self.value(name)
        declared = value.type if isinstance(value.type, TensorType) and value.type.shape is not None else None
        return declared or self.inferred(name)

    def inferred(self, name: str) -> TensorType:
        """What is inferred of a tensor, or else declared, which may be less; InvalidArgument where it is nothing."""
        value = self.value(name)
        found = inferred_types(self.model).get(value, value.type)
        if not isinstance(found, TensorType) or found.dtype is None:
            raise InvalidArgument(f"nothing is known of the type of {name!r}; declare it in the model's value_info")
        return found

    def opset(self) -> int:
        """The operator set of ai.onnx."""
        imports = self.model.opset_imports
        return imports.get("", imports.get("ai.onnx", 0))

    def record_types(self) -> None:
        """Declare what is inferred of the graph's outputs, where the graph does not say it."""
        if all(isinstance(value.type, TensorType) for value in self.graph.outputs):
            return
        found = inferred_types(self.model)
        for value in self.graph.outputs:
            if not isinstance(value.type, TensorType):
                value.type = found.get(value)
