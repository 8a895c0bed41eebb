"""Overrides completed: where a tensor gets another type, its neighbours get it, too, or are converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.common.record import field, record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Node
from sardonyx.quantization.base_quantizer import FLOATS
from sardonyx.quantization.enums import QuantType
from sardonyx.quantization.network import Network, names
from sardonyx.quantization.proto import as_model
from sardonyx.quantization.tensor_quant_overrides import QuantTypeInfo, TensorQuantOverridesHelper


@record
class TensorTypeRequest:
    """The type in which a tensor is to be made, and the one in which these nodes are to get it; None is the default."""

    producer: QuantTypeInfo | None = None
    consumers: QuantTypeInfo | None = None
    names: set[str] = field(default_factory=set)


class MixedPrecisionTensorQuantOverridesFixer:
    """Completes overrides that give some activations another type than the others.

    A node takes and gives one type. So whoever makes or takes such a tensor has it on all sides, and between such nodes
    and the others tensors are converted.
    """

    def __init__(self, overrides: TensorQuantOverridesHelper, network: Network) -> None:
        self.overrides = overrides
        self.network = network
        self._makers: Mapping[str, Node] = {name: node for node in network.graph.nodes for name in names(node.outputs)}

    @staticmethod
    def create_from_model(
        overrides: TensorQuantOverridesHelper, model: Any, default_activation_qtype: QuantType
    ) -> MixedPrecisionTensorQuantOverridesFixer:
        """One for the overrides of this model; ValueError where they cannot be."""
        made = MixedPrecisionTensorQuantOverridesFixer(overrides, Network(as_model(model)))
        made._check(default_activation_qtype)
        return made

    def _check(self, default: QuantType) -> None:
        network = self.network
        valid, problem = self.overrides.is_valid(network.initializers, network.types, default)
        if not valid:
            raise InvalidArgument(problem)

    def apply(self, default_activation_qtype: QuantType, default_activation_symmetric: bool) -> None:
        """Complete the overrides, in place; ValueError where a tensor would have two types at once."""
        default = QuantTypeInfo(default_activation_qtype)
        requests = self.get_desired_tensor_types(default_activation_qtype, default_activation_symmetric)
        for name, request in requests.items():
            self._complete(name, request, default)
        self._check(default_activation_qtype)

    def _complete(self, name: str, request: TensorTypeRequest, default: QuantTypeInfo) -> None:
        takers = {node.name for node in self.network.users(name)}
        made, taken = request.producer, request.consumers
        if made is not None and taken is None:
            self._convert(name, made, default, takers)
        elif made is None and taken is not None:
            own = self.overrides.get_node_output_qtype_info(name, default.quant_type)
            if own != taken:
                self._convert(name, own, taken, request.names)
            elif self._are_converted(name, request.names):
                raise InvalidArgument(
                    f"Tensor override for '{name}' converts the type for nodes that need the original one."
                )
        elif made is not None and taken is not None:
            others = takers - request.names
            if made != taken:
                self._convert(name, made, taken, request.names)
            elif others:
                self._convert(name, made, default, others)
            elif name not in self.overrides:
                self.overrides[name] = [{}]
                made.save_to_dict(self.overrides[name][0])

    def get_desired_tensor_types(
        self, default_activation_qtype: QuantType, default_activation_symmetric: bool
    ) -> dict[str, TensorTypeRequest]:
        """The types that tensors are to have, by the overrides of their neighbours."""
        default = QuantTypeInfo(default_activation_qtype, default_activation_symmetric)
        requests: dict[str, TensorTypeRequest] = {}
        for name, asked in list(self.overrides.items()):
            if not self._is_activation(name) or len(asked) != 1:
                continue
            wanted = QuantTypeInfo.load_from_dict(asked[0], default.quant_type)
            if wanted == default or "convert" in asked[0]:
                continue
            maker = self._makers.get(name)
            for node in [*([maker] if maker is not None else []), *self.network.users(name)]:
                self._request(requests, wanted, node)
        return requests

    def _request(self, requests: dict[str, TensorTypeRequest], wanted: QuantTypeInfo, node: Node) -> None:
        """Ask for this type on all sides of a node."""
        for name in filter(self._is_activation, names(node.outputs)):
            request = requests.setdefault(name, TensorTypeRequest())
            if request.producer is not None and request.producer != wanted:
                raise InvalidArgument(f"Tensor {name} has multiple types.")
            request.producer = wanted
        for name in filter(self._is_activation, names(node.inputs)):
            request = requests.setdefault(name, TensorTypeRequest())
            if request.consumers is not None and request.consumers != wanted:
                raise InvalidArgument(f"Tensor {name} has consumers requesting different types.")
            if not node.name:
                raise InvalidArgument(f"{node.label} has no name, so no tensor can be converted for it; name it")
            request.consumers = wanted
            request.names.add(node.name)

    def _convert(self, name: str, made: QuantTypeInfo, taken: QuantTypeInfo, takers: set[str]) -> None:
        """Have a tensor converted for these nodes."""
        if not self.overrides.overrides.get(name):
            self.overrides[name] = [{}]
            made.save_to_dict(self.overrides[name][0])
        asked = self.overrides[name][0]
        if made != QuantTypeInfo.load_from_dict(asked):
            raise InvalidArgument(f"Desired producer quant_type for {name} doesn't match existing type.")
        if not takers:
            return
        if "convert" not in asked:
            asked["convert"] = {}
            taken.save_to_dict(asked["convert"])
        if taken != QuantTypeInfo.load_from_dict(asked["convert"]):
            raise InvalidArgument(f"Desired consumer quant_type for {name} doesn't match existing type.")
        asked["convert"].setdefault("recv_nodes", set()).update(takers)

    def _are_converted(self, name: str, takers: set[str]) -> bool:
        """Whether some of these nodes get the tensor in another type."""
        first = (self.overrides.overrides.get(name) or [{}])[0]
        if "convert" not in first:
            return False
        return "recv_nodes" not in first["convert"] or bool(first["convert"]["recv_nodes"] & takers)

    def _is_activation(self, name: str) -> bool:
        return name not in self.network.initializers and self.network.types.get(name) in FLOATS
