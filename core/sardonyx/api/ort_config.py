"""Options that a model brings along: onnxruntime's `ort_config`, a JSON text in the model's metadata.

{"session_options": {"intra_op_num_threads": 2, "graph_optimization_level": 99}}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sardonyx.api.options import ExecutionMode, SessionOptions
from sardonyx.common.record import replace
from sardonyx.errors import InvalidValue
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.plans.plan_cache import Source
from sardonyx.plans.signature import is_bundle_at

KEY = "ort_config"
VARIABLE = "ORT_LOAD_CONFIG_FROM_MODEL"


def _threads(number: int) -> int:
    if number < 0:
        raise ValueError("threads below 0")
    return number


_FIELDS: dict[str, Callable[[int], Any]] = {
    "intra_op_num_threads": _threads,
    "inter_op_num_threads": _threads,
    "execution_mode": ExecutionMode,
    "graph_optimization_level": GraphOptimizationLevel,
    "enable_profiling": (False, True).__getitem__,
}


def of_model(options: SessionOptions, given: Any, wanted: Any = None) -> SessionOptions:
    """The options of a session on a model at a path or in bytes, which is looked into if that is `wanted`: 1, or None
    where the environment has ORT_LOAD_CONFIG_FROM_MODEL=1."""
    told = os.environ.get(VARIABLE) == "1" if wanted is None else int(wanted) == 1
    if not told or is_bundle_at(given):
        return options
    return configured(options, Source(given, options.changes).read().metadata)


def configured(options: SessionOptions, metadata: Mapping[str, str]) -> SessionOptions:
    """A copy of options with what a model's metadata says; other fields than onnxruntime reads are passed over.

    Raises InvalidValue where the text is no JSON, or a field has a value that makes no sense.

    >>> options = configured(SessionOptions(), {"ort_config": '{"session_options": {"intra_op_num_threads": 2}}'})
    >>> options.intra_op_num_threads
    2
    """
    import json  # which few models need

    try:
        config = json.loads(metadata.get(KEY) or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"Json stored in the `{KEY}` key cannot be parsed. Error message: {error}") from None
    settings = config.get("session_options") if isinstance(config, dict) else None
    changed: dict[str, Any] = {}
    for name, value in settings.items() if isinstance(settings, dict) else ():
        if name not in _FIELDS:
            continue
        if type(value) is not int:
            raise InvalidValue(f"{name} option in the model file must be an integer, not {value!r}")
        try:
            changed[name] = _FIELDS[name](value)
        except (ValueError, IndexError):
            raise InvalidValue(f"Unsupported {name} value in ORT config: {value}") from None
    return replace(options, **changed)
