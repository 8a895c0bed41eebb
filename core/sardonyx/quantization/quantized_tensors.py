"""Tensors that have a version in integers, and how those that have none get one: for quantized operators.

Whoever needs a tensor in floats gets it back by a DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.errors import InvalidArgument, InvalidValue
from sardonyx.model.ir import Node
from sardonyx.quantization import scales
from sardonyx.quantization.base_quantizer import FLOATS, LOG, BaseQuantizer, QuantizationParams, dtype_of, has_range
from sardonyx.quantization.enums import QuantizationMode
from sardonyx.quantization.gemm import replace_gemm
from sardonyx.quantization.network import Network, names
from sardonyx.quantization.proto import as_model

RANGE_OF_UINT8 = "fixed_quantization_range_uint8"
RANGE_OF_INT8 = "fixed_quantization_range_int8"
ZERO = "fixed_zero"
ZERO_POINT = "fixed_zero_zp"
MATRIX = 2
"""The rank of a weight whose columns get scales of their own: onnxruntime's products refuse others."""


@record
class Quantized:
    """The names of a tensor in integers, and of its scale and zero point; `axis` where they are those of channels.

    A bias stands `beside` an input and a weight, of whose scales, by these names, its own is the product.
    """

    name: str
    scale: str
    zero: str
    axis: int | None = None
    beside: tuple[str, str] | None = None


@record
class Inputs:
    """What a node takes, in integers, and the new nodes that make them so."""

    tensors: list[Quantized] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.tensors]

    @property
    def scales(self) -> list[str]:
        return [each.scale for each in self.tensors]

    @property
    def zeros(self) -> list[str]:
        return [each.zero for each in self.tensors]

    def triples(self) -> list[str]:
        """Tensor, scale and zero point of each, one after the other."""
        return [name for each in self.tensors for name in (each.name, each.scale, each.zero)]


