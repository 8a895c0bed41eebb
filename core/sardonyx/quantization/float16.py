"""Models in half the bytes: float32 becomes float16 wherever that is safe.

    smaller = convert_float_to_float16("model.onnx", keep_io_types=True)  # a ModelProto

`half_precision.py` rewires the graph; `auto_mixed_precision.py` finds the nodes that do not bear it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from sardonyx.common import debug, dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Tensor
from sardonyx.model.serde.inline import inline_functions
from sardonyx.quantization.half_precision import Choices, convert
from sardonyx.quantization.inferred import record_types
from sardonyx.quantization.proto import as_model, as_proto, like
from sardonyx.quantization.weight_only import as_stored

LEAST, LARGEST = 5.96e-08, 65504.0
"""The smallest and the largest positive float16."""

DEFAULT_OP_BLOCK_LIST = [
    *("ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer"),
    *("Imputer", "LabelEncoder", "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder"),
    *("RandomUniformLike", "SVMClassifier", "SVMRegressor", "Scaler", "TreeEnsembleClassifier"),
    *("TreeEnsembleRegressor", "TreeEnsemble", "ZipMap", "NonMaxSuppression", "TopK", "RoiAlign", "Range"),
    *("CumSum", "Min", "Max", "Upsample"),
]
"""Operators that keep float32 unless the caller says otherwise."""
ALWAYS_FLOAT_INPUTS = {"Resize": [2], "GroupNorm": [1, 2], "SkipGroupNorm": [1, 2]}
"""Inputs that are float32 whatever the others are."""


def convert_np_to_float16(
    np_array: np.ndarray, min_positive_val: float = LEAST, max_finite_val: float = LARGEST
) -> np.ndarray:
    """The elements as float16, none of which becomes zero or infinite.

    What is nearer to zero than `min_positive_val` becomes that, what is finite and larger than `max_finite_val` becomes
    that; signs, zeros, infinities and what is no number stay.

    >>> convert_np_to_float16(np.array([1e-9, -1e9, 0.5], np.float32)).tolist()
    [5.960464477539063e-08, -65504.0, 0.5]
    """
    size = np.abs(np_array)
    clipped = np.where((size > 0) & (size < min_positive_val), min_positive_val, size)
    clipped = np.where((size > max_finite_val) & (size < np.inf), max_finite_val, clipped)
    signed: np.ndarray = np.copysign(clipped, np_array)
    return signed.astype(np.float16)


def convert_float_to_float16(
    model: Any,
    min_positive_val: float = LEAST,
    max_finite_val: float = LARGEST,
    keep_io_types: bool | Collection[str] = False,
    disable_shape_infer: bool = False,
    op_block_list: Collection[str] | None = None,
    node_block_list: Collection[str] | None = None,
    force_fp16_initializers: bool = False,
    force_fp16_inputs: Mapping[str, Collection[int]] | None = None,
    use_bfloat16_as_blocked_nodes_dtype: bool = False,
) -> Any:
    """A ModelProto of a model (a path, bytes, a ModelProto) with float16 in place of float32.

    `keep_io_types` has inputs and outputs, all or those of these names, stay float32. Nodes of `op_block_list`
    (`DEFAULT_OP_BLOCK_LIST` where None) and those named in `node_block_list` stay float32, or become bfloat16; casts
    stand where types differ, none of which is undone by the next. Initializers that only such nodes read stay, unless
    `force_fp16_initializers`. `force_fp16_inputs` are inputs of `ALWAYS_FLOAT_INPUTS` that may be float16 after all.
    `disable_shape_infer` records no shapes in the result.

    Warns of elements beyond `max_finite_val`. InvalidArgument where a bound is none of float16.
    """
    network = halved(
        as_model(model),
        min_positive_val,
        max_finite_val,
        keep_io_types,
        disable_shape_infer,
        op_block_list,
        node_block_list,
        force_fp16_initializers,
        force_fp16_inputs,
        use_bfloat16_as_blocked_nodes_dtype,
    )
    return like(model, network)


def halved(
    model: Model,
    min_positive_val: float = LEAST,
    max_finite_val: float = LARGEST,
    keep_io_types: bool | Collection[str] = False,
    disable_shape_infer: bool = False,
    op_block_list: Collection[str] | None = None,
    node_block_list: Collection[str] | None = None,
    force_fp16_initializers: bool = False,
    force_fp16_inputs: Mapping[str, Collection[int]] | None = None,
    use_bfloat16_as_blocked_nodes_dtype: bool = False,
) -> Model:
    """The same for a Model, which is changed and given back."""
    if min_positive_val < LEAST or max_finite_val > LARGEST:
        raise InvalidArgument(
            f"min_positive_val={min_positive_val}, max_finite_val={max_finite_val}: float16 has {LEAST} to {LARGEST:g}"
        )
    model = inline_functions(model)
    if not disable_shape_infer:
        record_types(model)
    ports = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    kept = ports if keep_io_types is True else set(keep_io_types or ())
    float_inputs = ALWAYS_FLOAT_INPUTS | ({"Resize": [1]} if model.opset_imports.get("", 11) <= 10 else {})
    forced = force_fp16_inputs or {}
    choices = Choices(
        DEFAULT_OP_BLOCK_LIST if op_block_list is None else frozenset(op_block_list),
        frozenset(node_block_list or ()),
        kept,
        dtypes.bfloat16 if use_bfloat16_as_blocked_nodes_dtype else dtypes.float32,
        force_fp16_initializers,
        {
            name: [place for place in places if place not in forced.get(name, ())]
            for name, places in float_inputs.items()
        },
    )

    def narrow(tensor: Tensor, dtype: DType, name: str) -> Tensor:
        array = tensor.array()
        if dtype is not dtypes.float16:
            return Tensor.of(as_stored(array, dtype), dtype, tensor.name)
        beyond = int(np.count_nonzero((np.abs(array) > max_finite_val) & np.isfinite(array)))
        if beyond:
            debug.warn(f"{name}: {beyond:,} of {array.size:,} elements are beyond {max_finite_val:g}, and become that")
        return Tensor.of(convert_np_to_float16(array, min_positive_val, max_finite_val), dtype, tensor.name)

    convert(model, choices, narrow)
    return model


def convert_float_to_float16_model_path(
    model_path: str | os.PathLike[str],
    min_positive_val: float = LEAST,
    max_finite_val: float = LARGEST,
    keep_io_types: bool | Collection[str] = False,
) -> Any:
    """A ModelProto of the model in a file, which may have its tensors in files beside it, with float16."""
    return as_proto(halved(as_model(model_path), min_positive_val, max_finite_val, keep_io_types))


def float_to_float16_max_diff(tensor: Any, min_positive_val: float = LEAST, max_finite_val: float = LARGEST) -> float:
    """The largest difference that float16 makes to an element of an array, a Tensor, or a TensorProto of float32."""
    array = tensor.array() if isinstance(tensor, Tensor) else tensor
    if not isinstance(array, np.ndarray):
        array = np.frombuffer(array.raw_data, "<f4") if array.raw_data else np.array(array.float_data, np.float32)
    half = convert_np_to_float16(array, min_positive_val, max_finite_val)
    return float(np.abs(array - half.astype(np.float32)).max())
