"""What both quantizers share: the model, the options, what is to be quantized, biases, and adjusted ranges."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Node
from sardonyx.quantization import scales
from sardonyx.quantization.network import PRODUCER, Network
from sardonyx.quantization.onnx_model import ONNXModel
from sardonyx.quantization.proto import as_model, is_proto, like
from sardonyx.quantization.tensor_quant_overrides import Override, TensorQuantOverridesHelper
from sardonyx.quantization.tensors_data import TensorData

LOG = logging.getLogger("sardonyx.quantization")
FLOATS = (dtypes.float32, dtypes.float16)
"""What is quantized."""
SIGNED = (dtypes.int4, dtypes.int8, dtypes.int16, dtypes.float8e4m3fn)
"""Types of weights whose ranges are symmetric where nothing else is asked."""
EPSILON = 1.0001
"""By how much the scale of a bias stays above the least one with which it fits int32."""


class QuantizationParams(Mapping[str, Any]):
    """Scale, zero point and type of a tensor; `axis` where they are those of channels."""

    def __init__(self, **data: Any) -> None:
        scale = data.get("scale")
        if scale is not None and np.asarray(scale).dtype not in (np.float32, np.float16):
            raise InvalidArgument(f"a scale is float32 or float16, not {np.asarray(scale).dtype}")
        self.data = data

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.data[key] = value

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    @property
    def dtype(self) -> DType:
        """The type of the integers."""
        return dtype_of(self["quant_type"])


@record
class QuantizedBias:
    """The names of a bias in int32, and of its scale and zero point; `axis` where these are for channels."""

    name: str
    scale: str
    zero: str
    axis: int | None


def dtype_of(quant_type: Any) -> DType:
    """The type that a QuantType, or a number of `TensorProto.DataType`, stands for."""
    if isinstance(quant_type, str):
        raise InvalidArgument(f"{quant_type!r} is a string, and no QuantType; QuantType.from_string makes one of it")
    dtype = dtypes.by_number(quant_type if isinstance(quant_type, int) else quant_type.tensor_type)
    if dtype is None:
        raise InvalidArgument(f"{quant_type} is no element type")
    return dtype


def has_range(data: TensorData, overrides: Override) -> bool:
    """Whether a range is finite, or overridden."""
    if {"scale", "zero_point"} <= overrides.keys() or {"rmin", "rmax"} <= overrides.keys():
        return True
    return all(np.isfinite(end).all() for end in data.range_value)


class BaseQuantizer:
    """A model, and what is asked of it. It may be given as a Model, or as a ModelProto, which is not changed."""

    def __init__(
        self,
        model: Any,
        per_channel: bool,
        reduce_range: bool,
        weight_qType: Any,  # noqa: N803
        activation_qType: Any,  # noqa: N803
        tensors_range: Any,
        nodes_to_quantize: Collection[str] | None,
        nodes_to_exclude: Collection[str] | None,
        op_types_to_quantize: Collection[str],
        extra_options: dict[str, Any] | None = None,
        network: Network | None = None,
    ) -> None:
        self._given = model
        self._model: ONNXModel | None = None
        self.network = Network(as_model(model)) if network is None else network
        self.opset_version = self.network.opset
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.extra_options = extra_options if extra_options else {}
        option = self.extra_options.get
        self.enable_subgraph_quantization = bool(option("EnableSubgraph", False))
        self.force_quantize_no_input_check = bool(option("ForceQuantizeNoInputCheck", False))
        self.is_activation_symmetric = bool(option("ActivationSymmetric", False))
        self.is_activation_restricted_asymmetric = bool(option("ActivationRestrictedAsymmetric", False))
        self.min_real_range: float | None = option("MinimumRealRange")
        self.parent: Any = None
        self.activation = dtype_of(activation_qType)
        self.weight = dtype_of(weight_qType)
        if dtypes.float8e4m3fn in (self.activation, self.weight):
            raise NotImplementedError(
                "float8e4m3fn is computed by kernels of CUDA alone, which Sardonyx has not; quantize to 8-bit integers"
            )
        if tensors_range is not None and any(not isinstance(each, TensorData) for each in tensors_range.values()):
            kinds = sorted({type(each).__name__ for each in tensors_range.values()})
            raise TypeError(f"tensors_range holds {', '.join(kinds)}; it holds TensorData")
        self.tensors_range = tensors_range
        self.cut: set[str] = set()
        """What Relu and Clip make whose ranges what they take has, too: so these nodes have nothing to do."""
        self.nodes_to_quantize = nodes_to_quantize
        self.nodes_to_exclude = nodes_to_exclude
        self.op_types_to_quantize = op_types_to_quantize
        self.tensor_quant_overrides = TensorQuantOverridesHelper(option("TensorQuantOverrides", {}))
        valid, problem = self.tensor_quant_overrides.is_valid(
            self.network.initializers, self.network.types, activation_qType
        )
        if not valid:
            raise InvalidArgument(problem)

    @property
    def model(self) -> ONNXModel:
        """The model as a ModelProto, which is made when it is asked for."""
        if self._model is None:
            self._model = ONNXModel(like(self._given, self.network.model))
        return self._model

    @property
    def activation_qType(self) -> int:  # noqa: N802
        """The type of activations, as a number of `TensorProto.DataType`."""
        return self.activation.number

    @property
    def weight_qType(self) -> int:  # noqa: N802
        """The type of weights, as a number of `TensorProto.DataType`."""
        return self.weight.number

    def quantize_model(self) -> Any:
        """Quantize; the result is of the kind that was given."""
        self.quantize()
        self.network.model.producer_name, self.network.model.producer_version = PRODUCER
        return self.model.model if is_proto(self._given) else self.network.model

    def quantize(self) -> None:
        """Change the network."""
        raise NotImplementedError

    # ---- what is to be quantized

    def should_quantize_node(self, node: Node) -> bool:
        """Whether the lists of nodes and of operators choose this node."""
        chosen = not self.nodes_to_quantize or node.name in self.nodes_to_quantize
        excluded = bool(self.nodes_to_exclude) and node.name in (self.nodes_to_exclude or ())
        asked = node.op_type in self.op_types_to_quantize
        return chosen and asked and not excluded and node.op_type not in ("DequantizeLinear", "QuantizeLinear")

    def is_input_a_initializer(self, input_name: str) -> bool:
        """Whether the tensor is an initializer of this graph."""
        return input_name in self.network.initializers

    def is_valid_quantize_weight(self, weight_name: str) -> bool:
        """Whether the tensor is an initializer of floats, of this graph or of one around it."""
        weight = self.network.initializers.get(weight_name)
        if weight is not None:
            return weight.dtype in FLOATS
        inside = self.enable_subgraph_quantization and self.parent is not None
        return inside and bool(self.parent.is_valid_quantize_weight(weight_name))

    def is_weight_symmetric(self, dtype: DType) -> bool:
        """Whether weights of this type get ranges around 0."""
        asked = self.extra_options.get("WeightSymmetric")
        return dtype in SIGNED if asked is None else bool(asked)

    # ---- ranges and scales

    def is_finite(self, name: str) -> bool:
        """Whether an initializer, if it is of floats, holds neither infinity nor NaN."""
        weight = self.network.initializers[name]
        return weight.dtype not in FLOATS or bool(np.isfinite(weight.array()).all())

    def tell_endless(self, name: str) -> None:
        """Warn that a tensor stays in floats."""
        LOG.warning(
            f"Tensor {name!r} stays in floats: no integers stand for infinity or NaN, which it holds, or held during "
            "calibration."
        )

    def adjust_tensor_ranges(self) -> None:
        """Give what goes into Clip and Relu the range of what comes out; Softmax gives 0 to 1."""
        for node in self.network.graph.nodes:
            if node.op_type not in ("Clip", "Relu", "Softmax") or not self.should_quantize_node(node):
                continue
            output = node.outputs[0].name
            if node.op_type == "Softmax":
                if output in self.tensors_range or isinstance(self.tensors_range, dict):
                    kind = self.network.types.get(output, dtypes.float32).storage
                    ends = (np.asarray(end, kind)[()] for end in (0.0, 1.0))
                    self.tensors_range[output] = TensorData(**dict(zip(("lowest", "highest"), ends)))
                continue
            taken = node.inputs[0].name if node.inputs[0] is not None else ""
            if taken in self.tensors_range and output in self.tensors_range and self._says_all(node):
                self.tensors_range[taken] = self.tensors_range[output]
                self.cut.add(output)

    def _says_all(self, node: Node) -> bool:
        """Whether the range of what a Relu or a Clip makes, with 0 in it, says all that the node does.

        What it takes must be for it alone.
        """
        taken = node.inputs[0].name if node.inputs[0] is not None else ""
        if len(self.network.users(taken)) != 1 or self.network.is_output(taken):
            return False
        if node.op_type == "Relu":
            return True
        bounds: list[Any] = [node.attribute("min", None), node.attribute("max", None)]
        for place, value in enumerate(node.inputs[1:3]):
            if value is not None:
                bounds[place] = self.network.constant(value.name)
                if bounds[place] is None:
                    return False
        low, high = bounds
        return (low is None or float(low) <= 0) and (high is None or float(high) >= 0)

    def calc_quant_params(self, tensor_data: TensorData, quant_overrides: Override) -> QuantizationParams:
        """Zero point and scale of an activation, by its range and by what is asked of it."""
        dtype = dtype_of(quant_overrides["quant_type"]) if "quant_type" in quant_overrides else self.activation
        if "scale" in quant_overrides and "zero_point" in quant_overrides:
            zero, scale = np.asarray(quant_overrides["zero_point"]), np.asarray(quant_overrides["scale"])
            scale = scale if scale.dtype in (np.float32, np.float16) else scale.astype(np.float32)
            return QuantizationParams(zero_point=zero, scale=scale, quant_type=dtype.number)
        low, high = (
            np.asarray(quant_overrides.get(key, seen), np.asarray(seen).dtype)
            for key, seen in zip(("rmin", "rmax"), tensor_data.range_value)
        )
        symmetric = quant_overrides.get("symmetric", self.is_activation_symmetric)
        least, greatest = scales.limits(dtype, quant_overrides.get("reduce_range", False), symmetric)
        if self.is_activation_restricted_asymmetric and dtype is dtypes.uint8 and not symmetric:
            zero, scale = scales.restricted(low, high, int(least), int(greatest), self.min_real_range)
        else:
            zero, scale = scales.scale_and_zero(low, high, least, greatest, symmetric, self.min_real_range)
        return QuantizationParams(zero_point=zero, scale=scale, quant_type=dtype.number)

    def quantize_bias(self, name: str, input_scale: np.ndarray, weight_scale: np.ndarray) -> QuantizedBias:
        """Add a bias in int32, whose scale is the product of those of input and weight.

        Channels of it lie along the last axis. Where they are a multiple of the weight's, those of groups share scales.
        """
        bias = self.network.initializers[name].array()
        scale = np.asarray(input_scale * weight_scale)
        if scale.size > 1 and bias.ndim and bias.shape[-1] > scale.size:
            scale = np.tile(scale, bias.shape[-1] // scale.size)
        exact = (np.asarray(bias, np.float64) / np.asarray(scale, np.float64)).round()
        limit = np.iinfo(np.int32)
        if (exact < limit.min).any() or (exact > limit.max).any():
            LOG.warning(f"Quantized bias `{name}` exceeds the range of a int32. The bias scale is too small.")
        integers = np.clip(exact, limit.min, limit.max).astype(np.int32)
        if integers.size == bias.size:
            integers = integers.reshape(bias.shape)
        axis = integers.ndim - 1 if scale.size > 1 else None
        made = QuantizedBias(f"{name}_quantized", f"{name}_quantized_scale", f"{name}_quantized_zero_point", axis)
        self.network.keep(made.name, integers, dtypes.int32)
        self.network.keep(made.scale, np.asarray(scale, bias.dtype).reshape(-1), dtypes.of(bias.dtype))
        zeros = np.zeros(() if axis is None else scale.size, np.int32)
        self.network.keep(made.zero, zeros, dtypes.int32, typed=axis is None)
        return made

    def widened(
        self, input_scale: np.ndarray, weight_scale: np.ndarray, bias: np.ndarray, per_channel: bool
    ) -> np.ndarray | None:
        """The weight's scales, made so large that the bias fits int32; None where they are large enough."""
        limit = np.iinfo(np.int32)
        steps = np.float64(limit.max) - np.float64(limit.min + 1)
        if not weight_scale.size or (per_channel and weight_scale.ndim != 1):
            return None
        if per_channel:
            channels = bias.shape[-1] if bias.ndim else 1
            rows = bias.reshape(-1, min(channels, weight_scale.size))
            largest = np.broadcast_to(np.abs(rows).max(axis=0, initial=0), weight_scale.shape)
        else:
            bottom, top = np.minimum(bias.min(), np.float64(0)), np.maximum(bias.max(), np.float64(0))
            largest = np.maximum(np.abs(bottom), np.abs(top))
        least = EPSILON * (2.0 * largest) / steps
        exact = weight_scale.astype(np.float64).reshape(weight_scale.shape if per_channel else ())
        product = np.float64(input_scale.item()) * exact
        short = (product < least) & (product > 0.0)
        if not short.any():
            return None
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            longer = (exact * (least / product)).astype(weight_scale.dtype)
        return np.where(short, longer, weight_scale) if per_channel else longer
