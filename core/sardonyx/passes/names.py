"""Which rules are switched off by name: our own names, and those of onnxruntime's optimizers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sardonyx.common import debug

CONV_ADD = ("conv_add", "normalization_add")
GELU = ("gelu",)
LAYER_NORM = (
    "layer_normalization",
    "layer_normalization_of_products",
    "normalization_scale",
    "layer_normalization_bias",
)
MERGE_CASTS = ("cast_of_cast", "cast_to_own_type")

OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "AttentionFusion": ("attention",),
    "Avx2WeightS8ToU8Transformer": (),
    "BiasDropoutFusion": (),
    "BiasGeluFusion": (),
    "BiasSkipLayerNormFusion": (),
    "BiasSoftmaxFusion": (),
    "CastChainElimination": MERGE_CASTS,
    "CastElimination": ("cast_to_own_type",),
    "CastFloat16Transformer": (),
    "ClipQuantRewrite": ("quantized_clip",),
    "CommonSubexpressionElimination": ("common_subexpressions",),
    "ConstantFolding": ("constant_folding",),
    "ConstantSharing": (),
    "ConvActivationFusion": ("conv_activation", "conv_clip"),
    "ConvAddActivationFusion": ("conv_add_activation",),
    "ConvAddFusion": CONV_ADD,
    "ConvBNFusion": ("conv_batch_normalization",),
    "ConvMulFusion": ("conv_mul", "normalization_mul"),
    "DQMatMulNBitsFusion": (),
    "DivMulFusion": ("product_of_reciprocal",),
    "DoubleQDQPairsRemover": ("dequantized_again",),
    "DynamicQuantizeMatMulFusion": (),
    "EliminateDropout": ("dropout",),
    "EliminateIdentity": ("identity",),
    "EliminateSlice": ("slice_of_everything",),
    "EmbedLayerNormFusion": (),
    "EnsureUniqueDQForNodeUnit": (),
    "ExpandElimination": ("shape_of_its_own",),
    "FastGeluFusion": ("tanh_gelu",),
    "FreeDimensionOverrideTransformer": (),
    "FuseFp16InitializerToFp32NodeTransformer": (),
    "FuseReluClip": ("clip_of_relu",),
    "GatherToSliceFusion": (),
    "GatherToSplitFusion": (),
    "GeluApproximation": (),
    "GeluFusion": GELU,
    "GeluFusionL1": GELU,
    "GeluFusionL2": GELU,
    "GemmActivationFusion": ("gemm_activation",),
    "GemmSumFusion": ("gemm_add",),
    "GemmTransposeFusion": ("gemm_of_transpose",),
    "GqaValueLayoutTransformer": (),
    "GroupQueryAttentionFusion": (),
    "GroupQueryAttentionPreNormFusion": (),
    "LabelEncoderFusion": (),
    "LayerNormFusion": LAYER_NORM,
    "LayerNormFusionL1": LAYER_NORM,
    "LayerNormFusionL2": LAYER_NORM,
    "MatMulActivationFusion": (),
    "MatMulAddFusion": ("matmul_add",),
    "MatMulIntegerToFloatFusion": (),
    "MatMulNBitsFusion": (),
    "MatMulNBitsMlpFusion": (),
    "MatMulNBitsQkvFusion": (),
    "MatMulScaleFusion": (),
    "MatMul_BatchNormalization_Fusion": ("gemm_batch_normalization",),
    "MatmulBNFusion": ("gemm_batch_normalization",),
    "MatmulTransposeFusion": (),
    "NchwcTransformer": (),
    "NhwcTransformer": (),
    "NoopElimination": ("neutral_operand",),
    "NotWhereFusion": ("where_not",),
    "PadFusion": ("conv_of_pad",),
    "Pad_Fusion": ("conv_of_pad",),
    "PreShapeNodeElimination": ("shape_of_cast",),
    "QDQFinalCleanupTransformer": ("dequantized_again",),
    "QDQPropagationTransformer": ("quantized_movement",),
    "QDQS8ToU8Transformer": (),
    "QDQSelectorActionTransformer": ("quantized_conv", "quantized_matmul", "quantized_movement"),
    "QuickGeluFusion": ("swish", "swish_of_multiple"),
    "ReluQuantRewrite": ("quantized_clip",),
    "RemoveDuplicateCastTransformer": MERGE_CASTS,
    "ReshapeFusion": ("reshape_of_reshape", "reshape_to_known_sizes"),
    "RotaryEmbeddingFusion": ("rotary_embedding", "rotary_embedding_of_halves", "rotary_embedding_of_pairs"),
    "SimplifiedLayerNormFusion": ("rms_normalization", "normalization_scale", "normalization_cast"),
    "SkipLayerNormFusion": (),
    "SliceConcatToSpaceToDepthFusion": (),
    "TransposeOptimizer": ("transpose_of_transpose", "transpose_of_nothing", "transpose_of_merged"),
    "UnsqueezeElimination": ("squeeze_of_unsqueeze",),
    "WeightBiasQuantization": (),
}
"""onnxruntime's optimizers, and the rules that do what they do; there is nothing to switch off for some."""

_warned: set[str] = set()


def disabled_rules(names: Iterable[str], rules: Collection[str]) -> set[str]:
    """The rules that are meant by names of rules or of onnxruntime's optimizers; a name of neither is warned of once.

    >>> sorted(disabled_rules(["GeluFusion", "conv_mul"], ["conv_mul", "gelu"]))
    ['conv_mul', 'gelu']
    """
    disabled: set[str] = set()
    for name in filter(None, map(str.strip, names)):
        if name in rules:
            disabled.add(name)
        elif name in OPTIMIZERS:
            disabled.update(OPTIMIZERS[name])
        elif name not in _warned:
            _warned.add(name)
            debug.warn(f"no optimizer is called {name!r}; the rules are {', '.join(sorted(rules))}")
    return disabled
