"""onnxruntime.quantization.quant_utils by its names: types as numbers of `TensorProto.DataType`, models as ModelProtos.

Types of 4 bits are held one element a byte. The quantizers use `scales.py`, `network.py` and `opset.py` themselves.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.tensors import pack
from sardonyx.passes.infer import infer_types
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.quantization import scales
from sardonyx.quantization.base_quantizer import FLOATS, dtype_of
from sardonyx.quantization.enums import QuantFormat, QuantizationMode, QuantizedValueType, QuantType
from sardonyx.quantization.histogram import smooth_distribution
from sardonyx.quantization.network import MICROSOFT, PRODUCER
from sardonyx.quantization.opset import for_types, newest
from sardonyx.quantization.proto import as_model, as_proto, like
from sardonyx.quantization.tensors_data import CalibrationCacheEncoder, TensorsData

__all__ = [
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "QuantizedValueType",
    "compute_scale_zp",
    "find_by_name",
    "quantize_data",
    "quantize_nparray",
    "smooth_distribution",
]

__producer__, __version__ = PRODUCER
onnx_domain = "ai.onnx"
ms_domain = MICROSOFT
QUANT_OP_NAME = "QuantizeLinear"
QUANT_INPUT_SUFFIX = "_QuantizeLinear_Input"
DEQUANT_OP_NAME = "DequantizeLinear"
DEQUANT_OUTPUT_SUFFIX = "_DequantizeLinear_Output"
TENSOR_NAME_QUANT_SUFFIX = "_quantized"
MODEL_SIZE_THRESHOLD = 2**31
FLOAT8_TYPES = tuple(
    dtype.number for dtype in (dtypes.float8e4m3fn, dtypes.float8e4m3fnuz, dtypes.float8e5m2, dtypes.float8e5m2fnuz)
)
ONNX_TYPE_TO_NP_TYPE = {dtype.number: dtype.storage for dtype in scales.RANGES}


def _arrays(table: Mapping[DType, tuple[int, int]]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    return {
        dtype.number: (np.array(low, dtype.storage), np.array(high, dtype.storage))
        for dtype, (low, high) in table.items()
    }


ONNX_INT_TYPE_RANGE = _arrays(scales.RANGES)
ONNX_INT_TYPE_SYMMETRIC_RANGE = _arrays(scales.SYMMETRIC)
ONNX_INT_TYPE_REDUCED_RANGE = _arrays(scales.REDUCED)


# ---- arithmetic


def get_qmin_qmax_for_qType(  # noqa: N802
    qType: int,  # noqa: N803
    reduce_range: bool = False,
    symmetric: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest integer of a type.

    >>> get_qmin_qmax_for_qType(QuantType.QInt8.tensor_type, symmetric=True)
    (array(-127, dtype=int8), array(127, dtype=int8))
    """
    return scales.limits(dtype_of(qType), reduce_range, symmetric)


def get_qrange_for_qType(  # noqa: N802
    qType: int,  # noqa: N803
    reduce_range: bool = False,
    symmetric: bool = False,
) -> int:
    """The number of steps between the least and the greatest integer of a type."""
    low, high = get_qmin_qmax_for_qType(qType, reduce_range, symmetric)
    return int(high) - int(low)


def compute_scale_zp(
    rmin: Any, rmax: Any, qmin: Any, qmax: Any, symmetric: bool = False, min_real_range: float | None = None
) -> list[np.ndarray]:
    """The zero point and the scale for a range.

    >>> compute_scale_zp(np.float32(-1), np.float32(2), np.uint8(0), np.uint8(255))
    [array(85, dtype=uint8), array(0.01176471, dtype=float32)]
    """
    return list(scales.scale_and_zero(rmin, rmax, qmin, qmax, symmetric, min_real_range))


def compute_scale_zp_float8(element_type: int, std: np.ndarray) -> list[np.ndarray]:
    """Float8 is not computed here: NotImplementedError says why."""
    raise NotImplementedError(f"type {element_type}: floats of 8 bits are computed by kernels of CUDA alone")


