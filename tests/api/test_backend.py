"""ONNX's backend interface, and the models of onnxruntime's documentation, on both sides."""

from __future__ import annotations

import unittest
import warnings
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import sardonyx
from tests.api.sides import inner

SIDES = pytest.mark.parametrize("side", [sardonyx, onnxruntime], ids=lambda side: side.__name__)
X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
NAMES = ["mul_1.onnx", "sigmoid.onnx", "logreg_iris.onnx"]


def part(side: ModuleType, name: str) -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnxruntime's imports what onnx has deprecated
        return inner(side, name)


@SIDES
def test_models_are_prepared_and_run(side: ModuleType) -> None:
    backend, path = part(side, "backend"), part(side, "datasets").get_example("mul_1.onnx")
    session = side.InferenceSession(path, providers=["CPUExecutionProvider"])
    proto = onnx.load(path)
    proto.ir_version, proto.opset_import[0].version = 8, 17
    for given in (path, proto, proto.SerializeToString(), session, backend.prepare(path, "CPU")):
        np.testing.assert_array_equal(backend.prepare(given, intra_op_num_threads=1).run(X)[0], X * X)
        np.testing.assert_array_equal(backend.prepare(given).run([X], logid="me")[0], X * X)
        np.testing.assert_array_equal(backend.run(given, X, no_such_option=1)[0], X * X)
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(proto)
    assert not backend.is_compatible(proto, "TPU")


@SIDES
def test_what_the_backend_refuses(side: ModuleType) -> None:
    backend, path = part(side, "backend"), part(side, "datasets").get_example("mul_1.onnx")
    whole = part(side, "backend.backend").OnnxRuntimeBackend
    with pytest.raises(RuntimeError, match="Incompatible device expected 'TPU'"):
        backend.prepare(path, "TPU")
    with pytest.raises(RuntimeError, match="attribute 'enable_profiling' is not permitted"):
        backend.prepare(path, enable_profiling=True)
    with pytest.raises(RuntimeError, match="attribute 'terminate' is not permitted"):
        backend.prepare(path).run(X, terminate=True)
    with pytest.raises(NotImplementedError, match="every node"):
        whole.run_node(None, [])
    proto = onnx.load(path)
    proto.opset_import[0].version = 99
    assert whole.is_opset_supported(proto)[0] is False
    two = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info(name, 1, [2]) for name in "ab"],
        [helper.make_tensor_value_info("y", 1, [2])],
    )
    unreleased = helper.make_model(two, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(RuntimeError, match="Model expect 2 inputs"):
        backend.run(unreleased, X[0])
    unreleased.opset_import[0].version = 99
    with pytest.raises((unittest.SkipTest, onnx.checker.ValidationError)):
        backend.prepare(unreleased)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_the_same(name: str) -> None:
    results = []
    for side in (sardonyx, onnxruntime):
        session = side.InferenceSession(part(side, "datasets").get_example(name), providers=["CPUExecutionProvider"])
        (given,) = session.get_inputs()
        x = np.random.default_rng(0).random(given.shape, np.float32)
        results.append([str(each) for each in (given, *session.get_outputs())])
        results[-1] += session.run(None, {given.name: x})
    for mine, other in zip(*results, strict=True):
        if isinstance(other, list):
            assert [list(each) for each in mine] == [list(each) for each in other]
            mine, other = ([list(each.values()) for each in side] for side in (mine, other))
        if isinstance(other, str):
            assert mine == other
        else:
            np.testing.assert_allclose(mine, other, rtol=1e-5)


@SIDES
def test_an_example_that_is_not_there(side: ModuleType) -> None:
    with pytest.raises(FileNotFoundError, match=r"Unable to find example 'no\.onnx'"):
        part(side, "datasets").get_example("no.onnx")
