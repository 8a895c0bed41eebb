"""Which initializers are parameters, and which layers are the head."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import sardonyx
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir.text import parse_model
from sardonyx.model.serde.writer import write
from sardonyx.plans.plan_cache import Source
from sardonyx.training.bundling import training_bundle
from sardonyx.training.parameters import head_of, parameters_of
from tests.engine.providers import require_provider

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
LINEAR = (
    HEAD
    + """main (float[N,4] x) => (float[N,2] y)
    <float[3,4] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b = {1,-2,3}, float[1] half = {0.5}, int64[2] perm = {1,0},
     float[3,2] v = {1,2,3,4,5,6}, float[2] c = {0,1}, float[2] unused = {0,0}>
    { t = Transpose <perm = [1,0]> (w)  p = MatMul (x, t)  a = Add (p, b)  s = Mul (a, half)  h = Relu (s)
      q = MatMul (h, v)  z = Add (q, c)  y = Softmax <axis = 1> (z) }"""
)


def test_parameters_are_what_layers_are_given() -> None:
    graph = parse_model(LINEAR).graph
    assert [value.name for value in parameters_of(graph, graph.nodes)] == ["w", "b", "v", "c"]
    head = head_of(graph.nodes)
    assert [node.op_type for node in head] == ["MatMul", "Add", "Softmax"]
    assert [value.name for value in parameters_of(graph, head)] == ["v", "c"]


def test_what_depends_on_the_head_is_part_of_it() -> None:
    model = (
        HEAD
        + """main (float[N,2] x) => (float[N,2] y, float[N,2] z)
        <float[2,2] w = {1,2,3,4}, float[2,2] v = {1,2,3,4}>
        { a = MatMul (x, w)  b = MatMul (a, v)  z = Relu (a)  y = Add (b, z) }"""
    )
    assert [node.outputs[0].name for node in head_of(parse_model(model).graph.nodes)] == ["b", "y"]
    without = parse_model(HEAD + "main (float[N] x) => (float[N] y) { y = Relu (x) }")
    assert head_of(without.graph.nodes) == []
    with pytest.raises(InvalidArgument, match="no Gemm, MatMul, Conv or ConvTranspose with weights"):
        training_bundle(Source(write(without)), ["wasm"], "head")


def test_weights_in_a_node_constant_make_the_head_and_are_not_trained() -> None:
    model = parse_model(
        HEAD
        + """main (float[N,2] x) => (float[N,2] y) <float[2,2] w = {1,2,3,4}>
        { a = MatMul (x, w)  v = Constant <value = float[2,2] {1,2,3,4}> ()  y = MatMul (a, v) }"""
    )
    assert [node.outputs[0].name for node in head_of(model.graph.nodes)] == ["y"]
    assert [value.name for value in parameters_of(model.graph, model.graph.nodes)] == ["w"]
    with pytest.raises(
        InvalidArgument, match="--train head: no layer of the model has weights of floats among its initializers"
    ):
        training_bundle(Source(write(model)), ["wasm"], "head")


@pytest.mark.parametrize("train", ["all", "head", "b,v"])
@pytest.mark.parametrize("provider", ["WasmExecutionProvider", "WebGpuExecutionProvider"])
def test_the_model_in_the_bundle_is_the_model(provider: str, train: str, rng: np.random.Generator) -> None:
    require_provider(provider)
    model = write(parse_model(LINEAR))
    target = {"WasmExecutionProvider": "wasm", "WebGpuExecutionProvider": "webgpu"}[provider]
    session = sardonyx.InferenceSession(b"".join(training_bundle(Source(model), [target], train)), providers=[provider])
    judge = onnxruntime.InferenceSession(model)
    assert [each.name for each in session.get_inputs()] == ["x"]
    for count in (1, 3):
        feeds = {"x": rng.normal(size=(count, 4)).astype("f4")}
        np.testing.assert_allclose(session.run(None, feeds)[0], judge.run(None, feeds)[0], 1e-5, 1e-6)


def test_a_head_is_trained_in_batches_where_the_model_takes_one() -> None:
    from sardonyx.plans.bundle import Bundle

    model = write(parse_model(LINEAR.replace("[N,", "[1,")))
    manifest = Bundle(b"".join(training_bundle(Source(model), ["wasm"], "head", classes=5))).manifest
    parts = {name: part["model"][0][0][1][2] for name, part in manifest["training"]["parts"].items()}
    assert parts == {"training": ["N", 3], "evaluation": ["N", 3], "optimizer": [1], "encoder": [1, 4]}
    assert manifest["model"][0][0][1][2] == [1, 4]
    assert manifest["model"][1][0][1][2] == [1, 5]


def test_equal_parameters_are_stored_apart() -> None:
    """They will not stay equal."""
    from sardonyx.plans.bundle import Bundle

    model = (
        HEAD
        + """main (float[N,2] x) => (float[N,2] y)
        <float[2,2] w = {1,2,3,4}, float[2,2] v = {1,2,3,4}> { a = MatMul (x, w)  y = MatMul (a, v) }"""
    )
    source = Source(write(parse_model(model)))
    titles = Bundle(b"".join(training_bundle(source, ["wasm"]))).manifest["training"]["parameters"]
    assert sorted(titles) == ["v", "w"]
    assert len({*titles.values()}) == 2
