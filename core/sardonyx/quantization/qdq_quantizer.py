"""The quantizer that writes pairs of QuantizeLinear and DequantizeLinear, which runtimes fuse with what is between.

First every node has its tensors marked; then the pairs are put in, tensor by tensor: constants become integers with a
DequantizeLinear, and biases integers of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Node
from sardonyx.quantization import scales
from sardonyx.quantization.base_quantizer import QuantizationParams, dtype_of
from sardonyx.quantization.network import MICROSOFT, names
from sardonyx.quantization.operators.qdq import every_tensor
from sardonyx.quantization.qdq_marks import (
    QDQBiasQuantInfo,
    QDQMarks,
    QDQQuantParamProvider,
    QDQQuantTensorType,
    QDQTensorQuantInfo,
    QDQTensorQuantParams,
)
from sardonyx.quantization.registry import QDQRegistry

__all__ = [
    "QDQBiasQuantInfo",
    "QDQQuantParamProvider",
    "QDQQuantTensorType",
    "QDQQuantizer",
    "QDQTensorQuantInfo",
    "QDQTensorQuantParams",
]


@record
class Pair:
    """The names of a scale and a zero point."""

    scale: str
    zero: str


@record
class Done:
    """With what a tensor was quantized, and with what these nodes take it (all of them, where none is named)."""

    original: Pair
    converted: Pair | None = None
    takers: set[str] | None = None

    def of(self, node: str) -> Pair:
        """Scale and zero point with which a node takes the tensor."""
        if self.converted is None or (self.takers is not None and node not in self.takers):
            return self.original
        return self.converted


class QDQQuantizer(QDQMarks):
    """Pairs around the tensors of chosen nodes; `tensors_range` has the ranges of all that are computed."""

    def quantize(self) -> None:
        """Change the network."""
        network = self.network
        self._done: dict[str, Done] = {}
        self._takers: dict[str, list[Node]] = {}
        self._dequantized: dict[str, Node] = {}
        """The tensors that the model has in integers already, and the node that gives them back."""
        for node in list(network.graph.nodes):
            if self.should_quantize_node(node):
                QDQRegistry.get(node.op_type, every_tensor)(self, node)
                for name in names(node.inputs):
                    self._takers.setdefault(name, []).append(node)
            if node.op_type == "DequantizeLinear":
                self._dequantized.update(dict.fromkeys(names(node.outputs), node))
        self._leave_endless()
        self._weights = {
            name: self._weight_params(name, info)
            for name, info in self.tensors_to_quantize.items()
            if name in network.initializers
        }
        if not self.qdq_disable_weight_adjust_for_int32_bias:
            self._widen_weights()
        self._quantize_tensors()
        self._quantize_sharing()
        if self.quantizes_bias:
            self._quantize_biases()
        if not self.add_qdq_pair_to_weight:
            network.clean()
        if self.qdq_op_domain:
            network.model.opset_imports[MICROSOFT] = 1

    def _leave_endless(self) -> None:
        """Take the marks from tensors that hold infinity or NaN, and from those that would share their scales."""
        left = {name for name in self.tensors_to_quantize if self._is_endless(name)}
        for name in left:
            self.tell_endless(name)
        while left:
            self.bias_to_quantize = {
                name: info
                for name, info in self.bias_to_quantize.items()
                if not {info.input_name, info.weight_name} & left
            }
            for name in left:
                del self.tensors_to_quantize[name]
            left = {
                name
                for name, info in self.tensors_to_quantize.items()
                if info.quant_para_provider and info.quant_para_provider.input_name in left
            }

    def _is_endless(self, name: str) -> bool:
        if name in self.network.initializers:
            return not self.is_finite(name)
        return name in (self.tensors_range or ()) and name not in self.quantization_params

    # ---- constants

    def _weight_params(self, name: str, info: QDQTensorQuantInfo) -> QuantizationParams:
        """Scale and zero point of an initializer, by its elements and by what is asked of it."""
        weight = self.network.initializers[name].array()
        asked = self.tensor_quant_overrides.overrides.get(name) or [{}]
        first = asked[0]
        constant = info.tensor_type is QDQQuantTensorType.WEIGHT
        dtype = self.weight if constant else self.activation
        dtype = dtype_of(first["quant_type"]) if "quant_type" in first else dtype
        fixed = self.tensor_quant_overrides.overrides_scale_zp(name)
        axis = first.get("axis") if fixed else first.get("axis", info.axis)
        symmetric = axis is not None
        symmetric = symmetric or (self.is_weight_symmetric(dtype) if constant else self.is_activation_symmetric)
        symmetric = first.get("symmetric", symmetric)
        reduced = first.get("reduce_range", self.reduce_range)
        blocks = self.block_size if constant and not fixed else 0
        if blocks and axis is None:
            axis = 0
        if axis is not None:
            if not -weight.ndim <= axis < weight.ndim:
                raise InvalidArgument(f"weight {name} of rank {weight.ndim} has no axis {axis} for channels or blocks")
            axis %= weight.ndim
        if blocks:
            zero, scale = scales.of_blocks(weight, dtype, axis or 0, blocks, symmetric)
        elif axis is not None:
            zero, scale = scales.of_channels(weight, dtype, axis, symmetric, reduced, self.min_real_range, asked)
        elif fixed:
            zero = np.array(first["zero_point"], dtype.storage)
            scale = np.array(first["scale"], weight.dtype)
        else:
            limits = first.get("rmin"), first.get("rmax")
            zero, scale = scales.of_data(weight, dtype, symmetric, reduced, self.min_real_range, *limits)
        return QuantizationParams(zero_point=zero, scale=scale, quant_type=dtype.number, axis=axis, block_size=blocks)

    def _widen_weights(self) -> None:
        """Make the scales of weights so large that the biases beside them fit int32."""
        for name, bias in self.bias_to_quantize.items():
            taken = self.quantization_params.get(bias.input_name)
            weight = self._weights.get(bias.weight_name)
            if taken is None or bias.input_name not in self.tensors_to_quantize or weight is None:
                continue
            if weight.dtype not in (dtypes.int8, dtypes.int16) or weight["zero_point"].any():
                continue
            dtype = self.network.types[bias.input_name]
            scale = np.asarray(taken.get_for_consumer(bias.node_name)["scale"], dtype.storage)
            values = self.network.initializers[name].array()
            wider = self.widened(scale, weight["scale"], values, weight["axis"] is not None)
            if wider is not None:
                weight["scale"] = wider

    def _quantize_constant(self, name: str) -> None:
        """weight -> DequantizeLinear(integers), or DequantizeLinear(QuantizeLinear(weight))"""
        params = self._weights[name]
        axis, blocks = params["axis"], params["block_size"]
        pair = self._keep(name, params)
        attributes = {"axis": axis, "block_size": blocks or None}
        output = f"{name}_DequantizeLinear_Output"
        self.network.redirect(name, output)
        if self.add_qdq_pair_to_weight:
            integers = f"{name}_QuantizeLinear_Output"
            self._q(name, integers, f"{name}_QuantizeLinear", pair, **attributes)
        else:
            weight = self.network.initializers[name]
            spread = [params["scale"], params["zero_point"]]
            if blocks:
                spread = [scales.by_block(each, weight.shape[axis], axis, blocks) for each in spread]
            elif axis is not None:
                spread = [scales.by_channel(each, len(weight.shape), axis) for each in spread]
            integers = f"{name}_quantized"
            self.network.keep(integers, scales.quantized(weight.array(), params.dtype, *spread), params.dtype)
        self._dq(integers, output, f"{name}_DequantizeLinear", pair, **attributes)
        self._done[name] = Done(pair)

    # ---- activations

    def _quantize_tensors(self) -> None:
        """Put in pairs for the marked tensors that have scales of their own."""
        for name, info in list(self.tensors_to_quantize.items()):
            if name in self._done or info.quant_para_provider is not None:
                continue
            del self.tensors_to_quantize[name]
            if name in self.network.initializers:
                self._quantize_constant(name)
            elif name not in self._dequantized:
                params = self.quantization_params.get(name)
                if params is None:
                    raise InvalidArgument(
                        f"Quantization parameters are not specified for param {name}. In static mode quantization "
                        "params for inputs and outputs of nodes to be quantized are required."
                    )
                self._quantize_activation(name, self._keep(name, params.original), params)

    def _quantize_sharing(self) -> None:
        """Put in pairs for the marked tensors that share the scale of another one, which must have one first."""
        while self.tensors_to_quantize:
            ready = [
                (name, info.quant_para_provider)
                for name, info in self.tensors_to_quantize.items()
                if info.quant_para_provider and info.quant_para_provider.input_name in self._done
            ]
            if not ready:
                left = ", ".join(self.tensors_to_quantize)
                raise InvalidArgument(f"no scale reaches {left}: exclude the nodes that make them")
            for name, provider in ready:
                del self.tensors_to_quantize[name]
                if self.is_input_a_initializer(name) or name in self._dequantized:
                    raise InvalidArgument(
                        f"{name} would share a scale, but has one: it is constant, or quantized already"
                    )
                pair = self._done[provider.input_name].of(provider.node_name)
                self._quantize_activation(name, pair, self.quantization_params.get(name))

    def _quantize_activation(self, name: str, pair: Pair, params: QDQTensorQuantParams | None) -> None:
        converted = params.converted if params else None
        takers = self._takers.get(name, [])
        if self.dedicated_qdq_pair and len(takers) > 1:
            if converted:
                raise InvalidArgument(
                    f"DedicatedQDQPair has no pairs for {name}, whose type is converted for some nodes"
                )
            self._quantize_for_each(name, pair, takers)
        elif converted and params:
            self._convert(name, pair, self._keep(name, converted, "_convert"), params.converted_recv_nodes)
        else:
            source, output = name, f"{name}_DequantizeLinear_Output"
            if self._gives(name):
                source, output = f"{name}_QuantizeLinear_Input", name
                self.network.rename_output(name, source)
            else:
                self.network.redirect(name, output)
            self._pair(name, source, output, pair)
            self._done[name] = Done(pair)

    def _gives(self, name: str) -> bool:
        """Whether a node makes what is an output of the model: one that is an input, too, stays as it comes."""
        return self.network.is_output(name) and not self.network.is_input(name)

    def _quantize_for_each(self, name: str, pair: Pair, takers: list[Node]) -> None:
        """A pair for each node that takes the tensor."""
        for number, node in enumerate(takers, 1):
            integers, output = f"{name}_QuantizeLinear_Output_{number}", f"{name}_DequantizeLinear_Output_{number}"
            self._q(name, integers, f"{name}_QuantizeLinear_{number}", pair)
            self._dq(integers, output, f"{name}_DequantizeLinear_{number}", pair)
            for index, value in enumerate(node.inputs):
                if value is not None and value.name == name:
                    self.network.set_input(node, index, output)
        self._done[name] = Done(pair)

    def _convert(self, name: str, pair: Pair, converted: Pair, asked: Iterable[str] | None) -> None:
        """Two pairs, one after the other: some nodes, or all, take the tensor in another type.

        Where not all do, the second pair has a DequantizeLinear of its own before it, so that it can be fused.
        """
        takers = {node.name for node in self._takers.get(name, [])}
        wanting = takers if asked is None else set(asked)
        others = takers - wanting
        all_convert, is_output = len(wanting) == len(takers), self._gives(name)
        source = name
        if is_output:
            source = f"{name}_QuantizeLinear_Input"
            self.network.rename_output(name, source)
        integers = f"{name}_QuantizeLinear_Output"
        self._q(source, integers, f"{name}_QuantizeLinear", pair)
        first = name if is_output and not all_convert else f"{name}_DequantizeLinear_Output"
        if others and first != name:
            self.network.redirect(name, first, others)
        self._dq(integers, first, f"{name}_DequantizeLinear", pair)
        again = first
        if not all_convert:
            again = f"{name}_convert_QuantizeLinear_Input"
            self._dq(integers, again, f"{name}_convert_clone_DequantizeLinear", pair)
        self._q(again, f"{name}_convert_QuantizeLinear_Output", f"{name}_convert_QuantizeLinear", converted)
        second = name if is_output and all_convert else f"{name}_convert_DequantizeLinear_Output"
        if wanting and second != name:
            self.network.redirect(name, second, wanting)
        self._dq(f"{name}_convert_QuantizeLinear_Output", second, f"{name}_convert_DequantizeLinear", converted)
        self._done[name] = Done(pair, converted, wanting)

    # ---- biases

    def _quantize_biases(self) -> None:
        for name, info in self.bias_to_quantize.items():
            if name in self._done:
                continue
            weight, taken = (self._scale(each, info.node_name) for each in (info.weight_name, info.input_name))
            for scale, each in ((weight, info.weight_name), (taken, info.input_name)):
                if scale is None:
                    raise InvalidArgument(
                        f"Unable to get valid quantization scale for '{each}' when quantizing bias '{name}' to int32."
                    )
            assert weight is not None
            assert taken is not None
            if weight.ndim > 1:  # blocks have no one scale for an output, so the bias stays in floats
                continue
            made = self.quantize_bias(name, taken, weight)
            self._done[name] = Done(Pair(made.scale, made.zero))
            self.network.drop(name)
            self._dq(made.name, name, f"{name}_DequantizeLinear", Pair(made.scale, made.zero), axis=made.axis)

    def _scale(self, name: str, node: str) -> np.ndarray | None:
        """The scale with which a node takes a tensor, of ours or of the model's own DequantizeLinear."""
        if name in self._done:
            scale = self._done[name].of(node).scale
        elif name in self._dequantized:
            scale = names(self._dequantized[name].inputs)[1]
        else:
            return None
        tensor = self.network.initializers.get(scale)
        return None if tensor is None else tensor.array()

    # ---- nodes

    def _keep(self, name: str, params: QuantizationParams, suffix: str = "") -> Pair:
        """Make scale and zero point initializers."""
        pair = Pair(f"{name}_scale{suffix}", f"{name}_zero_point{suffix}")
        zero, scale = np.asarray(params["zero_point"]), np.asarray(params["scale"])
        if params.get("axis") is None:
            zero, scale = zero.reshape(()), scale.reshape(())
        dtype = params.dtype
        self.network.keep(pair.zero, zero.astype(dtype.storage), dtype, typed=True)
        self.network.keep(pair.scale, scale, dtypes.of(scale.dtype), typed=True)
        return pair

    def _pair(self, name: str, source: str, output: str, pair: Pair) -> None:
        integers = f"{name}_QuantizeLinear_Output"
        self._q(source, integers, f"{name}_QuantizeLinear", pair)
        self._dq(integers, output, f"{name}_DequantizeLinear", pair)

    def _q(self, source: str, output: str, name: str, pair: Pair, **attributes: Any) -> None:
        self._add("QuantizeLinear", source, output, name, pair, attributes)

    def _dq(self, source: str, output: str, name: str, pair: Pair, **attributes: Any) -> None:
        self._add("DequantizeLinear", source, output, name, pair, attributes)

    def _add(self, op_type: str, source: str, output: str, name: str, pair: Pair, attributes: dict[str, Any]) -> None:
        inputs = [source, pair.scale, pair.zero]
        self.network.add(self.network.node(op_type, inputs, [output], name, None, self.qdq_op_domain, **attributes))
