"""Models of few nodes, run on the two schedules that folds and rows have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.plans.plan import Plan
from sardonyx_webgpu import WebGpuProvider
from sardonyx_webgpu.runtime.device import WebGpuDevice

OPSET = 23
SCHEDULES = ["threads", "groups", pytest.param("browser", marks=pytest.mark.slow)]
"""A thread has a row, or where there are enough elements a workgroup; this also in a browser."""


def use(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions use a device with the schedule that is this fixture's parameter."""
    device = WebGpuDevice(request.getfixturevalue("browser" if request.param == "browser" else "native").gpu)
    device.is_software = request.param == "threads"
    monkeypatch.setattr(WebGpuProvider, "device", lambda self, options: device)


def model(nodes: Sequence[Any], inputs: Mapping[str, tuple[Any, Sequence[Any]]], outputs: Mapping[str, int]) -> bytes:
    """Nodes of ONNX as a model; inputs have a NumPy type and a shape, outputs a number of ONNX's."""
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, number, None) for name, number in outputs.items()]
    graph = helper.make_graph(list(nodes), "g", values, results)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())


def run(data: bytes, *feeds: np.ndarray) -> tuple[list[np.ndarray], Plan]:
    """What a model gives on WebGPU, and its plan."""
    session = sardonyx.InferenceSession(data, providers=["WebGpuExecutionProvider"])
    results = session.run(None, dict(zip((value.name for value in session.get_inputs()), feeds, strict=True)))
    return results, session.plans[0]


def apply(operator: str, *feeds: np.ndarray, result: int | None = None, **attributes: Any) -> tuple[np.ndarray, Plan]:
    """One operator on arrays, and the plan."""
    names = [f"x{k}" for k in range(len(feeds))]
    number = helper.np_dtype_to_tensor_dtype(feeds[0].dtype) if result is None else result
    inputs = {name: (x.dtype, list(x.shape)) for name, x in zip(names, feeds, strict=True)}
    data = model([helper.make_node(operator, names, ["y"], **attributes)], inputs, {"y": number})
    (y,), plan = run(data, *feeds)
    return y, plan


INT64, FLOAT = int(TensorProto.INT64), int(TensorProto.FLOAT)
