"""onnxruntime.quantization.onnx_model: a ModelProto with what is done to it by name.

Messages are used as they are given, whatever library made them. The quantizers themselves change
`sardonyx.quantization.network`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.common.atomic import replacing
from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save, write
from sardonyx.quantization.gemm import replace_gemm
from sardonyx.quantization.network import Network, kahn


class ONNXModel:
    """A ModelProto, in `model`; nodes, tensors and graphs that go in and come out are messages, too."""

    def __init__(self, model: Any) -> None:
        self.model = model

    # ---- what is there

    def graph(self) -> Any:
        """The graph."""
        return self.model.graph

    def nodes(self) -> Any:
        """The nodes of the graph."""
        return self.model.graph.node

    def initializer(self) -> Any:
        """The initializers of the graph."""
        return self.model.graph.initializer

    def ir_version(self) -> int:
        """The version of the file's format."""
        return int(self.model.ir_version)

    def opset_import(self) -> Any:
        """The operator sets."""
        return self.model.opset_import

    def set_opset_import(self, domain: str, version: int) -> None:
        """Have the model import this operator set of a domain."""
        found = _find(self.model.opset_import, domain, "domain")
        opset = self.model.opset_import.add() if found is None else found
        opset.domain, opset.version = domain, version

    def get_initializer(self, name: str) -> Any:
        """The initializer of this name, or None."""
        return _find(self.initializer(), name)

    def get_initializer_name_set(self) -> set[str]:
        """The names of the initializers."""
        return {each.name for each in self.initializer()}

    def get_non_initializer_inputs(self) -> set[str]:
        """The names of the inputs that are no initializers."""
        return {each.name for each in self.model.graph.input} - self.get_initializer_name_set()

    def find_graph_input(self, input_name: str) -> Any:
        """The graph's input of this name, or None."""
        return _find(self.model.graph.input, input_name)

    def find_graph_output(self, output_name: str) -> Any:
        """The graph's output of this name, or None."""
        return _find(self.model.graph.output, output_name)

    def is_graph_input(self, tensor_name: str) -> bool:
        """Whether the graph has an input of this name."""
        return self.find_graph_input(tensor_name) is not None

    def is_graph_output(self, output_name: str) -> bool:
        """Whether the graph has an output of this name."""
        return self.find_graph_output(output_name) is not None

    def get_tensor_type(self, tensor_name: str) -> Any:
        """The declared TypeProto.Tensor of a tensor, or None."""
        graph = self.model.graph
        for infos in (graph.value_info, graph.input, graph.output):
            found = _find(infos, tensor_name)
            if found is not None:
                return found.type.tensor_type
        return None

    def get_constant_value(self, output_name: str) -> np.ndarray | None:
        """What a node Constant or an initializer of this name holds, or None."""
        return Network(read(self.model.SerializeToString())).constant(output_name)

    # ---- neighbours

    def input_name_to_nodes(self) -> dict[str, list[Any]]:
        """The nodes that take each tensor."""
        found: dict[str, list[Any]] = {}
        for node in self.nodes():
            for name in filter(None, node.input):
                found.setdefault(name, []).append(node)
        return found

    def output_name_to_node(self) -> dict[str, Any]:
        """The node that makes each tensor."""
        return {name: node for node in self.nodes() for name in node.output if name}

    def get_children(self, node: Any, input_name_to_nodes: dict[str, list[Any]] | None = None) -> list[Any]:
        """The nodes that take what a node makes."""
        takers = self.input_name_to_nodes() if input_name_to_nodes is None else input_name_to_nodes
        return [taker for name in node.output for taker in takers.get(name, ())]

    def get_parents(self, node: Any, output_name_to_node: dict[str, Any] | None = None) -> list[Any]:
        """The nodes that make what a node takes."""
        makers = self.output_name_to_node() if output_name_to_node is None else output_name_to_node
        return [makers[name] for name in node.input if name in makers]

    def get_parent(self, node: Any, idx: int, output_name_to_node: dict[str, Any] | None = None) -> Any:
        """The node that makes this input of a node, or None."""
        makers = self.output_name_to_node() if output_name_to_node is None else output_name_to_node
        return makers.get(node.input[idx]) if idx < len(node.input) else None

    def find_node_by_name(self, node_name: str, new_nodes_list: Iterable[Any], graph: Any) -> Any:
        """The node of this name, of a graph or of a list, or None."""
        return _find([*graph.node, *new_nodes_list], node_name)

    def find_nodes_by_initializer(self, graph: Any, initializer: Any) -> list[Any]:
        """The nodes that take an initializer, as often as they do."""
        return [node for node in graph.node for name in node.input if name == initializer.name]

    def get_largest_node_name_suffix(self, node_name_prefix: str) -> int:
        """The largest number after this beginning among the names of nodes; -1 where there is none."""
        return _largest(self.nodes(), node_name_prefix)

    def get_largest_initializer_name_suffix(self, initializer_name_prefix: str) -> int:
        """The largest number after this beginning among the names of initializers; -1 where there is none."""
        return _largest(self.initializer(), initializer_name_prefix)

    # ---- changes

    def add_node(self, node: Any) -> None:
        """Append a node."""
        self.nodes().extend([node])

    def add_nodes(self, nodes_to_add: Iterable[Any]) -> None:
        """Append nodes."""
        self.nodes().extend(nodes_to_add)

    def remove_node(self, node: Any) -> None:
        """Remove a node, if it is there."""
        if node in self.nodes():
            self.nodes().remove(node)

    def remove_nodes(self, nodes_to_remove: Iterable[Any]) -> None:
        """Remove nodes."""
        for node in nodes_to_remove:
            self.remove_node(node)

    def add_initializer(self, tensor: Any) -> None:
        """Add an initializer, unless there is one of its name."""
        if self.get_initializer(tensor.name) is None:
            self.initializer().extend([tensor])

    def initializer_extend(self, inits: Sequence[Any]) -> None:
        """Append initializers; ValueError where there are none."""
        if not inits:
            raise InvalidArgument("no initializers are given")
        self.initializer().extend(inits)

    def remove_initializer(self, tensor: Any) -> None:
        """Remove an initializer, and the input of its name."""
        if tensor in self.initializer():
            self.initializer().remove(tensor)
            found = self.find_graph_input(tensor.name)
            if found is not None:
                self.model.graph.input.remove(found)

    def remove_initializers(self, init_to_remove: Iterable[Any]) -> None:
        """Remove initializers."""
        for tensor in init_to_remove:
            self.remove_initializer(tensor)

    @staticmethod
    def replace_node_input(node: Any, old_input_name: str, new_input_name: str) -> None:
        """Have a node take another tensor."""
        _rename(node.input, old_input_name, new_input_name)

    @staticmethod
    def replace_node_output(node: Any, old_output_name: str, new_output_name: str) -> None:
        """Have a node make another tensor."""
        _rename(node.output, old_output_name, new_output_name)

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        """Have all nodes take another tensor."""
        for node in self.nodes():
            _rename(node.input, old_input_name, new_input_name)

    def replace_input_of_nodes(self, old_input_name: str, new_input_name: str, node_names_set: set[str]) -> None:
        """Have the nodes of these names take another tensor."""
        for node in self.nodes():
            if node.name in node_names_set:
                _rename(node.input, old_input_name, new_input_name)

    def replace_output_of_all_nodes(self, old_output_name: str, new_output_name: str) -> None:
        """Have all nodes make another tensor."""
        for node in self.nodes():
            _rename(node.output, old_output_name, new_output_name)

    def replace_output_of_nodes(self, old_output_name: str, new_output_name: str, node_names_set: set[str]) -> None:
        """Have the nodes of these names make another tensor."""
        for node in self.nodes():
            if node.name in node_names_set:
                _rename(node.output, old_output_name, new_output_name)

    def remove_unused_constant(self) -> None:
        """Remove the Constants and initializers that nothing takes."""
        takers = self.input_name_to_nodes()
        results = {each.name for each in self.model.graph.output}
        used = {*takers, *results}
        self.remove_nodes([node for node in self.nodes() if node.op_type == "Constant" and node.output[0] not in used])
        self.remove_initializers([each for each in self.initializer() if each.name not in used])

    def clean_initializers(self) -> tuple[Any, set[str]]:
        """Remove the initializers that nothing takes, subgraphs too; the graph, and names that come from nowhere."""
        missing: set[str] = set()
        self._change(lambda network: missing.update(network.clean()))
        return self.graph(), missing

    def replace_gemm_with_matmul(self) -> None:
        """Replace every Gemm without factors by MatMul and Add."""
        self._change(lambda network: replace_gemm(network.graph))

    def topological_sort(self) -> None:
        """Sort the nodes; ValueError where they wait for each other."""
        nodes = list(self.nodes())
        given = [each.name for each in (*self.initializer(), *self.model.graph.input)]
        order = kahn([node.input for node in nodes], [node.output for node in nodes], given)
        if len(order) < len(nodes):
            raise InvalidArgument("the graph has nodes that wait for each other, or for what comes from nowhere")
        self.model.graph.ClearField("node")
        self.model.graph.node.extend(nodes[position] for position in order)

    def save_model_to_file(self, output_path: str | os.PathLike[str], use_external_data_format: bool = False) -> None:
        """Sort the nodes and write a file, with large tensors in another one beside it where that is asked for."""
        self.topological_sort()
        data = self.model.SerializeToString()
        if use_external_data_format:
            save(read(data), output_path, external_data=f"{Path(output_path).name}.data")
        else:
            with replacing(output_path) as file:
                file.write(data)

    def _change(self, function: Callable[[Network], None]) -> None:
        """Do to the nodes and initializers what is written for a Network."""
        model = read(self.model.SerializeToString())
        function(Network(model))
        changed = type(self.model).FromString(write(model))
        graph = self.model.graph
        for field in ("node", "initializer", "input"):
            graph.ClearField(field)
            getattr(graph, field).extend(getattr(changed.graph, field))
        sizes = {each.name: each.dims for each in graph.initializer}
        for info in graph.value_info:
            for size, dim in zip(sizes.get(info.name, ()), info.type.tensor_type.shape.dim, strict=False):
                dim.dim_value = size


def _find(items: Iterable[Any], name: str, field: str = "name") -> Any:
    return next((each for each in items if getattr(each, field) == name), None)


def _rename(names: Any, old: str, new: str) -> None:
    for index, name in enumerate(names):
        if name == old:
            names[index] = new


def _largest(items: Iterable[Any], prefix: str) -> int:
    ends = [each.name[len(prefix) :] for each in items if each.name.startswith(prefix)]
    return max((int(end) for end in ends if end.isdecimal()), default=-1)
