"""A model that was prepared: a session with the interface of `onnx.backend.base.BackendRep`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from onnx.backend.base import BackendRep

from sardonyx.api.options import RunOptions, SessionOptions
from sardonyx.api.session import InferenceSession

_ALLOWED_RUN_OPTIONS = frozenset({"log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"})


class OnnxRuntimeBackendRep(BackendRep):
    """Runs a session on a list of arrays, or on the array of its only input."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """The outputs, for arrays in the order of the inputs; `kwargs` are fields of `RunOptions`."""
        options = RunOptions()
        assign(options, kwargs, _ALLOWED_RUN_OPTIONS)
        known = self._session.get_inputs()
        if not isinstance(inputs, list):
            if len(known) != 1:
                raise RuntimeError(f"Model expect {len(known)} inputs: give a list of them")
            inputs = [inputs]
        return self._session.run(None, {each.name: array for each, array in zip(known, inputs)}, options)


def assign(options: SessionOptions | RunOptions, given: dict[str, Any], allowed: Collection[str]) -> None:
    """Set fields of options; RuntimeError for those that may not be set here, and nothing for what is no field."""
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            kind = type(options).__name__
            there = ", ".join(sorted(allowed))
            raise RuntimeError(f"{kind} attribute '{name}' is not permitted via the backend API; there are {there}")
