"""Single nodes of operators that onnxruntime has: what it makes of them is the reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from tests.engine.providers import PROVIDERS, require_provider
from tests.support import eager

from .test_samples import assert_near

ON_ALL = pytest.mark.parametrize("provider", [pytest.param("eager", id="eager"), *PROVIDERS])
NATIVE = 25
"""NumPy's own types have lower numbers; onnxruntime takes the others only as constants."""


@dataclass
class Call:
    """A node and its inputs; `outputs` names those that it is asked for, '' for one that is left out."""

    op_type: str
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y0",)
    domain: str = "com.microsoft"
    constant: tuple[int, ...] = ()
    """The inputs that the model holds, besides those of types that NumPy lacks."""

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {f"x{k}": x for k, x in enumerate(self.inputs) if x is not None and not self.holds(k, x)}

    def holds(self, number: int, x: np.ndarray) -> bool:
        return number in self.constant or x.dtype.num >= NATIVE

    def model(self, unknown_sizes: bool = False) -> onnx.ModelProto:
        names = ["" if x is None else f"x{k}" for k, x in enumerate(self.inputs)]
        held = [
            numpy_helper.from_array(x, f"x{k}") for k, x in enumerate(self.inputs) if x is not None and self.holds(k, x)
        ]
        fed = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim if unknown_sizes else x.shape
            )
            for name, x in self.feeds.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        if self.op_type.endswith("MultiHeadAttention") and len(self.outputs) > 3:
            results[-1] = helper.make_tensor_value_info(self.outputs[-1], TensorProto.FLOAT, None)
        node = helper.make_node(self.op_type, names, list(self.outputs), domain=self.domain, **self.attributes)
        graph = helper.make_graph([node], self.op_type, fed, results, held)
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def expected(self) -> list[np.ndarray]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, self.feeds))

    def run(self, provider: str) -> list[np.ndarray]:
        if provider == "eager":
            return eager.evaluate(self.model(), self.feeds)
        session = InferenceSession(self.model(unknown_sizes=True).SerializeToString(), providers=[provider])
        return list(session.run(None, self.feeds))


def check(call: Call, provider: str, tolerance: float = 1e-5) -> None:
    """Assert that a provider gives what onnxruntime gives."""
    require_provider(provider)
    wanted = call.expected()
    assert_near(call.run(provider), wanted, max(tolerance, 2e-3 if wanted[0].dtype == np.float16 else 0))
