"""Option sets for both tools; enumerations are written by their names (see `both.named`)."""

from __future__ import annotations

from typing import Any

U8, S8 = "QuantType.QUInt8", "QuantType.QInt8"
OPERATORS = {"quant_format": "QuantFormat.QOperator"}

STATIC: dict[str, dict[str, Any]] = {
    "qdq": {},
    "qdq u8s8": {"activation_type": U8},
    "qdq u8u8": {"activation_type": U8, "weight_type": U8},
    "qdq channels": {"activation_type": U8, "per_channel": True, "reduce_range": True},
    "qdq of 16 bits": {"activation_type": "QuantType.QUInt16", "weight_type": "QuantType.QInt16"},
    "qdq of Microsoft": {"activation_type": "QuantType.QInt16", "extra_options": {"UseQDQContribOps": True}},
    "qdq of 4 bits": {"activation_type": U8, "weight_type": "QuantType.QInt4"},
    "qdq channels of 4 bits": {"activation_type": U8, "weight_type": "QuantType.QUInt4", "per_channel": True},
    "qdq forced": {"activation_type": U8, "extra_options": {"ForceQuantizeNoInputCheck": True}},
    "qdq pairs": {
        "extra_options": {"AddQDQPairToWeight": True, "DedicatedQDQPair": True, "QuantizeBias": False},
    },
    "qdq symmetric": {
        "extra_options": {"ActivationSymmetric": True, "WeightSymmetric": False, "MinimumRealRange": 0.5},
    },
    "qdq kept": {
        "activation_type": U8,
        "extra_options": {
            "QDQKeepRemovableActivations": True,
            "OpTypesToExcludeOutputQuantization": ["Conv", "MatMul"],
            "ActivationRestrictedAsymmetric": True,
        },
    },
    "qdq axis": {
        "per_channel": True,
        "extra_options": {
            "QDQOpTypePerChannelSupportToAxis": {"MatMul": 0},
            "QDQDisableWeightAdjustForInt32Bias": True,
        },
    },
    "qdq some": {"op_types_to_quantize": ["MatMul", "Conv", "Softmax"], "nodes_to_exclude": ["MatMul_0", "Conv_0"]},
    "qop u8s8": OPERATORS | {"activation_type": U8},
    "qop s8s8": OPERATORS,
    "qop channels": OPERATORS | {"activation_type": U8, "per_channel": True, "reduce_range": True},
    "qop forced": OPERATORS
    | {
        "activation_type": U8,
        "weight_type": U8,
        "extra_options": {"ForceQuantizeNoInputCheck": True, "extra.Sigmoid.nnapi": True},
    },
    "qop symmetric": OPERATORS | {"extra_options": {"ActivationSymmetric": True, "MatMulConstBOnly": True}},
    "qop of a node": OPERATORS | {"activation_type": U8, "nodes_to_quantize": ["MatMul_0", "Conv_0", "Gemm_1"]},
}
DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic": {},
    "dynamic u8": {"weight_type": U8},
    "dynamic channels": {"per_channel": True, "reduce_range": True},
    "dynamic of all products": {"extra_options": {"MatMulConstBOnly": False}},
}
