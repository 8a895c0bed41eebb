"""The example of an execution provider in a package of its own: installed as users do, and compared with NumPy's."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sardonyx import InferenceSession
from sardonyx.providers import registry
from tests.engine.graphs import CHAIN, CONTROL_FLOW
from tests.engine.graphs import model as parsed
from tests.engine.providers import NUMPY
from tests.operators.test_samples import CASES, assert_near, model_of
from tests.support.wheel import ROOT

PLAIN = "PlainExecutionProvider"
RUN = f"""
import json
import sys
import numpy as np
import sardonyx

assert "{PLAIN}" in sardonyx.get_available_providers()
session = sardonyx.InferenceSession(sys.argv[1], providers=["{PLAIN}"])
x = np.load(sys.argv[2])
for _ in range(3):
    (y,) = session.run(None, {{"x": x}})
np.save(sys.argv[2], y)
plan = session.plans[0]
print(json.dumps({{node: plan.devices[device] for node, device in zip(plan.nodes, plan.placement)}}))
"""
SAMPLES = """
Cast Clip Conv CumSum Einsum Erf GRU Gather GatherND Gelu LSTM LayerNormalization MatMul MaxPool Mod NonMaxSuppression
NonZero Pad QLinearConv ReduceMax Resize ScatterND Shrink Softmax TopK Where
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the package can be imported: installed into a folder of its own."""
    target = tmp_path_factory.mktemp("provider")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--disable-pip-version-check", "--root-user-action", "ignore", "--target", str(target)]
    subprocess.run([*command, str(ROOT / "examples" / "provider")], check=True, timeout=500)
    return {**os.environ, "PYTHONPATH": str(target)}


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Path:
    """`Softmax(Tanh(x @ w + b))`, whose last step is in float16: NumPy has to do that."""
    w, b = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "multiply"),
        helper.make_node("Add", ["h", "b"], ["s"], "add"),
        helper.make_node("Tanh", ["s"], ["t"], "bend"),
        helper.make_node("Cast", ["t"], ["c"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Softmax", ["c"], ["y"], "normalise"),
    ]
    kinds = (("x", TensorProto.FLOAT, 5), ("y", TensorProto.FLOAT16, 4))
    ports = [helper.make_tensor_value_info(name, kind, ["N", k]) for name, kind, k in kinds]
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
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=500)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected[0], rtol=2e-3)
    placement = json.loads(done.stdout)
    homes = {node: home for node, home in placement.items() if "Softmax" not in node and "Cast" not in node}
    assert homes
    assert set(homes.values()) == {PLAIN}
    assert {home for node, home in placement.items() if node not in homes} == {NUMPY}


def test_the_command_line_knows_it(environment: dict[str, str], model: Path) -> None:
    command = [sys.executable, "-m", "sardonyx", "inspect", str(model), "--provider", "plain", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=500)
    compiled = json.loads(done.stdout)["compiled"]
    assert compiled["placement"][PLAIN] >= 1
    assert compiled["copies"] >= 1
    assert "float16" in compiled["fallbacks"][0]["reason"]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module, whose provider sessions find."""
    spec = spec_from_file_location("sardonyx_plain", ROOT / "examples" / "provider" / "sardonyx_plain.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(registry.installed(), PLAIN, lambda: module.provider)
    yield module
    registry.load.cache_clear()


def compare(model: Any, feeds: Mapping[str, Any]) -> InferenceSession:
    """Run a model on both providers; results are equal but for rounding."""
    session = InferenceSession(model, providers=[PLAIN])
    found = session.run(None, dict(feeds))
    assert_near(found, InferenceSession(model, providers=[NUMPY]).run(None, dict(feeds)), 1e-5)
    return session


def test_examples_in_docstrings(plain: ModuleType) -> None:
    outcome = doctest.testmod(plain)
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_digits(rng: np.random.Generator) -> None:
    session = compare(str(ROOT / "examples/digits/digits.onnx"), {"image": rng.random((1, 1, 28, 28), np.float32)})
    assert {*session.plans[0].placement} == {0}


@pytest.mark.usefixtures("plain")
def test_control_flow(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    compare(parsed(CHAIN), {"x": x})
    for n, c in ((4, True), (0, False)):
        compare(parsed(CONTROL_FLOW), {"x": x, "n": np.array(n), "c": np.array(c)})


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", SAMPLES.split())
def test_samples(name: str) -> None:
    cases = [case.values for case in CASES if str(case.id).split("-")[0] == name]
    assert cases
    for operator, sample in cases[:8]:
        model, feeds = model_of(operator, sample)
        compare(model.SerializeToString(), feeds)
