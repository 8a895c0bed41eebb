"""The configuration that makes a model fit for QNN."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sardonyx.model.ir import Node
from sardonyx.quantization.base_quantizer import LOG
from sardonyx.quantization.calibrate import CalibrationDataReader
from sardonyx.quantization.enums import CalibrationMethod, QuantType
from sardonyx.quantization.execution_providers.qnn.mixed_precision_overrides_utils import (
    MixedPrecisionTensorQuantOverridesFixer,
)
from sardonyx.quantization.network import Network, names
from sardonyx.quantization.proto import as_model
from sardonyx.quantization.quantize import FOUR, SIXTEEN, ModelLike, StaticQuantConfig, has_data_beside
from sardonyx.quantization.tensor_quant_overrides import TensorQuantOverridesHelper

EIGHT = (QuantType.QInt8, QuantType.QUInt8)
FIXED = {
    ("Sigmoid", QuantType.QUInt16): (1.0 / 65536.0, np.array(0, np.uint16)),
    ("Sigmoid", QuantType.QInt16): (1.0 / 32768.0, np.array(0, np.int16)),
    ("Tanh", QuantType.QUInt16): (1.0 / 32768.0, np.array(32768, np.uint16)),
    ("Tanh", QuantType.QInt16): (1.0 / 32768.0, np.array(0, np.int16)),
}
"""Scale and zero point that QNN asks of what an operator gives in 16 bits."""


def get_qnn_qdq_config(
    model_input: ModelLike,
    calibration_data_reader: CalibrationDataReader,
    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
    activation_type: QuantType = QuantType.QUInt8,
    weight_type: QuantType = QuantType.QUInt8,
    per_channel: bool = False,
    init_overrides: dict[str, list[dict[str, Any]]] | None = None,
    add_qtype_converts: bool = True,
    activation_symmetric: bool = False,
    weight_symmetric: bool | None = None,
    keep_removable_activations: bool = False,
    stride: int | None = None,
    calibration_providers: list[str] | None = None,
    op_types_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | None = None,
) -> StaticQuantConfig:
    """A configuration that quantizes all operators but Cast, as QNN asks for it.

    `init_overrides` are completed by conversions where `add_qtype_converts` says so; `stride` samples go together.
    The other arguments are those of `quantize_static`, or its extra options.
    """
    if weight_symmetric is None:
        weight_symmetric = weight_type in (QuantType.QInt8, QuantType.QInt16)
    network = Network(as_model(model_input))
    overrides = TensorQuantOverridesHelper(copy.deepcopy(init_overrides) if init_overrides else {})
    if not overrides.empty() and add_qtype_converts:
        fixer = MixedPrecisionTensorQuantOverridesFixer(overrides, network)
        fixer.apply(activation_type, activation_symmetric)
    needs = _Needs(network, overrides, activation_type, weight_type, weight_symmetric, per_channel)
    kinds = set()
    for node in network.graph.nodes:
        asked = not op_types_to_quantize or node.op_type in op_types_to_quantize
        if asked and node.name not in (nodes_to_exclude or ()):
            kinds.add(node.op_type)
            needs.heed(node)
    options: dict[str, Any] = {
        "MinimumRealRange": 0.0001,
        "DedicatedQDQPair": False,
        "QDQKeepRemovableActivations": keep_removable_activations,
        "TensorQuantOverrides": overrides.get_dict(),
        "ActivationSymmetric": activation_symmetric,
        "WeightSymmetric": weight_symmetric,
        "CalibStridedMinMax": stride,
    }
    types = {activation_type, weight_type, *overrides.get_quant_types()}
    if network.opset < 21 and types & {*SIXTEEN, *FOUR}:
        options["UseQDQContribOps"] = True
    return StaticQuantConfig(
        calibration_data_reader,
        calibrate_method=calibrate_method,
        activation_type=activation_type,
        weight_type=weight_type,
        op_types_to_quantize=op_types_to_quantize or list(kinds - {"Cast"}),
        nodes_to_exclude=nodes_to_exclude,
        per_channel=per_channel,
        use_external_data_format=has_data_beside(model_input),
        calibration_providers=calibration_providers,
        extra_options=options,
    )


class _Needs:
    """What QNN needs of single operators, written into overrides."""

    def __init__(
        self,
        network: Network,
        overrides: TensorQuantOverridesHelper,
        activation: QuantType,
        weight: QuantType,
        symmetric: bool,
        per_channel: bool,
    ) -> None:
        self.network = network
        self.overrides = overrides
        self.activation = activation
        self.weight = weight
        self.per_channel = per_channel
        self.of_weight = {"quant_type": weight, "symmetric": symmetric}

    def heed(self, node: Node) -> None:
        """Write what this node needs."""
        if node.op_type in ("Sigmoid", "Tanh"):
            output = node.outputs[0].name
            made = self.overrides.get_node_output_qtype_info(output, self.activation).quant_type
            scale, zero = FIXED.get((node.op_type, made), (None, None))  # type: ignore[arg-type]
            if made is not None and scale is not None:
                fixed = {"quant_type": made, "scale": np.array(scale, np.float32), "zero_point": zero}
                self.overrides.update_tensor_overrides(output, fixed)
        elif node.op_type == "MatMul" and self.per_channel:
            for name in names(node.inputs):  # QNN has no products of weights by channels
                if name in self.network.initializers and name not in self.overrides:
                    self.overrides.update_tensor_overrides(name, dict(self.of_weight))
        elif node.op_type in ("MatMul", "LayerNormalization") and not self.per_channel:
            self._weight_beside_wide(node)

    def _weight_beside_wide(self, node: Node) -> None:
        """Give a constant the type of weights, of 8 bits, where the other input has 16: else it had the other's."""
        if self.weight not in EIGHT:
            return
        wide, constant = False, ""
        for name in filter(None, names(node.inputs[:2])):
            is_constant = name in self.network.initializers
            default = None if is_constant else self.activation
            info = self.overrides.get_node_input_qtype_info(name, node.name, default)
            told = {"quant_type": info.quant_type, "symmetric": info.symmetric}
            if info.axis is not None or (is_constant and told == self.of_weight):
                return
            if is_constant:
                constant = name
            elif info.quant_type in SIXTEEN:
                wide = True
        if (
            wide
            and constant
            and not self.overrides.update_tensor_overrides(constant, dict(self.of_weight), overwrite=False)
        ):
            LOG.warning(
                f"{node.label}: the overrides of its weight {constant} stay; the model may not run on QNN with them"
            )
