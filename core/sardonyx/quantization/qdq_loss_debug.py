"""Where a quantized model loses accuracy: tensor by tensor, before and after rounding, and against the float model.

    modify_model_output_intermediate_tensors("quantized.onnx", "watched.onnx")
    activations = collect_activations("watched.onnx", reader)  # a CalibrationDataReader
    errors = compute_activation_error(create_activation_matching(activations))

`stream_activations` gives one sample's tensors at a time, for models whose tensors do not fit all at once.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.errors import InvalidValue
from sardonyx.model.ir import Model, Tensor, TensorType, Value
from sardonyx.model.ir.build import node as new_node
from sardonyx.model.serde.writer import save
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.quantization.inferred import inferred_types
from sardonyx.quantization.proto import as_model
from sardonyx.quantization.quant_utils import DEQUANT_OUTPUT_SUFFIX, QUANT_INPUT_SUFFIX, TENSOR_NAME_QUANT_SUFFIX
from sardonyx.quantization.weight_only import as_float, constant

Path: TypeAlias = str | os.PathLike[str]
Arrays: TypeAlias = Sequence[np.ndarray]
ErrorFunction: TypeAlias = Callable[[Any, Any], float]
WATCHED = (dtypes.float32, dtypes.float16)
SAVED = "_ReshapedSavedOutput"
"""What the name of an output that shows a tensor ends in."""
BEFORE, QUANTIZED = QUANT_INPUT_SUFFIX, TENSOR_NAME_QUANT_SUFFIX
AFTER = (DEQUANT_OUTPUT_SUFFIX, f"{DEQUANT_OUTPUT_SUFFIX}_1")
"""What quantizers add to the names of tensors: before and after rounding, and of integers."""


def modify_model_output_intermediate_tensors(
    input_model_path: Path,
    output_model_path: Path,
    op_types_for_saving: Sequence[str] | None = None,
    save_as_external_data: bool = False,
) -> None:
    """Write a model that gives, besides its outputs, what its nodes take and give: of float32 and float16, flat.

    With `op_types_for_saving` of these operators alone. Outputs are named after their tensors, with `SAVED` behind.
    """
    model = as_model(input_model_path)
    graph, types = model.graph, inferred_types(model)
    flat = constant(np.array([-1], np.int64), dtypes.int64, "LinearReshape")
    graph.initializers.append(flat)
    watched: dict[Value, TensorType] = {}
    for node in graph.nodes:
        if not op_types_for_saving or node.op_type in op_types_for_saving:
            for value in (*node.inputs, *node.outputs):
                if value is not None and value.constant is None and value.name:
                    kind = types.get(value)
                    if kind is not None and kind.dtype in WATCHED:
                        watched[value] = kind
    for value, kind in watched.items():
        name = f"{value.name}{SAVED}"
        reshape = new_node("Reshape", [value, flat], [name], name=name)
        reshape.outputs[0].type = TensorType(kind.dtype, (None,))
        graph.nodes.append(reshape)
        graph.outputs.append(reshape.outputs[0])
    beside = f"{os.path.basename(os.fspath(output_model_path))}.data" if save_as_external_data else None
    save(model, output_model_path, external_data=beside)


def stream_activations(
    augmented_model: Any,
    input_reader: Iterable[Mapping[str, np.ndarray]],
    session_options: SessionOptions | None = None,
    execution_providers: Sequence[str] | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """The watched tensors of one sample after the other, by their names; nothing is kept of the sample before."""
    if session_options is None:
        session_options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    providers = list(execution_providers or ["CPUExecutionProvider"])
    session = InferenceSession(augmented_model, session_options, providers=providers)
    outputs = [output.name for output in session.get_outputs() if output.name.endswith(SAVED)]
    for feeds in input_reader:
        results = session.run(outputs, feeds)
        yield {name.removesuffix(SAVED): array for name, array in zip(outputs, results, strict=True)}


def collect_activations(
    augmented_model: Any,
    input_reader: Iterable[Mapping[str, np.ndarray]],
    session_options: SessionOptions | None = None,
    execution_providers: Sequence[str] | None = None,
) -> dict[str, list[np.ndarray]]:
    """The watched tensors by their names, for each sample one, of a model that was modified for it.

    Nodes are not fused unless `session_options` say so. RuntimeError where there is no sample.
    """
    found: dict[str, list[np.ndarray]] = {}
    count = 0
    for sample in stream_activations(augmented_model, input_reader, session_options, execution_providers):
        count += 1
        for name, array in sample.items():
            found.setdefault(name, []).append(array)
    if not count:
        raise InvalidValue("input_reader gave no sample; a reader that was read to its end has to be made anew")
    return found


def create_activation_matching(
    qdq_activations: Mapping[str, Arrays], float_activations: Mapping[str, Arrays] | None = None
) -> dict[str, dict[str, Arrays]]:
    """By tensor what it was before and after rounding, `pre_qdq` and `post_qdq`, and `float`, in the float model."""
    matched: dict[str, dict[str, Arrays]] = {}
    for name, arrays in qdq_activations.items():
        suffix = next((suffix for suffix in (BEFORE, *AFTER) if name.endswith(suffix)), "")
        own = name.removesuffix(suffix)
        if suffix and own in qdq_activations:
            before, after = (arrays, qdq_activations[own]) if suffix == BEFORE else (qdq_activations[own], arrays)
            matched[own] = {"pre_qdq": before, "post_qdq": after}
    for own, arrays_of in matched.items():
        if float_activations and own in float_activations:
            arrays_of["float"] = float_activations[own]
    return matched


def create_weight_matching(float_model_path: Any, qdq_model_path: Any) -> dict[str, dict[str, np.ndarray]]:
    """By weight what it is in the float model, `float`, and by DequantizeLinear in the other, `dequantized`.

    Weights that either of them does not have are left out.
    """
    plain, quantized = as_model(float_model_path), as_model(qdq_model_path)
    floats = {value.name: value.constant for value in plain.graph.initializers if value.constant is not None}
    matched: dict[str, dict[str, np.ndarray]] = {}
    for name, array in _dequantized(quantized):
        if name in floats:
            matched[name] = {"float": as_float(floats[name]), "dequantized": array}
    return matched


def _dequantized(model: Model) -> Iterator[tuple[str, np.ndarray]]:
    """The names of weights and what DequantizeLinear makes of their integers."""
    for node in model.graph.nodes:
        tensors = [None if value is None else value.constant for value in node.inputs]
        if node.op_type != "DequantizeLinear" or tensors[0] is None or len(tensors) < 2 or tensors[1] is None:
            continue
        weight, scale = node.inputs[0], tensors[1]
        if weight is not None and weight.name.endswith(QUANTIZED):
            zero = tensors[2] if len(tensors) > 2 else None
            array = _dequantize(tensors[0], scale, zero, node.attribute("axis", 1), node.attribute("block_size", 0))
            yield weight.name.removesuffix(QUANTIZED), array


def _dequantize(integers: Tensor, scale: Tensor, zero: Tensor | None, axis: int, block: int) -> np.ndarray:
    array, factors = integers.array(), as_float(scale)
    offsets = np.zeros(factors.shape, np.int64) if zero is None else zero.array().astype(np.int64)

    def spread(values: np.ndarray) -> np.ndarray:
        """Scales or zero points, one for each element or broadcast to them."""
        if values.size == 1:
            return values.reshape(())
        if block:
            return np.repeat(values, block, axis).take(range(array.shape[axis]), axis)
        return values.reshape([-1 if place == axis % array.ndim else 1 for place in range(array.ndim)])

    steps = (array.astype(np.int64) - spread(offsets)).astype(factors.dtype)
    result: np.ndarray = steps * spread(factors)
    return result


def compute_signal_to_quantization_noice_ratio(x: Arrays | np.ndarray, y: Arrays | np.ndarray) -> float:
    """20 log10(|x| / |x - y|) in dB of tensors, or of lists of as many, piece by piece.

    >>> round(compute_signal_to_quantization_noice_ratio(np.array([3.0, 4.0]), np.array([3.0, 4.5])), 6)
    20.0
    """
    left = [x] if isinstance(x, np.ndarray) else list(x)
    right = [y] if isinstance(y, np.ndarray) else list(y)
    if len(left) != len(right):
        raise InvalidValue(f"{len(left)} tensors cannot be compared with {len(right)}; give as many of each")
    signal = noise = 0.0
    for one, other in zip(left, right, strict=True):
        wide, difference = one.astype(np.float64).ravel(), one.astype(np.float64).ravel() - other.ravel()
        signal += float(wide @ wide)
        noise += float(difference @ difference)
    least = float(np.finfo(np.float64).eps)
    return 20 * math.log10(max(math.sqrt(signal), least) / max(math.sqrt(noise), least))


def compute_weight_error(
    weights_match: Mapping[str, Mapping[str, np.ndarray]],
    err_func: ErrorFunction = compute_signal_to_quantization_noice_ratio,
) -> dict[str, float]:
    """The error of each weight that was matched."""
    return {name: err_func(match["float"], match["dequantized"]) for name, match in weights_match.items()}


def compute_activation_error(
    activations_match: Mapping[str, Mapping[str, Arrays]],
    err_func: ErrorFunction = compute_signal_to_quantization_noice_ratio,
) -> dict[str, dict[str, float]]:
    """The errors of each tensor: `qdq_err`, of its own rounding, and `xmodel_err`, of all before it, if matched."""
    errors: dict[str, dict[str, float]] = {}
    for name, match in activations_match.items():
        errors[name] = {"qdq_err": err_func(match["pre_qdq"], match["post_qdq"])}
        if match.get("float"):
            errors[name]["xmodel_err"] = err_func(match["float"], match["post_qdq"])
    return errors
