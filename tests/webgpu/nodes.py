"""Models of one node, run on the device of a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx_webgpu import provider
from sardonyx_webgpu.runtime.device import WebGpuDevice
from tests.engine.providers import WEBGPU

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def on_device(device: WebGpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of a test that has this fixture run on the device that the test is for."""
    monkeypatch.setattr(provider, "device", lambda options: device)


def session(
    operator: str,
    inputs: Sequence[Array],
    outputs: int = 1,
    constants: Mapping[int, Array] | None = None,
    open_sizes: bool = False,
    domain: str = "",
    opset: int = 21,
    **attributes: Any,
) -> InferenceSession:
    """A model of one node, whose inputs are called x0, x1, ...; `constants` are those by number that are given."""
    known = {f"x{k}": value for k, value in (constants or {}).items()}
    names = [f"x{k}" for k in range(len(inputs) + len(known))]
    fed = [name for name in names if name not in known]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)

    def value(name: str, array: Array) -> Any:
        shape = [f"{name}_{axis}" if open_sizes else size for axis, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    graph = helper.make_graph(
        [node],
        "g",
        [value(name, array) for name, array in zip(fed, inputs, strict=True)],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(array, name) for name, array in known.items()],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 5)] if domain else [])]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return InferenceSession(made.SerializeToString(), providers=[WEBGPU])


def feeds(session: InferenceSession, inputs: Sequence[Array]) -> dict[str, Array]:
    return {item.name: array for item, array in zip(session.get_inputs(), inputs, strict=True)}


def run(operator: str, *inputs: Array, **details: Any) -> list[Array]:
    """What a node makes of its inputs; `session` has the details."""
    made = session(operator, inputs, **details)
    return [np.asarray(found) for found in made.run(None, feeds(made, inputs))]
