"""Models in float16 but for the nodes that do not bear it, which are found by running.

    smaller = auto_convert_mixed_precision(model, {"x": sample}, rtol=1e-2, atol=1e-3, keep_io_types=True)

Nodes are tried in segments that are halved where they fail, as onnxconverter_common has it, whose names these are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.model.ir import Model
from sardonyx.model.serde.inline import inline_functions
from sardonyx.model.serde.writer import LIMIT, save, write
from sardonyx.passes.copy import copy_model
from sardonyx.quantization.float16 import halved
from sardonyx.quantization.proto import as_model, like

Outputs: TypeAlias = Sequence[Any]
Validate: TypeAlias = Callable[[Outputs, Outputs], bool]
HOLDERS = ("Loop", "If", "Scan")
"""Operators of which not the node itself, but what is in it, may be kept."""


@record(eq=False)
class _Segment:
    """Nodes that stand together; `good` ones bear float16, `bad` ones are single and do not."""

    names: list[str]
    good: bool = False
    bad: bool = False


def auto_convert_mixed_precision(
    model: Any,
    feed_dict: Mapping[str, np.ndarray],
    validate_fn: Validate | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    keep_io_types: bool = False,
) -> Any:
    """A ModelProto with float16 in all nodes but those without which the outputs for a sample are not good enough.

    They are so where `validate_fn(expected, found)` says it, and where they are close by `rtol` and `atol`, of which
    one implies the other (1e-5, 1e-8). ValueError where neither is given, and where nothing helps.
    """
    network = as_model(model)
    validate = _validation(validate_fn, rtol, atol)
    return like(model, _mixed(network, feed_dict, validate, keep_io_types, None))


def auto_convert_mixed_precision_model_path(
    source_model_path: str,
    input_feed: Mapping[str, np.ndarray],
    target_model_path: str,
    provider: Sequence[Any] | None = None,
    location: str | None = None,
    customized_validate_func: Validate | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    keep_io_types: bool = True,
    verbose: bool = False,
) -> None:
    """The same from file to file: tensors go into the file `location` (`fp16_tensor.data`) beside the result.

    Without a function of its own, outputs are to be close by `rtol` (1e-3) and `atol` (1e-5). `verbose` tells of each
    attempt.
    """
    if not isinstance(source_model_path, (str, os.PathLike)):
        raise TypeError(f"source_model_path is a path, not {type(source_model_path).__name__}; give a model's file")
    if not os.path.exists(source_model_path):
        raise NoSuchFile(f"source_model_path: {source_model_path} does not exist")
    validate = customized_validate_func or _validation(None, rtol or 1e-3, atol or 1e-5)
    network = _mixed(as_model(source_model_path), input_feed, validate, keep_io_types, provider, verbose)
    os.makedirs(os.path.dirname(os.path.abspath(target_model_path)), exist_ok=True)
    save(network, target_model_path, external_data=location or "fp16_tensor.data")


def _validation(function: Validate | None, rtol: float | None, atol: float | None) -> Validate:
    if function is None and rtol is None and atol is None:
        raise InvalidArgument("say what is good enough: validate_fn, rtol or atol")
    relative, absolute = 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol

    def validate(expected: Outputs, found: Outputs) -> bool:
        if function is not None and not function(expected, found):
            return False
        if rtol is None and atol is None:
            return True
        pairs = zip(expected, found, strict=True)
        return all(np.allclose(one, other, rtol=relative, atol=absolute) for one, other in pairs)

    return validate


def _mixed(
    model: Model,
    feeds: Mapping[str, np.ndarray],
    validate: Validate,
    keep_io_types: bool,
    providers: Sequence[Any] | None,
    verbose: bool = False,
) -> Model:
    model = inline_functions(model)
    names = _named(model)
    expected = _run(model, feeds, providers)
    if not validate(expected, expected):
        raise InvalidArgument(
            "the outputs of the model itself are not good enough for its own: look at what validates them"
        )
    if not keep_io_types:
        feeds = {key: array.astype(np.float16) if array.dtype == np.float32 else array for key, array in feeds.items()}

    def attempt(kept: Sequence[str]) -> Model | None:
        network = halved(copy_model(model), keep_io_types=keep_io_types, node_block_list=kept)
        good = validate(expected, _run(network, feeds, providers))
        if verbose:
            print(f"float32 in {len(kept)} of {len(names)} nodes: {'good' if good else 'not good'} enough")
        return network if good else None

    segments = [_Segment(names)]
    while waiting := [segment for segment in segments if segment.names and not segment.good and not segment.bad]:
        largest = max(waiting, key=lambda segment: len(segment.names))
        if attempt(_kept(segments, largest)) is not None:
            largest.good = True
        elif len(largest.names) == 1:
            largest.bad = True
        else:
            middle, place = len(largest.names) // 2, segments.index(largest)
            segments[place : place + 1] = [_Segment(largest.names[:middle]), _Segment(largest.names[middle:])]
    result = attempt(_kept(segments, None))
    if result is None:
        raise InvalidArgument("no choice of nodes in float16 gives outputs that are good enough")
    return result


def _kept(segments: Sequence[_Segment], tried: _Segment | None) -> list[str]:
    """The nodes that stay float32 while one segment is tried."""
    return [name for segment in segments if segment is not tried and not segment.good for name in segment.names]


def _named(model: Model) -> list[str]:
    """The names of the nodes of the graph that may be kept; those that have none, or another's, get one."""
    taken: set[str] = set()
    for number, node in enumerate(model.graph.nodes):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{number}"
        taken.add(node.name)
    return [node.name for node in model.graph.nodes if node.op_type not in HOLDERS]


def _run(model: Model, feeds: Mapping[str, np.ndarray], providers: Sequence[Any] | None) -> Outputs:
    chosen = list(providers or ["CPUExecutionProvider"])
    weights = sum(value.constant.size for value in model.graph.initializers if value.constant is not None)
    if weights * 4 < LIMIT // 2:
        return InferenceSession(write(model), providers=chosen).run(None, dict(feeds))
    with tempfile.TemporaryDirectory() as folder:
        save(model, os.path.join(folder, "model.onnx"), external_data="model.data")
        return InferenceSession(os.path.join(folder, "model.onnx"), providers=chosen).run(None, dict(feeds))