class QuantizedTensors(BaseQuantizer):
    """The state of a walk over the nodes, and how their inputs become integers."""

    def __init__(
        self,
        model: Any,
        per_channel: bool,
        reduce_range: bool,
        mode: QuantizationMode,
        static: bool,
        weight_qType: Any,  # noqa: N803
        activation_qType: Any,  # noqa: N803
        tensors_range: Any,
        nodes_to_quantize: Collection[str] | None,
        nodes_to_exclude: Collection[str] | None,
        op_types_to_quantize: Collection[str],
        extra_options: dict[str, Any] | None = None,
        network: Network | None = None,
        parent: QuantizedTensors | None = None,
    ) -> None:
        if mode not in QuantizationMode:
            raise InvalidArgument(f"{mode} is no QuantizationMode; there are {', '.join(QuantizationMode.__members__)}")
        if network is None:
            changed = as_model(model)
            if not static:
                replace_gemm(changed.graph)
            network = Network(changed)
        super().__init__(
            model,
            per_channel,
            reduce_range,
            weight_qType,
            activation_qType,
            tensors_range,
            nodes_to_quantize,
            nodes_to_exclude,
            op_types_to_quantize,
            extra_options,
            network,
        )
        if dtypes.uint4 in (self.weight, self.activation) or dtypes.int4 in (self.weight, self.activation):
            raise InvalidValue("quantized operators take 8 bits: use QuantFormat.QDQ for types of 4")
        self.mode = mode
        self.static = static
        self.parent = parent
        self.q_matmul_const_b_only = bool(self.extra_options.get("MatMulConstBOnly", False))
        self.quantized: dict[str, Quantized] = {}
        """The tensors that have a version in integers."""
        self._copies: dict[tuple[Any, ...], str] = {}
        self.present = self.network.fed()
        """The tensors that exist in floats: inputs, and what new nodes make."""
        self.new_nodes: list[Node] = []
        self._by_name = {node.name: node for node in reversed(self.network.graph.nodes)}
        self._known = {*self.network.types, *names((*self.network.graph.inputs, *self.network.graph.outputs))}
        self._known.update(name for node in self.network.graph.nodes for name in names(node.outputs))
        self.quantization_params = self._params()

    def _params(self) -> dict[str, QuantizationParams]:
        if self.tensors_range is None:
            return {}
        self.adjust_tensor_ranges()
        found = {}
        for name in self.tensors_range:
            asked = self.tensor_quant_overrides.get_per_tensor_overrides(name, default_val={}) or {}
            if has_range(self.tensors_range[name], asked):
                found[name] = self.calc_quant_params(self.tensors_range[name], asked)
        return found

    # ---- nodes

    def emit(self, *nodes: Node) -> None:
        """Append new nodes to the result."""
        self.new_nodes.extend(nodes)
        for node in nodes:
            self.present.update(names(node.outputs))
            self._by_name.setdefault(node.name, node)

    def find_node(self, name: str) -> Node | None:
        """The node of this name, old or new."""
        return self._by_name.get(name)

    def restore(self, name: str) -> None:
        """Have a tensor that exists in integers alone in floats again."""
        found = self.quantized.get(name)
        if found is None or name in self.present or self.find_node(f"{name}_DequantizeLinear") is not None:
            return
        inputs = [found.name, found.scale, found.zero]
        self.emit(self.network.node("DequantizeLinear", inputs, [name], f"{name}_DequantizeLinear", axis=found.axis))

    # ---- tensors

    def find_quantized_value(self, name: str) -> Quantized | None:
        """The version of a tensor in integers, of this graph or of one around it."""
        found = self.quantized.get(name)
        return self.parent.find_quantized_value(name) if found is None and self.parent is not None else found

    def find_initializer_in_path(self, name: str) -> bool:
        """Whether a tensor is an initializer, of this graph or of one around it."""
        here = name in self.network.initializers
        return here or (self.parent is not None and self.parent.find_initializer_in_path(name))

    def is_float_tensor(self, name: str) -> bool:
        """Whether a tensor is known to hold floats."""
        if name in self.network.initializers:
            return self.is_valid_quantize_weight(name)
        dtype = self.network.types.get(name)
        if dtype is not None:
            if dtype not in FLOATS:
                LOG.warning(f"Inference failed or unsupported type to quantize for tensor {name!r}, type is {dtype}.")
            return dtype in FLOATS
        if self.enable_subgraph_quantization and self.parent is not None:
            return bool(self.parent.is_float_tensor(name))
        LOG.warning(
            f"Failed to infer data type of tensor: {name!r}. Please add data type info for this tensor if your model "
            "has customized operators."
        )
        return False

    def type_of(self, name: str) -> DType:
        """The type of a tensor, or what the option `DefaultTensorType` says; RuntimeError where neither does."""
        found = self.network.all_types().get(name)
        if found is not None:
            return found
        if "DefaultTensorType" not in self.extra_options:
            raise RuntimeError(
                f"Unable to find data type for weight_name={name!r}: it follows from an operator that ONNX does not "
                "have. The extra option DefaultTensorType says which it is, usually onnx.TensorProto.FLOAT."
            )
        return dtype_of(self.extra_options["DefaultTensorType"])

    def params_of(self, name: str, scale: float | None = None, zero: int | None = None) -> tuple[str, str] | None:
        """The names of the initializers that hold scale and zero point of an activation; None where it has no range.

        A scale and a zero point that are given are taken instead of those of its range.
        """
        params = self.quantization_params.get(name)
        if params is None:
            if self.tensors_range is not None and name in self.tensors_range:
                self.tell_endless(name)
            return None
        fixed = scale is not None and zero is not None
        point = np.asarray(zero if fixed else params["zero_point"]).reshape(())
        factor = np.asarray(scale if fixed else params["scale"], params["scale"].dtype).reshape(())
        dtype = self.activation if fixed else params.dtype
        self.network.keep(f"{name}_zero_point", point.astype(dtype.storage), dtype, typed=True)
        self.network.keep(f"{name}_scale", factor, dtypes.of(factor.dtype), typed=True)
        return f"{name}_scale", f"{name}_zero_point"

    def quantize_activation(self, node: Node, indices: Sequence[int]) -> Inputs | None:
        """These inputs of a node in integers; None where one has no range."""
        return self._quantize(node, indices, self.activation, False, None)

    def quantize_weight(
        self, node: Node, indices: Sequence[int], reduce_range: bool = False, axis: int | None = None
    ) -> Inputs | None:
        """These inputs of a node in integers, constants in the type of weights; `axis` is that of possible channels."""
        return self._quantize(node, indices, self.weight, reduce_range, axis)

    def _quantize(
        self,
        node: Node,
        indices: Sequence[int],
        dtype: DType,
        reduce_range: bool,
        axis: int | None,
        below: bool = False,
    ) -> Inputs | None:
        found = Inputs()
        for index in indices:
            name = node.inputs[index].name if node.inputs[index] is not None else ""  # type: ignore[union-attr]
            if not name:
                found.tensors.append(Quantized("", "", ""))
            elif name in self.network.initializers:
                if not self.is_finite(name):
                    self.tell_endless(name)
                    return None
                if self.per_channel and axis is not None and len(self.network.initializers[name].shape) == MATRIX:
                    made = self.quantize_channels(self._apart(name, axis), dtype, axis, reduce_range)
                else:
                    made = self.quantize_initializer(self._apart(name, None), dtype, reduce_range)
                found.tensors.append(made)
            elif name in self.quantized:
                found.tensors.append(self.quantized[name])
            elif name in self._known or name in self.present:
                tensor = self._quantize_tensor(name, found.nodes)
                if tensor is None:
                    return None
                found.tensors.append(tensor)
                if below:
                    self.emit(*found.nodes)
            elif self.parent is not None:
                outer = self.parent._quantize(node, [index], dtype, reduce_range, axis, below=True)
                if outer is None:
                    return None
                found.tensors += outer.tensors
            else:
                raise InvalidArgument(f"{node.label} takes '{name}', which nothing makes")
        return found

    def _quantize_tensor(self, name: str, nodes: list[Node]) -> Quantized | None:
        """A computed tensor in integers; what makes it so is appended to the nodes."""
        self._refuse_half(name, self.network.types.get(name))
        label = f"{name}_QuantizeLinear"
        node = self.find_node(label)
        if node is not None:
            scale, zero = names(node.inputs[1:3]) if node.op_type == "QuantizeLinear" else names(node.outputs[1:3])
            return Quantized(node.outputs[0].name, scale, zero)
        made = Quantized(f"{name}_quantized", f"{name}_scale", f"{name}_zero_point")
        if self.params_of(name) is not None:
            nodes.append(self.network.node("QuantizeLinear", [name, made.scale, made.zero], [made.name], label))
        elif self.static:
            return None
        elif self.opset_version > 10 and self.activation is dtypes.uint8:
            outputs = [made.name, made.scale, made.zero]
            nodes.append(self.network.node("DynamicQuantizeLinear", [name], outputs, label))
        else:
            made = self._measure(name, made, nodes)
            nodes.append(self.network.node("QuantizeLinear", [name, made.scale, made.zero], [made.name], label))
        self.quantized[name] = made
        return made

    def _measure(self, name: str, made: Quantized, nodes: list[Node]) -> Quantized:
        """Nodes that find scale and zero point while the model runs, before DynamicQuantizeLinear was there."""
        kind = self.network.types.get(name, dtypes.float32)
        signed = self.activation is dtypes.int8
        span = np.array(127.5 if signed else 255.0, kind.storage)
        self.network.keep(RANGE_OF_INT8 if signed else RANGE_OF_UINT8, span, kind, typed=True)

        def step(op_type: str, inputs: list[str], label: str, output: str = "", **attributes: Any) -> str:
            output = output or f"{label}:0"
            nodes.append(self.network.node(op_type, inputs, [output], label, **attributes))
            return output

        low = step("ReduceMin", [name], f"{name}_ReduceMin", keepdims=0)
        high = step("ReduceMax", [name], f"{name}_ReduceMax", keepdims=0)
        if signed:
            low, high = (step("Abs", [each], f"{each.removesuffix(':0')}_Abs") for each in (low, high))
            largest = step("Max", [low, high], f"{name}_Abs_Max")
            step("Div", [largest, RANGE_OF_INT8], f"{name}scale_Div", made.scale)
            self.network.keep(ZERO_POINT, np.array(0, np.int8), dtypes.int8, typed=True)
            return Quantized(made.name, made.scale, ZERO_POINT)
        self.network.keep(ZERO, np.array(0, kind.storage), kind, typed=True)
        width = step("Sub", [high, low], f"{name}_scale_Sub")
        step("Div", [width, RANGE_OF_UINT8], f"{name}_scale_Div", made.scale)
        below = step("Sub", [ZERO, low], f"{name}_zero_point_Sub")
        exact = step("Div", [below, made.scale], f"{name}_zero_point_Div")
        whole = step("Floor", [exact], f"{name}_zero_point_Floor")
        step("Cast", [whole], f"{name}_zero_point_Cast", made.zero, to=self.activation.number)
        return made

    # ---- constants

    def _apart(self, name: str, axis: int | None) -> str:
        """The initializer itself, or a copy where its integers are those of a bias or have channels of another axis."""
        held = self.quantized.get(name)
        rank = len(self.network.initializers[name].shape)
        wanted = None if axis is None else axis % rank
        if held is None or (held.beside is None and (held.axis is None or held.axis % rank == wanted)):
            return name
        return self._copy(name, (name, wanted))

    def _copy(self, name: str, purpose: tuple[Any, ...]) -> str:
        """A copy of an initializer, one for each purpose."""
        if purpose not in self._copies:
            old = self.network.initializers[name]
            number = next(each for each in count() if f"{name}{each}" not in self._known)
            self._copies[purpose] = f"{name}{number}"
            self._known.add(self._copies[purpose])
            self.network.keep(self._copies[purpose], old.array(), old.dtype, old.typed)
        return self._copies[purpose]

    def weight_by_channels(self, name: str, dtype: DType, axis: int, reduce_range: bool = True) -> Inputs | None:
        """`quantize_channels` of an initializer, or of a copy where it is integers for another purpose already.

        None where it holds infinity or NaN.
        """
        if not self.is_finite(name):
            self.tell_endless(name)
            return None
        return Inputs([self.quantize_channels(self._apart(name, axis), dtype, axis, reduce_range)])

    def quantize_initializer(self, name: str, dtype: DType, reduce_range: bool = False) -> Quantized:
        """An initializer in integers, with one scale."""
        if name in self.quantized:
            return self.quantized[name]
        weight = self._weight(name)
        asked = self.tensor_quant_overrides.get_per_tensor_overrides(name, default_val={}) or {}
        dtype = dtype_of(asked["quant_type"]) if "quant_type" in asked else dtype
        if "scale" in asked and "zero_point" in asked:
            zero, scale = np.asarray(asked["zero_point"], dtype.storage), np.asarray(asked["scale"])
        else:
            symmetric = self.is_weight_symmetric(dtype) if dtype is self.weight else self.is_activation_symmetric
            zero, scale = scales.of_data(
                weight,
                dtype,
                asked.get("symmetric", symmetric),
                asked.get("reduce_range", self.reduce_range and reduce_range),
                self.min_real_range,
                asked.get("rmin"),
                asked.get("rmax"),
            )
        return self._keep(name, dtype, scales.quantized(weight, dtype, scale, zero), scale, zero)

    def quantize_channels(self, name: str, dtype: DType, axis: int, reduce_range: bool = True) -> Quantized:
        """An initializer in integers, with a scale for each channel."""
        if name in self.quantized:
            return self.quantized[name]
        weight = self._weight(name)
        if not -weight.ndim <= axis < weight.ndim:
            raise InvalidArgument(f"weight {name} of rank {weight.ndim} has no axis {axis} for channels")
        channels = axis % weight.ndim
        asked = self.tensor_quant_overrides.get_per_channel_overrides(name, [{"axis": channels}]) or []
        if len(asked) not in (1, weight.shape[channels]):
            raise InvalidArgument(
                f"weight {name} has {weight.shape[channels]} channels, and overrides for {len(asked)}"
            )
        if asked[0]["axis"] % weight.ndim != channels:
            raise InvalidArgument(
                f"the overrides of weight {name} are for axis {asked[0]['axis']}; channels are {channels}"
            )
        first = asked[0]
        dtype = dtype_of(first["quant_type"]) if "quant_type" in first else dtype
        symmetric = first.get("symmetric", self.is_weight_symmetric(dtype))
        reduced = first.get("reduce_range", self.reduce_range and reduce_range)
        zero, scale = scales.of_channels(weight, dtype, channels, symmetric, reduced, self.min_real_range, asked)
        spread = [scales.by_channel(each, weight.ndim, channels) for each in (scale, zero)]
        return self._keep(name, dtype, scales.quantized(weight, dtype, spread[0], spread[1]), scale, zero, axis)

    def _weight(self, name: str) -> np.ndarray:
        weight = self.network.initializers[name]
        if weight.dtype not in FLOATS:
            raise InvalidArgument(f"weight {name} is {weight.dtype}; float32 is quantized")
        self._refuse_half(name, weight.dtype)
        return weight.array()

    def _refuse_half(self, name: str, dtype: DType | None) -> None:
        if dtype is dtypes.float16:
            raise InvalidArgument(
                f"{name!r} is float16, and quantized operators take float32: use QuantFormat.QDQ, or quantize the "
                "model in float32"
            )

    def _keep(
        self,
        name: str,
        dtype: DType,
        integers: np.ndarray,
        scale: np.ndarray,
        zero: np.ndarray,
        axis: int | None = None,
    ) -> Quantized:
        kind = self.network.initializers[name].dtype
        made = Quantized(f"{name}_quantized", f"{name}_scale", f"{name}_zero_point", axis)
        shape = () if axis is None else (-1,)
        self.network.keep(made.scale, np.asarray(scale, kind.storage).reshape(shape), kind, typed=True)
        self.network.keep(made.zero, np.asarray(zero, dtype.storage).reshape(shape), dtype, typed=True)
        self.network.keep(made.name, integers, dtype)
        self.quantized[name] = made
        return made

    def quantize_bias_static(self, bias: str, taken: str, held: Quantized) -> str:
        """The name of a bias in int32, by the scales of what the node takes and of its weight in integers."""
        initializers = self.network.initializers
        weight_scale, zeros = initializers[held.scale].array(), initializers[held.zero].array()
        if taken in self.quantized:
            scale_name = self.quantized[taken].scale
        else:
            found = self.params_of(taken)
            if found is None:
                raise InvalidArgument(f"the bias {bias} needs the scale of {taken}, which has no range")
            scale_name = found[0]
        beside = (scale_name, held.scale)
        if bias in self.quantized and self.quantized[bias].beside != beside:
            bias = self._copy(bias, (bias, *beside))
        if bias in self.quantized:
            return self.quantized[bias].name
        input_scale = initializers[scale_name].array()
        alone = all(each.beside is None or each.beside[1] != held.scale for each in self.quantized.values())
        if alone and zeros.size and not zeros.any() and self.weight is dtypes.int8:
            wider = self.widened(input_scale, weight_scale, initializers[bias].array(), self.per_channel)
            if wider is not None:
                self._requantize(held, wider, zeros)
                weight_scale = wider
        made = self.quantize_bias(bias, input_scale, weight_scale)
        self.quantized[bias] = Quantized(made.name, made.scale, made.zero, made.axis, beside)
        return made.name

    def _requantize(self, held: Quantized, scale: np.ndarray, zeros: np.ndarray) -> None:
        weight = self.network.initializers[next(name for name, each in self.quantized.items() if each is held)]
        shape = self.network.initializers[held.scale].shape
        spread: list[np.ndarray] = [scale, zeros]
        if held.axis is not None:
            spread = [scales.by_channel(each, len(weight.shape), held.axis % len(weight.shape)) for each in spread]
        self.network.drop(held.scale)
        self.network.drop(held.name)
        self.network.keep(held.scale, np.asarray(scale, weight.dtype.storage).reshape(shape), weight.dtype)
        self.network.keep(held.name, scales.quantized(weight.array(), self.weight, spread[0], spread[1]), self.weight)