def compute_scale_zp_blocked(
    weight: np.ndarray, quant_type: int, axis: int, block_size: int, symmetric: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Zero points and scales of blocks along an axis of a matrix."""
    return scales.of_blocks(weight, dtype_of(quant_type), axis, block_size, symmetric)


snap_zero_point_to_uint8 = scales.restricted


def compute_data_quant_params(
    data: np.ndarray,
    quant_type: int,
    symmetric: bool,
    reduce_range: bool = False,
    min_real_range: float | None = None,
    rmin_override: float | None = None,
    rmax_override: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The zero point and the scale for the floats of an array."""
    if not isinstance(data, np.ndarray):
        raise TypeError(f"Weight must be given as an array not {type(data)}.")
    limits = rmin_override, rmax_override
    return scales.of_data(data, dtype_of(quant_type), symmetric, reduce_range, min_real_range, *limits)


def quantize_nparray(
    qType: int,  # noqa: N803
    arr: np.ndarray,
    scale: Any,
    zero_point: Any,
    low: float | None = None,
    high: float | None = None,
) -> np.ndarray:
    """Floats as integers of a type."""
    return scales.quantized(arr, dtype_of(qType), scale, zero_point, low, high)


def quantize_data(
    data: np.ndarray,
    qType: int,  # noqa: N803
    symmetric: bool,
    reduce_range: bool = False,
    min_real_range: float | None = None,
    rmin_override: float | None = None,
    rmax_override: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The zero point, the scale and the integers for the floats of an array."""
    zero_point, scale = compute_data_quant_params(
        data, qType, symmetric, reduce_range, min_real_range, rmin_override, rmax_override
    )
    return zero_point, scale, quantize_nparray(qType, data, scale, zero_point)


def normalize_axis(axis: int, rank: int) -> tuple[bool, int]:
    """Whether a tensor of this rank has an axis, and its number from 0.

    >>> normalize_axis(-1, 4)
    (True, 3)
    """
    positive = axis + rank if axis < 0 else axis
    return 0 <= positive < rank, positive


def pack_bytes_to_4bit(src_8bit: bytes) -> bytearray:
    """Two elements to a byte, the first one in the low half.

    >>> pack_bytes_to_4bit(bytes([1, 2, 3])).hex()
    '2103'
    """
    return bytearray(pack(np.frombuffer(src_8bit, np.uint8), 4).tobytes())


# ---- records


@record
class QuantizedValue:
    """A tensor in integers: its own name, that of the integers, and those of scale and zero point."""

    original_name: str
    q_name: str | None
    scale_name: str
    zp_name: str
    value_type: QuantizedValueType
    axis: int | None = None
    node_type: str | None = None
    node_qtype: int | None = None
    scale_type: int | None = None


# ---- names


def add_quant_suffix(tensor_name: str) -> str:
    """The name of the QuantizeLinear of a tensor."""
    return f"{tensor_name}_QuantizeLinear"


def add_quant_input_suffix(tensor_name: str) -> str:
    """The name of what goes into it, where the tensor is an output of the model."""
    return tensor_name + QUANT_INPUT_SUFFIX


def add_quant_output_suffix(tensor_name: str) -> str:
    """The name of what comes out of it."""
    return f"{tensor_name}_QuantizeLinear_Output"


def add_dequant_suffix(tensor_name: str) -> str:
    """The name of the DequantizeLinear of a tensor."""
    return f"{tensor_name}_DequantizeLinear"


def add_dequant_input_suffix(tensor_name: str) -> str:
    """The name of what goes into it."""
    return f"{tensor_name}_DequantizeLinear_Input"


def add_dequant_output_suffix(tensor_name: str) -> str:
    """The name of what comes out of it."""
    return tensor_name + DEQUANT_OUTPUT_SUFFIX


def find_by_name(item_name: str, item_list: Iterable[Any]) -> Any:
    """The first of these that has a name, or None."""
    return next((item for item in item_list if item.name == item_name), None)


def get_elem_index(elem_name: str, elem_list: Sequence[str]) -> int:
    """The last place of a name in a list; -1 where it is not there."""
    return max((place for place, name in enumerate(elem_list) if name == elem_name), default=-1)


def generate_identified_filename(filename: Path, identifier: str) -> Path:
    """The path of a file with this before its suffix.

    >>> generate_identified_filename(Path("model.onnx"), "-inferred").name
    'model-inferred.onnx'
    """
    return filename.parent.joinpath(filename.stem + identifier + filename.suffix)


# ---- messages of ONNX

_FIELDS = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
}


def attribute_to_kwarg(attribute: Any) -> dict[str, Any]:
    """An AttributeProto as `onnx.helper.make_node` takes it."""
    if attribute.type not in _FIELDS:
        raise InvalidArgument(
            f"attribute {attribute.name} has the type {attribute.type}, which make_node does not take"
        )
    return {attribute.name: getattr(attribute, _FIELDS[attribute.type])}


def get_mul_node(inputs: Sequence[str], output: str, name: str) -> Any:
    """A NodeProto of Mul."""
    from onnx import helper

    return helper.make_node("Mul", inputs, [output], name)


def tensor_proto_to_array(initializer: Any) -> np.ndarray:
    """The elements of a TensorProto of float32 or float16; ValueError for others."""
    from onnx import numpy_helper

    if initializer.data_type not in {dtype.number for dtype in FLOATS}:
        kind = dtypes.by_number(initializer.data_type)
        raise InvalidArgument(f"Only float type is supported. Weights {initializer.name} is {kind}")
    array: np.ndarray = numpy_helper.to_array(initializer)
    return array


def quantize_onnx_initializer(
    weight: Any,
    quant_type: int,
    zero_point: np.ndarray,
    scale: np.ndarray,
    axis: int | None = None,
    quant_weight_name: str | None = None,
    block_size: int = 0,
) -> Any:
    """A TensorProto of the integers for one of floats."""
    data, dtype = tensor_proto_to_array(weight), dtype_of(quant_type)
    spread = [np.asarray(scale), np.asarray(zero_point)]
    if axis is not None and block_size > 0:
        spread = [scales.by_block(each, data.shape[axis], axis, block_size) for each in spread]
    elif axis is not None:
        spread = [scales.by_channel(each, data.ndim, axis) for each in spread]
    integers = scales.quantized(data, dtype, spread[0], spread[1])
    made = type(weight)()
    made.name = quant_weight_name or f"{weight.name}{TENSOR_NAME_QUANT_SUFFIX}"
    made.data_type = dtype.number
    made.dims.extend(data.shape)
    flat = np.ascontiguousarray(integers).reshape(-1).view(np.uint8)
    made.raw_data = (pack(flat, 4) if dtype.bits == 4 else flat).tobytes()
    return made


def get_opset_version(model: Any) -> int:
    """The operator set of ai.onnx of a ModelProto; ValueError where there is not one."""
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if len(versions) != 1:
        raise InvalidArgument("Failed to find proper ai.onnx domain")
    return int(versions[0])


def update_opset_version(
    model: Any,
    weight_type: Any,
    activation_type: Any = None,
    tensor_quant_overrides: dict[str, Any] | None = None,
    block_size: int = 0,
) -> Any:
    """A ModelProto in an operator set that can say these types: itself where its own can."""
    own = as_model(model)
    lifted = for_types(own, weight_type, activation_type, tensor_quant_overrides, block_size)
    return model if lifted is own else like(model, _with_shapes(lifted))


def load_model_with_shape_infer(model_path: Path) -> Any:
    """The model of a file as a ModelProto, with the types and shapes of what its nodes make."""
    return as_proto(_with_shapes(read(model_path)))


def save_and_reload_model_with_shape_infer(model: Any) -> Any:
    """A ModelProto with the types and shapes of what its nodes make."""
    return like(model, _with_shapes(as_model(model)))


def _with_shapes(model: Model) -> Model:
    """The model itself, with the types that inference finds where none are declared."""
    inferred = newest(model)
    infer_types(inferred.graph)
    types = {value.name: value.type for node in inferred.graph.nodes for value in node.outputs}
    for node in model.graph.nodes:
        for value in node.outputs:
            value.type = value.type or types.get(value.name)
    model.metadata["onnx.infer"] = "onnxruntime.quant"
    return model


def model_has_external_data(model_path: Path) -> bool:
    """Whether the model of a file has tensors in files beside it."""
    from onnx import TensorProto, load

    model = load(os.fspath(model_path), load_external_data=False)
    return any(each.data_location == TensorProto.EXTERNAL for each in model.graph.initializer)


def optimize_model(model_path: Path, opt_model_path: Path) -> None:
    """Write a model after constant folding and the like."""
    options = SessionOptions()
    options.optimized_model_filepath = os.fspath(opt_model_path)
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_BASIC
    InferenceSession(os.fspath(model_path), options, ["CPUExecutionProvider"], disabled_optimizers=["ConstantSharing"])


def add_pre_process_metadata(model: Any) -> None:
    """Have a ModelProto say that it was prepared for quantizing."""
    _say(model, "onnx.quant.pre_process")


def model_has_pre_process_metadata(model: Any) -> bool:
    """Whether a ModelProto says that it was prepared for quantizing."""
    return _says(model, "onnx.quant.pre_process")


def add_infer_metadata(model: Any) -> None:
    """Have a ModelProto say that its types are inferred."""
    _say(model, "onnx.infer")


def model_has_infer_metadata(model: Any) -> bool:
    """Whether a ModelProto says that its types are inferred."""
    return _says(model, "onnx.infer")


def _say(model: Any, key: str) -> None:
    if not any(each.key == key for each in model.metadata_props):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, "onnxruntime.quant"


def _says(model: Any, key: str) -> bool:
    return any(each.key == key and each.value == "onnxruntime.quant" for each in model.metadata_props)


# ---- TensorRT's calibration table


def write_calibration_table(calibration_cache: TensorsData, dir: str | os.PathLike[str] = ".") -> None:
    """Write ranges as calibration.json, calibration.cache (a name and a number a line) and calibration.flatbuffers.

    The number is the greatest value of the range, as TensorRT's provider reads it.
    """
    folder = Path(dir)
    limits = {}
    for name in sorted(calibration_cache.keys()):
        told = calibration_cache[name].to_dict()
        found = [float(np.asarray(told.get(key, 0.0)).max()) for key in ("highest", "lowest")]
        limits[name] = str(max(found))
    folder.joinpath("calibration.json").write_text(json.dumps(calibration_cache, cls=CalibrationCacheEncoder))
    folder.joinpath("calibration.cache").write_text("".join(f"{name} {value}\n" for name, value in limits.items()))
    folder.joinpath("calibration.flatbuffers").write_bytes(_table(list(limits.items())))


def _table(pairs: Sequence[tuple[str, str]]) -> bytes:
    """A flatbuffer: a table that holds a vector of tables, each of which holds a key and a value.

    The vtable of both kinds comes first; offsets are relative to where they stand.
    """
    out = bytearray(4)

    def word(value: int, at: int | None = None, kind: str = "<I") -> int:
        place = len(out) if at is None else at
        if at is None:
            out.extend(struct.pack(kind, value))
        else:
            struct.pack_into(kind, out, at, value)
        return place

    def vtable(fields: int) -> int:
        place = len(out)
        for value in (4 + 2 * fields, 4 + 4 * fields, *(4 + 4 * each for each in range(fields))):
            word(value, kind="<H")
        out.extend(bytes(-len(out) % 4))
        return place

    def point(at: int) -> None:
        word(len(out) - at, at)

    of_root = vtable(1)
    root = word(0, kind="<i")
    word(root - of_root, root, "<i")
    word(root, 0)
    held = word(0)
    of_pair = vtable(2)
    point(held)
    word(len(pairs))
    slots = [word(0) for _ in pairs]
    for slot, pair in zip(slots, reversed(pairs), strict=True):  # vectors are built from their ends
        point(slot)
        place = word(0, kind="<i")
        word(place - of_pair, place, "<i")
        texts = [word(0) for _ in pair]
        for text, value in zip(texts, pair, strict=True):
            point(text)
            data = value.encode()
            word(len(data))
            out.extend(data + bytes(4 - len(data) % 4))
    return bytes(out)
