"""A graph in the making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

Array = npt.NDArray[Any]


class Graph:
    """Nodes and initializers. `graph.Add(x, 1.5)` appends a node and returns the name of its (first) output.

    Operands are names, or numbers and lists of numbers, which become float32 or int64. Keywords are `domain`, `outputs`
    (names, where one wants to choose them) and the attributes.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: dict[str, onnx.TensorProto] = {}

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        return partial(self._node, op_type)

    def tensor(self, name: str, array: Array) -> str:
        """Store an initializer, unless the name is known, and return its name."""
        if name not in self.tensors:
            self.tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def constant(self, value: Any) -> str:
        """Store a number or a list of numbers under a name that tells them."""
        array = np.array(value)
        array = array.astype({"f": np.float32, "i": np.int64}[array.dtype.kind])
        return self.tensor(f"{array.dtype}{array.tolist()}".replace(" ", ""), array)

    def model(self, name: str, inputs: Any, outputs: Any, opsets: dict[str, int]) -> onnx.ModelProto:
        """Return a model; `inputs` and `outputs` map names to (element type, shape)."""
        given, made = (
            [helper.make_tensor_value_info(one, *description) for one, description in values.items()]
            for values in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, name, given, made, list(self.tensors.values()))
        imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=10, producer_name="sardonyx-tests")

    def _node(
        self, op_type: str, *operands: Any, outputs: Sequence[str] = (), domain: str = "", **attributes: Any
    ) -> str:
        names = [operand if isinstance(operand, str) else self.constant(operand) for operand in operands]
        made = list(outputs) or [f"{op_type}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op_type, names, made, name=made[0], domain=domain, **attributes))
        return made[0]
