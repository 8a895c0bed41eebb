"""Which tensors are to get pairs of QuantizeLinear and DequantizeLinear: marked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any

from sardonyx.common import dtypes
from sardonyx.common.record import record
from sardonyx.model.ir import Node
from sardonyx.quantization.base_quantizer import FLOATS, LOG, BaseQuantizer, QuantizationParams, dtype_of, has_range
from sardonyx.quantization.network import MICROSOFT, Network

OF_OPSET_21 = (dtypes.uint16, dtypes.int16, dtypes.uint4, dtypes.int4)
"""Types that QuantizeLinear of ONNX has had since operator set 21."""


class QDQQuantTensorType(Enum):
    """Whether a tensor is computed, a weight or a bias."""

    ACTIVATION = 0
    WEIGHT = 1
    BIAS = 2


@record
class QDQQuantParamProvider:
    """The input of a node whose scale another tensor shares."""

    input_name: str
    node_name: str


@record
class QDQTensorQuantInfo:
    """A mark: what kind of tensor it is, whose scale it shares, and the axis of its channels."""

    tensor_type: QDQQuantTensorType = QDQQuantTensorType.ACTIVATION
    quant_para_provider: QDQQuantParamProvider | None = None
    axis: int | None = None


@record
class QDQBiasQuantInfo:
    """The mark of a bias: the node, its input and weight, of whose scales its own is the product."""

    node_name: str
    input_name: str
    weight_name: str


@record
class QDQTensorQuantParams:
    """The scale of a tensor as it is made, and as these nodes take it (all of them, where none is named)."""

    original: QuantizationParams
    converted: QuantizationParams | None = None
    converted_recv_nodes: set[str] | None = None

    def get_for_consumer(self, consumer_node_name: str) -> QuantizationParams:
        """The scale with which a node takes the tensor."""
        if self.converted is None:
            return self.original
        taken = self.converted_recv_nodes is None or consumer_node_name in self.converted_recv_nodes
        return self.converted if taken else self.original


class QDQMarks(BaseQuantizer):
    """The options of the form QDQ, and the marks that the functions of `operators/qdq.py` make."""

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
        option = self.extra_options.get
        self.op_types_to_exclude_output_quantization: Collection[str] = option("OpTypesToExcludeOutputQuantization", [])
        self.add_qdq_pair_to_weight = bool(option("AddQDQPairToWeight", False))
        self.quantizes_bias = bool(option("QuantizeBias", True))
        self.dedicated_qdq_pair = bool(option("DedicatedQDQPair", False))
        self.qdq_op_type_per_channel_support_to_axis: dict[str, int] = option("QDQOpTypePerChannelSupportToAxis", {})
        self.qdq_keep_removable_activations = bool(option("QDQKeepRemovableActivations", False))
        self.qdq_disable_weight_adjust_for_int32_bias = bool(option("QDQDisableWeightAdjustForInt32Bias", False))
        self.block_size: int = option("BlockSize", 0)
        self.qdq_op_domain = MICROSOFT if option("UseQDQContribOps", False) else ""
        types = {dtype_of(each) for each in self.tensor_quant_overrides.get_quant_types()}
        later = types | {self.activation, self.weight}
        if self.opset_version < 21 and not self.qdq_op_domain and later & {*OF_OPSET_21}:
            LOG.warning(
                "ONNX QuantizeLinear and DequantizeLinear operators do not support 16-bit/4-bit integer quantization "
                f"types prior to opset 21. The domain of QuantizeLinear and DequantizeLinear operators will be set to "
                f"'{MICROSOFT}' to enable support."
            )
            self.qdq_op_domain = MICROSOFT
        self.tensors_to_quantize: dict[str, QDQTensorQuantInfo] = {}
        self.bias_to_quantize: dict[str, QDQBiasQuantInfo] = {}
        self.quantization_params = self._params()

    def _params(self) -> dict[str, QDQTensorQuantParams]:
        if self.tensors_range is None:
            return {}
        self.adjust_tensor_ranges()
        found = {}
        for name in self.tensors_range:
            asked = self.tensor_quant_overrides.get_per_tensor_overrides(name, default_val={}) or {}
            if not has_range(self.tensors_range[name], asked):
                continue
            found[name] = QDQTensorQuantParams(self.calc_quant_params(self.tensors_range[name], asked))
            if "convert" in asked:
                found[name].converted = self.calc_quant_params(self.tensors_range[name], asked["convert"])
                found[name].converted_recv_nodes = asked["convert"].get("recv_nodes")
        return found

    # ---- marks

    def quantize_activation_tensor(self, name: str) -> None:
        """Mark a tensor."""
        if self._is_of_floats(name):
            self.tensors_to_quantize.setdefault(name, QDQTensorQuantInfo())

    def quantize_output_same_as_input(self, output_name: str, input_name: str, node_name: str) -> None:
        """Mark what a node makes, to get the scale of what it takes."""
        if self._is_of_floats(output_name):
            provider = QDQQuantParamProvider(input_name, node_name)
            self.tensors_to_quantize[output_name] = QDQTensorQuantInfo(quant_para_provider=provider)

    def quantize_weight_tensor(self, name: str) -> None:
        """Mark a weight, which gets one scale."""
        if self._is_of_floats(name):
            self.tensors_to_quantize.setdefault(name, QDQTensorQuantInfo(QDQQuantTensorType.WEIGHT))

    def quantize_weight_tensor_per_channel(self, name: str, axis: int | None) -> None:
        """Mark a weight, which gets a scale for each channel."""
        weight = self.network.initializers.get(name)
        if weight is None:
            LOG.warning(f"only support per-channel quantization on weight. Tensor: {name} is not quantized.")
        elif weight.dtype in FLOATS:
            self.tensors_to_quantize[name] = QDQTensorQuantInfo(QDQQuantTensorType.WEIGHT, axis=axis)

    def quantize_bias_tensor(self, node_name: str, bias_name: str, input_name: str, weight_name: str) -> None:
        """Mark a bias; a second node that takes it gets a copy, since its scale is another one."""
        if self.tensor_quant_overrides.overrides.get(bias_name):
            channels, axis = self.is_tensor_per_channel(bias_name, default_axis=0)
            if channels:
                self.quantize_weight_tensor_per_channel(bias_name, axis)
            else:
                self.quantize_weight_tensor(bias_name)
            return
        bias = self.network.initializers.get(bias_name)
        if bias is None:
            LOG.warning(f"Expected bias '{bias_name}' to be an initializer")
            return
        if bias.dtype not in FLOATS:
            return
        name = bias_name
        if name in self.bias_to_quantize:
            taken = [each.removeprefix(bias_name) for each in self.network.initializers if each.startswith(bias_name)]
            name = f"{bias_name}{max((int(each) for each in taken if each.isdecimal()), default=-1) + 1}"
            self.network.keep(name, bias.array(), bias.dtype, bias.typed)
            self.network.redirect(bias_name, name, {node_name})
        self.bias_to_quantize[name] = QDQBiasQuantInfo(node_name, input_name, weight_name)

    # ---- questions

    def is_tensor_quantized(self, name: str) -> bool:
        """Whether a tensor is marked."""
        return name in self.tensors_to_quantize or name in self.bias_to_quantize

    def gives_floats(self, node: Node) -> bool:
        """Whether what this operator makes is left alone."""
        return node.op_type in self.op_types_to_exclude_output_quantization

    def is_tensor_per_channel(
        self, tensor_name: str, default_axis: int, op_type: str | None = None
    ) -> tuple[bool, int | None]:
        """Whether a weight gets a scale for each channel, and the axis of channels.

        The axis of the overrides comes first, then that of the option for the operator, then this one.
        """
        weight = self.network.initializers.get(tensor_name)
        overrides = self.tensor_quant_overrides
        asked = overrides.has_per_channel_overrides(tensor_name)
        if weight is None or overrides.has_per_tensor_overrides(tensor_name) or not (self.per_channel or asked):
            return False, None
        table = self.qdq_op_type_per_channel_support_to_axis
        axis = table.get(op_type, default_axis) if op_type else default_axis
        if asked:
            axis = overrides[tensor_name][0]["axis"]
        rank = len(weight.shape)
        if not -rank <= axis < rank:
            LOG.warning(f"Axis {axis} is out-of-range for weight '{tensor_name}' with rank {rank}")
            return False, None
        return True, axis % rank

    def try_replacing_upstream_output(self, upstream_output_name: str, output_name: str) -> bool:
        """Have the node before an activation make what the activation makes, where nothing else needs its result."""
        upstream, output = (self.quantization_params.get(each) for each in (upstream_output_name, output_name))
        alone = len(self.network.users(upstream_output_name)) == 1
        inner = self.network.is_output(upstream_output_name) or self.network.is_input(upstream_output_name)
        if output is None or upstream is None or output.converted or upstream.converted or not alone or inner:
            return False
        self.network.rename_output(upstream_output_name, output_name)
        self.tensors_to_quantize.pop(upstream_output_name, None)
        return True

    def _is_of_floats(self, name: str) -> bool:
        weight = self.network.initializers.get(name)
        dtype = self.network.types.get(name) if weight is None else weight.dtype
        if dtype is None:
            LOG.warning(
                f"failed to infer the type of tensor: {name}. Skip to quantize it. Please check if it is expected."
            )
        return dtype in FLOATS
