"""`python -m sardonyx.quantization.static_quantize_runner`: `quantize_static` from a terminal, as onnxruntime has it.

Samples lie beside the model, as ONNX's own tests have them: `test_data_set_0/input_0.pb` and so on, one TensorProto for
each input. `sardonyx quantize` reads pictures, arrays and folders, and measures what it did.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.errors import InvalidArgument
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.schema import MESSAGES
from sardonyx.model.serde.source import DataFiles
from sardonyx.model.serde.tensors import read_tensor
from sardonyx.model.serde.wire import decode
from sardonyx.quantization.calibrate import CalibrationDataReader
from sardonyx.quantization.enums import CalibrationMethod, QuantFormat, QuantType
from sardonyx.quantization.quantize import StaticQuantConfig, quantize

TYPES = {
    "qint8": QuantType.QInt8,
    "quint8": QuantType.QUInt8,
    "qint16": QuantType.QInt16,
    "quint16": QuantType.QUInt16,
    "qint4": QuantType.QInt4,
    "quint4": QuantType.QUInt4,
    "qfloat8e4m3fn": QuantType.QFLOAT8E4M3FN,
}
METHODS = {method.name.lower(): method for method in CalibrationMethod}
FORMATS = {form.name.lower(): form for form in QuantFormat}
SWITCHES = {
    "enable_subgraph": ("EnableSubgraph", "quantize branches and loops, too"),
    "force_quantize_no_input_check": ("ForceQuantizeNoInputCheck", "quantize what only moves data, whatever it reads"),
    "matmul_const_b_only": ("MatMulConstBOnly", "quantize products with a constant alone"),
    "add_qdq_pair_to_weight": ("AddQDQPairToWeight", "keep weights in floats, with a pair behind them"),
    "dedicated_qdq_pair": ("DedicatedQDQPair", "a pair for each node that reads a tensor"),
    "calib_tensor_range_symmetric": ("CalibTensorRangeSymmetric", "ranges symmetric around 0"),
    "calib_moving_average": ("CalibMovingAverage", "with minmax: average over collections"),
    "use_qdq_contrib_ops": ("UseQDQContribOps", "QuantizeLinear and DequantizeLinear of com.microsoft"),
    "qdq_keep_removable_activations": ("QDQKeepRemovableActivations", "keep Relu and Clip where a range could do"),
    "qdq_disable_weight_adjust_for_int32_bias": (
        "QDQDisableWeightAdjustForInt32Bias",
        "leave scales of weights as they are where a bias does not fit int32",
    ),
}
"""Options that are on or off: their key among the extra options, and what they do."""


class OnnxModelCalibrationDataReader(CalibrationDataReader):
    """The samples in the folders `test_data_set_*` beside a model."""

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        self.model_dir = Path(model_path).resolve().parent
        graph = read(model_path).graph
        self._names = [value.name for value in graph.inputs if value not in graph.initializers]
        self._folders = sorted(self.model_dir.glob("test_data_set_*"))
        if not self._folders:
            raise InvalidArgument(f"{self.model_dir} has no test_data_set_0/input_0.pb, from which ranges are learned")
        self._samples = self._read()

    def _read(self) -> Iterator[dict[str, Any]]:
        for folder in self._folders:
            yield {name: self.read_onnx_pb_data(folder / f"input_{k}.pb") for k, name in enumerate(self._names)}

    def get_next(self) -> dict[str, Any] | None:
        """The next folder's arrays by the names of inputs; None behind the last one."""
        return next(self._samples, None)

    def read_onnx_pb_data(self, file_pb: str | os.PathLike[str]) -> np.ndarray:
        """What a file with one TensorProto holds."""
        record = decode(Path(file_pb).read_bytes(), MESSAGES["TensorProto"])
        return read_tensor(record, DataFiles(file_pb)).array()


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What onnxruntime's runner takes."""
    parser = argparse.ArgumentParser(
        prog="python -m sardonyx.quantization.static_quantize_runner",
        description="quantize a model with samples that lie beside it, in test_data_set_0/input_0.pb and so on",
    )
    add = parser.add_argument
    add("-i", "--input_model_path", required=True, metavar="FILE", help="an .onnx file")
    add("-o", "--output_quantized_model_path", required=True, metavar="FILE", help="where the result goes")
    add("--activation_type", choices=TYPES, default="quint8", help="type of activations (%(default)s)")
    add("--weight_type", choices=TYPES, default="qint8", help="type of weights (%(default)s)")
    add("--calibration_method", choices=METHODS, default="minmax", help="how ranges are found (%(default)s)")
    add("--quant_format", choices=FORMATS, default="qdq", help="pairs, or operators of integers (%(default)s)")
    for name, (_, text) in SWITCHES.items():
        add(f"--{name}", action="store_true", help=text)
    add("--disable_quantize_bias", action="store_true", help="keep biases in floats")
    add("--per_channel", action="store_true", help="a scale for each channel of weights")
    add("--minimum_real_range", type=float, default=0.0001, metavar="NUMBER", help="least range (%(default)s)")
    add("--nodes_to_quantize", nargs="+", metavar="NAME", help="quantize these nodes alone")
    add("--nodes_to_exclude", nargs="+", metavar="NAME", help="leave these nodes in floats")
    kept = "operators whose results stay in floats"
    add("--op_types_to_exclude_output_quantization", nargs="+", default=[], metavar="OP", help=kept)
    axis = "the axis of channels of an operator's weights; may be given several times"
    add("--op_per_channel_axis", nargs=2, action="append", default=[], metavar=("OP", "AXIS"), help=axis)
    add("--tensor_quant_overrides", metavar="FILE", help="JSON: scale and zero_point by the names of tensors")
    return parser.parse_args(arguments)


def get_tensor_quant_overrides(file: str | None) -> dict[str, list[dict[str, Any]]]:
    """The overrides in a JSON file: for each tensor a list, whose scales and zero points become arrays."""
    found: dict[str, list[dict[str, Any]]] = json.loads(Path(file).read_text()) if file else {}
    for entry in (entry for entries in found.values() for entry in entries):
        if "scale" in entry:
            entry["scale"] = np.array(entry["scale"], np.float32)
        if "zero_point" in entry:
            entry["zero_point"] = np.array(entry["zero_point"])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """What `python -m` does."""
    args = parse_arguments(arguments)
    given = vars(args)
    options: dict[str, Any] = {key: given[name] for name, (key, _) in SWITCHES.items()}
    options["OpTypesToExcludeOutputQuantization"] = args.op_types_to_exclude_output_quantization
    options["QDQOpTypePerChannelSupportToAxis"] = {op: int(axis) for op, axis in args.op_per_channel_axis}
    options["QuantizeBias"] = not args.disable_quantize_bias
    options["MinimumRealRange"] = args.minimum_real_range
    options["TensorQuantOverrides"] = get_tensor_quant_overrides(args.tensor_quant_overrides)
    config = StaticQuantConfig(
        OnnxModelCalibrationDataReader(args.input_model_path),
        calibrate_method=METHODS[args.calibration_method],
        quant_format=FORMATS[args.quant_format],
        activation_type=TYPES[args.activation_type],
        weight_type=TYPES[args.weight_type],
        nodes_to_quantize=args.nodes_to_quantize,
        nodes_to_exclude=args.nodes_to_exclude,
        per_channel=args.per_channel,
        extra_options=options,
    )
    quantize(args.input_model_path, args.output_quantized_model_path, config)


if __name__ == "__main__":
    main()
