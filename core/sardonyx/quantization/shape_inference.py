"""What a model needs before it is quantized: shapes, constants folded, and normalizations gone into weights.

    quant_pre_process("model.onnx", "ready.onnx")

Quantizers leave alone what they do not know, and round what need not be there. The result is plain ONNX in the operator
set of the model, which either tool's quantizer reads.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.model.serde.writer import LIMIT, save
from sardonyx.passes import activation, affine, normalization
from sardonyx.passes.downgrade import lower
from sardonyx.passes.journal import Journal
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.passes.names import GELU, LAYER_NORM
from sardonyx.passes.optimize import rules_of
from sardonyx.passes.pipeline import prepare
from sardonyx.passes.rewrite import rewrite
from sardonyx.passes.rule import Rule
from sardonyx.quantization.inferred import record_types
from sardonyx.quantization.newer import raise_operator_set
from sardonyx.quantization.proto import as_model

MARK = ("onnx.quant.pre_process", "onnxruntime.quant")
"""The entry of the metadata by which quantizers know a model that was here."""
OLDEST = 11
"""The operator set that models in older ones are put into: before it, Upsample stood for Resize."""
LAYER_NORMALIZATION, GELU_SINCE = 17, 20
"""The operator sets from which on ONNX itself has these operators."""


def quant_pre_process(
    input_model: Any = None,
    output_model_path: str | os.PathLike[str] | None = None,
    skip_optimization: bool = False,
    skip_onnx_shape: bool = False,
    skip_symbolic_shape: bool = False,
    auto_merge: bool = False,
    int_max: int = 2**31 - 1,
    guess_output_rank: bool = False,
    verbose: int = 0,
    save_as_external_data: bool = False,
    all_tensors_to_one_file: bool = False,
    external_data_location: str | None = None,
    external_data_size_threshold: int = 1024,
    **deprecated_kwargs: Any,
) -> None:
    """Write a model (a path, bytes, a ModelProto) with shapes and without what only training needed.

    Shapes are inferred, with names for what is open, unless both `skip_onnx_shape` and `skip_symbolic_shape` are set:
    one inference does what onnxruntime has two for, and `auto_merge`, `int_max` and `guess_output_rank`, which help the
    second, change nothing. `skip_optimization` leaves the nodes as they are. With `save_as_external_data` tensors of
    the threshold and more go into one file, `external_data_location` or the model's name with `.data`; without it, too,
    where the file would be too large. `verbose` tells what was done.

    InvalidArgument where a model or its target is missing, or an option is unknown.
    """
    if input_model is None:
        input_model = deprecated_kwargs.pop("input_model_path", None)
    if input_model is None or output_model_path is None:
        missing = "input_model" if input_model is None else "output_model_path"
        raise InvalidArgument(f"{missing} is missing: quant_pre_process(model, path)")
    if deprecated_kwargs:
        raise InvalidArgument(f"quant_pre_process has no {', '.join(map(repr, deprecated_kwargs))}")
    model = as_model(input_model)
    before = sum(1 for _ in model.graph.all_nodes())
    raise_operator_set(model, OLDEST, ir_version=False)
    if not skip_optimization:
        model = optimized(model)
    if not (skip_onnx_shape and skip_symbolic_shape):
        record_types(model)
    model.metadata = dict([MARK]) | model.metadata
    name = os.path.basename(os.fspath(output_model_path))
    sizes = [
        value.constant.size * value.constant.dtype.bits // 8 for value in model.graph.initializers if value.constant
    ]
    beside = save_as_external_data or sum(sizes) > LIMIT * 0.9
    location = (external_data_location or f"{name}.data") if beside else None
    save(model, output_model_path, external_data=location, threshold=external_data_size_threshold)
    if verbose:
        after = sum(1 for _ in model.graph.all_nodes())
        known = [value.shape is not None for node in model.graph.nodes for value in node.outputs if value.name]
        print(f"{before} nodes became {after}; shapes of {sum(known)} of {len(known)} tensors; {Path(name)} written")


def optimized(model: Model) -> Model:
    """The model after rules that give operators of ONNX alone, in its own operator set: constants are folded, numbers
    per channel go into the weights of Conv and Gemm, and LayerNormalization and Gelu stand where ONNX has them."""
    imports = dict(model.opset_imports)
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    result = prepare(model, options)
    rewrite(result.graph, _rules(imports.get("", 1)), Journal())
    return lower(result, imports)


def _rules(version: int) -> list[Rule]:
    """The rules for an operator set of ai.onnx."""
    rules = [*rules_of(GraphOptimizationLevel.ORT_ENABLE_BASIC), *affine.RULES]
    if version >= LAYER_NORMALIZATION:
        rules += [rule for rule in normalization.RULES if rule.name in LAYER_NORM]
    if version >= GELU_SINCE:
        rules += [rule for rule in activation.RULES if rule.name in GELU]
    return rules
