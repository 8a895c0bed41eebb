"""The backend: models are prepared as sessions on all providers that are available."""

from __future__ import annotations

import os
import unittest
from typing import Any, NoReturn

from onnx import ModelProto, helper
from onnx.backend.base import Backend
from onnx.checker import check_model

from sardonyx.api.backend.backend_rep import OnnxRuntimeBackendRep, assign
from sardonyx.api.environment import get_device
from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.providers.registry import available as get_available_providers

__all__ = ["OnnxRuntimeBackend", "is_compatible", "prepare", "run", "supports_device"]

_ALLOWED_SESSION_OPTIONS = frozenset(
    {
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "use_deterministic_compute",
        "use_per_session_threads",
    }
)
_RELEASED = "ALLOW_RELEASED_ONNX_OPSET_ONLY"
_EXCLUDED = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"


class OnnxRuntimeBackend(Backend):
    """ONNX's backend interface, with onnxruntime's name, environment variables and refusals."""

    allowReleasedOpsetsOnly = os.getenv(_RELEASED, "1") == "1"  # noqa: N815 - onnxruntime's name

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether a device, the default one without any, is supported; the model does not matter."""
        return device is None or cls.supports_device(device)

    @classmethod
    def is_opset_supported(cls, model: ModelProto) -> tuple[bool, str]:
        """Whether all operator sets of a model were released, unless ALLOW_RELEASED_ONNX_OPSET_ONLY is 0; else why."""
        for each in model.opset_import if cls.allowReleasedOpsetsOnly else ():
            domain = each.domain or "ai.onnx"
            if (domain, each.version) not in helper.OP_SET_ID_VERSION_MAP:
                return False, f"'{domain}' {each.version} is no released operator set; {_RELEASED}=0 takes it"
        return True, ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `get_device` has a device of this kind: CPU, or WEBGPU; CUDA stands for GPU."""
        return ("GPU" if device == "CUDA" else device) in get_device().split("-")

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OnnxRuntimeBackendRep:
        """A model, ready to run: of a ModelProto, which is checked, a path, bytes, a session, or one that is ready.

        `kwargs` are fields of `SessionOptions`. RuntimeError where the device is not supported.
        """
        if isinstance(model, OnnxRuntimeBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OnnxRuntimeBackendRep(model)
        if not isinstance(model, (str, bytes)):
            data = model.SerializeToString()
            check_model(data)
            supported, why = cls.is_opset_supported(model)
            if not supported:
                raise unittest.SkipTest(why)
            model = data
        options = SessionOptions()
        assign(options, kwargs, _ALLOWED_SESSION_OPTIONS)
        excluded = os.getenv(_EXCLUDED, "").split(",")
        session = InferenceSession(model, options, [name for name in get_available_providers() if name not in excluded])
        session.disable_fallback()  # a test that uses this interface wants to see failures
        if device is not None and not cls.supports_device(device):
            raise RuntimeError(f"Incompatible device expected '{device}', got '{get_device()}'")
        return OnnxRuntimeBackendRep(session)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """The outputs of a model that `prepare` takes; `kwargs` are for `prepare` and for the run."""
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any
    ) -> NoReturn:
        """Raises NotImplementedError, as onnxruntime does."""
        raise NotImplementedError("It is much more efficient to run a whole model than every node independently.")


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
