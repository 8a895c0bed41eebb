"""A model in, a smaller one out: onnxruntime.quantization.quantize by its names."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeAlias

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.model.serde.writer import LIMIT, save
from sardonyx.quantization.base_quantizer import LOG
from sardonyx.quantization.calibrate import CalibrationDataReader, create_calibrator
from sardonyx.quantization.enums import CalibrationMethod, QuantFormat, QuantizationMode, QuantType
from sardonyx.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from sardonyx.quantization.network import opset_of
from sardonyx.quantization.onnx_quantizer import ONNXQuantizer
from sardonyx.quantization.opset import for_types
from sardonyx.quantization.proto import as_model, is_proto, like
from sardonyx.quantization.qdq_quantizer import QDQQuantizer
from sardonyx.quantization.registry import IntegerOpsRegistry, QDQRegistry, QLinearOpsRegistry
from sardonyx.quantization.tensor_quant_overrides import TensorQuantOverridesHelper
from sardonyx.quantization.tensors_data import TensorsData, load_tensors_data, read_cache, save_tensors_data
from sardonyx.quantization.weight_only_config import WeightOnlyQuantConfig

ModelLike: TypeAlias = Any
"""A path, or a ModelProto; bytes and a `sardonyx.model.ir.Model` are taken, too."""
Excluded: TypeAlias = list[str] | Callable[[Any, Any], bool]
SIXTEEN = (QuantType.QInt16, QuantType.QUInt16)
FOUR = (QuantType.QInt4, QuantType.QUInt4)
FLOAT8 = QuantType.QFLOAT8E4M3FN
CALIBRATION_OPTIONS = {
    "CalibTensorRangeSymmetric": "symmetric",
    "CalibMovingAverage": "moving_average",
    "CalibMovingAverageConstant": "averaging_constant",
    "CalibMaxIntermediateOutputs": "max_intermediate_outputs",
    "CalibPercentile": "percentile",
}
"""Extra options that are for the calibrator, and what it calls them."""
NOT_PREPARED = (
    "Please consider to run pre-processing before quantization. Refer to example: "
    "https://github.com/microsoft/onnxruntime-inference-examples/blob/main/quantization/image_classification/cpu/"
    "ReadMe.md "
)


class QuantConfig:
    """What both ways of quantizing may be asked."""

    def __init__(
        self,
        activation_type: QuantType = QuantType.QUInt8,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: list[str] | None = None,
        nodes_to_quantize: list[str] | None = None,
        nodes_to_exclude: list[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
    ) -> None:
        self.op_types_to_quantize = op_types_to_quantize or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.weight_type = weight_type
        self.activation_type = activation_type
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.use_external_data_format = use_external_data_format


class StaticQuantConfig(QuantConfig):
    """What `quantize_static` takes, for `quantize`."""

    def __init__(
        self,
        calibration_data_reader: CalibrationDataReader | None,
        calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
        quant_format: QuantFormat = QuantFormat.QDQ,
        activation_type: QuantType = QuantType.QInt8,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: list[str] | None = None,
        nodes_to_quantize: list[str] | None = None,
        nodes_to_exclude: list[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        calibration_providers: list[str] | None = None,
        extra_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            activation_type,
            weight_type,
            op_types_to_quantize,
            nodes_to_quantize,
            nodes_to_exclude,
            per_channel,
            reduce_range,
            use_external_data_format,
        )
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    """What `quantize_dynamic` takes, for `quantize`."""

    def __init__(
        self,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: list[str] | None = None,
        nodes_to_quantize: list[str] | None = None,
        nodes_to_exclude: list[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        extra_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            QuantType.QUInt8,
            weight_type,
            op_types_to_quantize,
            nodes_to_quantize,
            nodes_to_exclude,
            per_channel,
            reduce_range,
            use_external_data_format,
        )
        self.extra_options = extra_options or {}


def get_qdq_config(
    model_input: ModelLike,
    calibration_data_reader: CalibrationDataReader,
    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
    calibrate_args: dict[str, Any] | None = None,
    activation_type: QuantType = QuantType.QUInt8,
    weight_type: QuantType = QuantType.QInt8,
    activation_symmetric: bool = False,
    weight_symmetric: bool | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    keep_removable_activations: bool = False,
    min_real_range: float | None = None,
    tensor_quant_overrides: dict[str, list[dict[str, Any]]] | None = None,
    calibration_providers: list[str] | None = None,
    op_types_to_quantize: list[str] | None = None,
    nodes_to_exclude: Excluded | None = None,
    extra_options: dict[str, Any] | None = None,
) -> StaticQuantConfig:
    """A configuration that quantizes all operators of a model but Cast and pairs that are there, in the form QDQ.

    `nodes_to_exclude` has names, or is a function of a ModelProto and a NodeProto. `calibrate_args` are options of the
    calibrator, without their prefix. The other arguments are those of `quantize_static`, or its extra options.
    """
    model = as_model(model_input)
    overrides = TensorQuantOverridesHelper(copy.deepcopy(tensor_quant_overrides) if tensor_quant_overrides else {})
    excluded = set(nodes_to_exclude) if isinstance(nodes_to_exclude, list) else set()
    if callable(nodes_to_exclude):
        proto = model_input if is_proto(model_input) else like(model_input, model)
        asked = [each for each in proto.graph.node if not op_types_to_quantize or each.op_type in op_types_to_quantize]
        excluded |= {each.name for each in asked if nodes_to_exclude(proto, each)}
    kinds = {
        node.op_type
        for node in model.graph.nodes
        if node.name not in excluded and (not op_types_to_quantize or node.op_type in op_types_to_quantize)
    }
    options = {
        "MinimumRealRange": min_real_range,
        "QDQKeepRemovableActivations": keep_removable_activations,
        "ActivationSymmetric": activation_symmetric,
        "WeightSymmetric": weight_symmetric,
        "ForceQuantizeNoInputCheck": True,
        "TensorQuantOverrides": overrides.get_dict(),
    }
    given = calibrate_args or {}
    options |= {option: given[name] for option, name in CALIBRATION_OPTIONS.items() if name in given}
    types = {activation_type, weight_type, *overrides.get_quant_types()}
    if opset_of(model) < 21 and not types & {*SIXTEEN} and types & {*FOUR}:
        options["UseQDQContribOps"] = True
    return StaticQuantConfig(
        calibration_data_reader,
        calibrate_method=calibrate_method,
        quant_format=QuantFormat.QDQ,
        activation_type=activation_type,
        weight_type=weight_type,
        op_types_to_quantize=op_types_to_quantize or list(kinds - {"Cast", "DequantizeLinear", "QuantizeLinear"}),
        nodes_to_exclude=list(excluded),
        per_channel=per_channel,
        reduce_range=reduce_range,
        use_external_data_format=has_data_beside(model_input),
        calibration_providers=calibration_providers,
        extra_options=options | (extra_options or {}),
    )


def check_static_quant_arguments(quant_format: QuantFormat, activation_type: QuantType, weight_type: QuantType) -> None:
    """Raises ValueError for types that do not go together, or not with this form."""
    if not isinstance(quant_format, QuantFormat):
        raise InvalidArgument(f"quant_format={quant_format!r}: give QuantFormat.QDQ or QuantFormat.QOperator")
    told = f"activation_type={activation_type}, weight_type={weight_type}"
    if activation_type == QuantType.QInt8 and weight_type == QuantType.QUInt8:
        raise InvalidArgument(f"ONNXRuntime quantization doesn't support data format: {told}; use QUInt8 activations")
    if (activation_type == FLOAT8) != (weight_type == FLOAT8):
        raise InvalidArgument(f"ONNXRuntime quantization doesn't support data format: {told}; both are float8, or none")
    if quant_format != QuantFormat.QDQ and (activation_type in SIXTEEN or weight_type in SIXTEEN):
        raise InvalidArgument("Only QuantFormat.QDQ supports 16-bit quantization types.")
    if quant_format != QuantFormat.QDQ and activation_type == weight_type == QuantType.QInt8:
        LOG.warning(
            "Please use QuantFormat.QDQ for activation type QInt8 and weight type QInt8. "
            "Or it will lead to bad performance on x64."
        )


def quantize_static(
    model_input: ModelLike,
    model_output: str | os.PathLike[str],
    calibration_data_reader: CalibrationDataReader | None = None,
    quant_format: QuantFormat = QuantFormat.QDQ,
    op_types_to_quantize: list[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: QuantType = QuantType.QInt8,
    weight_type: QuantType = QuantType.QInt8,
    nodes_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | None = None,
    use_external_data_format: bool = False,
    calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
    calibration_providers: list[str] | None = None,
    extra_options: dict[str, Any] | None = None,
    calibration_cache_path: str | os.PathLike[str] | None = None,
) -> None:
    """Quantize weights and activations, whose ranges are found by running the model on samples, and write the model.

    `calibration_data_reader` gives the samples; without one, `calibration_cache_path` names a file with ranges, which
    is written where it is not there. Lists of operators and nodes say which are quantized (an empty list is all), and
    `extra_options` are onnxruntime's. Models older than operator set 10, and types of 16 bits before 21, are lifted.

    ValueError says what cannot be asked, NoSuchFile that a file or folder is not there, NotImplementedError what only
    other hardware computes.
    """
    options = extra_options or {}
    if FLOAT8 in (activation_type, weight_type) and calibrate_method != CalibrationMethod.Distribution:
        raise InvalidArgument("Only Distribution calibration method is supported for float quantization.")
    check_static_quant_arguments(quant_format, activation_type, weight_type)
    _refuse(options, activation_type, weight_type)
    kinds = op_types_to_quantize or list({**QLinearOpsRegistry, **QDQRegistry})
    model = _loaded(model_input)
    lifted = for_types(
        model,
        weight_type,
        activation_type,
        options.get("TensorQuantOverrides"),
        options.get("BlockSize", 0),
        quant_format is QuantFormat.QDQ and not options.get("UseQDQContribOps", False),
        per_channel,
    )
    cache = None if calibration_cache_path is None else Path(calibration_cache_path)
    ranges = _cached(cache, calibrate_method)
    if ranges is None:
        if calibration_data_reader is None:
            raise InvalidArgument(
                "Either calibration_data_reader or an existing calibration_cache_path must be provided."
            )
        source = model_input if lifted is model and isinstance(model_input, (str, os.PathLike)) else lifted
        ranges = _calibrated(source, calibration_data_reader, kinds, calibrate_method, calibration_providers, options)
        if cache is not None:
            save_tensors_data(ranges, cache)
    common = (weight_type, activation_type, ranges, nodes_to_quantize or [], nodes_to_exclude or [], kinds, options)
    quantizer: ONNXQuantizer | QDQQuantizer
    if quant_format is QuantFormat.QOperator:
        quantizer = ONNXQuantizer(lifted, per_channel, reduce_range, QuantizationMode.QLinearOps, True, *common)
    else:
        quantizer = QDQQuantizer(lifted, per_channel, reduce_range, *common)
    quantizer.quantize_model()
    quantizer.network.save(model_output, use_external_data_format)


def quantize_dynamic(
    model_input: ModelLike,
    model_output: str | os.PathLike[str],
    op_types_to_quantize: list[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    weight_type: QuantType = QuantType.QInt8,
    nodes_to_quantize: list[str] | None = None,
    nodes_to_exclude: list[str] | None = None,
    use_external_data_format: bool = False,
    extra_options: dict[str, Any] | None = None,
) -> None:
    """Quantize weights, and activations while the model runs, and write the model. No samples are needed.

    The arguments are those of `quantize_static`; products whose second factor is not constant stay in floats, unless
    the extra option `MatMulConstBOnly` is False.
    """
    options = {"MatMulConstBOnly": True, **(extra_options or {})}
    lifted = for_types(_loaded(model_input), weight_type)
    quantizer = ONNXQuantizer(
        lifted,
        per_channel,
        reduce_range,
        QuantizationMode.IntegerOps,
        False,
        weight_type,
        QuantType.QUInt8,
        None,
        nodes_to_quantize or [],
        nodes_to_exclude or [],
        op_types_to_quantize or list(IntegerOpsRegistry),
        options,
    )
    quantizer.quantize_model()
    quantizer.network.save(model_output, use_external_data_format)


def quantize(
    model_input: ModelLike,
    model_output: str | os.PathLike[str],
    quant_config: QuantConfig | WeightOnlyQuantConfig,
) -> None:
    """Quantize a model as a configuration says, static, dynamic or of weights alone, and write it."""
    if isinstance(quant_config, StaticQuantConfig):
        quantize_static(model_input, model_output, **vars(quant_config))
    elif isinstance(quant_config, DynamicQuantConfig):
        told = {name: value for name, value in vars(quant_config).items() if name != "activation_type"}
        quantize_dynamic(model_input, model_output, **told)
    elif isinstance(quant_config, WeightOnlyQuantConfig):
        quantizer = MatMulNBitsQuantizer(model_input, algo_config=quant_config)
        quantizer.process()
        quantizer.model.save_model_to_file(model_output, True)
    else:
        kinds = "StaticQuantConfig, a DynamicQuantConfig or a WeightOnlyQuantConfig"
        raise TypeError(f"a configuration is a {kinds}, not {type(quant_config).__name__}")


def _loaded(given: ModelLike) -> Model:
    model = as_model(given)
    if model.metadata.get("onnx.quant.pre_process") != "onnxruntime.quant":
        LOG.warning(NOT_PREPARED)
    model.metadata["onnx.infer"] = "onnxruntime.quant"
    return model


def _refuse(options: dict[str, Any], *types: Any) -> None:
    if FLOAT8 in types:
        raise NotImplementedError(
            "float8e4m3fn is computed by kernels of CUDA alone, which Sardonyx has not; quantize to 8-bit integers"
        )
    if options.get("SmoothQuant", False):
        raise NotImplementedError("SmoothQuant is not part of sardonyx.quantization yet; leave the option out")


def _cached(cache: Path | None, method: CalibrationMethod) -> TensorsData | None:
    """The ranges of a calibration cache that is there, and was made without SmoothQuant."""
    if cache is None or not cache.exists():
        return None
    if not cache.is_file():
        raise InvalidArgument(f"calibration_cache_path is not a file: {cache}")
    if read_cache(cache).get("smooth_quant", False):
        LOG.warning(f"Calibration cache at {cache} was produced with smooth_quant=True. Recomputing ranges.")
        return None
    ranges = load_tensors_data(cache)
    if ranges.calibration_method != method:
        raise InvalidArgument(
            f"Calibration cache at {cache} was produced with {ranges.calibration_method}, but quantize_static was "
            f"called with calibrate_method={method}. Delete the cache or pass a matching calibrate_method."
        )
    return ranges


def _calibrated(
    source: Any,
    reader: CalibrationDataReader,
    kinds: Collection[str],
    method: CalibrationMethod,
    providers: list[str] | None,
    options: dict[str, Any],
) -> TensorsData:
    """The ranges of a model, a path or a Model, on the samples of a reader."""
    asked = {name: options[option] for option, name in CALIBRATION_OPTIONS.items() if option in options}
    with tempfile.TemporaryDirectory(prefix="sardonyx.") as folder:
        if isinstance(source, Model):
            path = os.path.join(folder, "model.onnx")
            save(source, path, external_data="model.onnx.data")
            source = path
        calibrator = create_calibrator(
            os.fspath(source),
            list(kinds),
            augmented_model_path=os.path.join(folder, "augmented_model.onnx"),
            calibrate_method=method,
            use_external_data_format=True,
            providers=providers,
            extra_options=asked,
        )
        stride = options.get("CalibStridedMinMax")
        if not stride:
            calibrator.collect_data(reader)
            return calibrator.compute_data()
        count = len(reader)
        if count % stride:
            raise InvalidArgument(f"Total data size ({count}) is not divisible by stride size ({stride}).")
        for start in range(0, count, stride):
            reader.set_range(start_index=start, end_index=start + stride)
            calibrator.collect_data(reader)
        return calibrator.compute_data()


def has_data_beside(given: ModelLike) -> bool:
    """Whether a model has tensors in files beside it, or is too large to be without."""
    model = as_model(given)
    sizes = [
        value.constant.size * value.constant.dtype.bits // 8 for value in model.graph.initializers if value.constant
    ]
    size = os.path.getsize(given) if isinstance(given, (str, os.PathLike)) else sum(sizes)
    return sum(sizes) > size or size > LIMIT
