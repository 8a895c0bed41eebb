"""The example of an execution provider in a package of its own, installed as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.wheel import ROOT

RUN = """
import json
import sys
import numpy as np
import sardonyx
from sardonyx_stopwatch import provider

name = "StopwatchExecutionProvider"
assert name in sardonyx.get_available_providers()
session = sardonyx.InferenceSession(sys.argv[1], providers=[name])
x = np.load(sys.argv[2])
for _ in range(3):
    (y,) = session.run(None, {"x": x})
np.save(sys.argv[2], y)
plan = session.plans[0]
watch = provider.device({})
print(json.dumps({
    "placement": {node: plan.devices[device] for node, device in zip(plan.nodes, plan.placement)},
    "launches": dict(watch.launches),
    "seconds": sum(watch.seconds.values()),
}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the package can be imported: installed into a folder of its own."""
    target = tmp_path_factory.mktemp("provider")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--root-user-action", "ignore", "--target", str(target)]
    subprocess.run([*command, str(ROOT / "examples" / "provider")], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Path:
    """`Softmax(Tanh(x @ w + b))`, of which NumPy has to do the Softmax."""
    w, b = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "multiply"),
        helper.make_node("Add", ["h", "b"], ["s"], "add"),
        helper.make_node("Tanh", ["s"], ["t"], "bend"),
        helper.make_node("Softmax", ["t"], ["y"], "normalise"),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", k]) for name, k in (("x", 5), ("y", 4))]
    weights = [numpy_helper.from_array(array, name) for name, array in (("w", w), ("b", b))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def test_runs_its_nodes(environment: dict[str, str], model: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 5)).astype(np.float32)
    expected: Any = ReferenceEvaluator(onnx.load(model)).run(["y"], {"x": x})
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", RUN, str(model), str(tmp_path / "x.npy")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected[0], rtol=1e-5)
    data = json.loads(done.stdout)
    homes = {node: home for node, home in data["placement"].items() if "Softmax" not in node}
    assert homes
    assert set(homes.values()) == {"StopwatchExecutionProvider"}
    assert {home for node, home in data["placement"].items() if "Softmax" in node} == {"NumpyExecutionProvider"}
    assert data["launches"]
    assert set(data["launches"].values()) == {3}
    assert data["seconds"] > 0


def test_the_command_line_knows_it(environment: dict[str, str], model: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(model), "--provider", "stopwatch", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    compiled = json.loads(done.stdout)["compiled"]
    assert compiled["placement"]["StopwatchExecutionProvider"] >= 1
    assert compiled["copies"] >= 1
    assert [item["reason"] for item in compiled["fallbacks"]] == ["no reduce of float32"]
