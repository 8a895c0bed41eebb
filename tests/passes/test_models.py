"""Whole models: rewritten ones compute what the given ones do, at every level."""

import numpy as np
import pytest

from sardonyx.api.options import SessionOptions
from sardonyx.model.ir.checker import check as check_model
from sardonyx.model.serde.reader import read
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.pipeline import prepare
from tests.models import SHORT, assert_close, inputs, path, reference
from tests.passes.checking import make_constant, run

REPEATED = pytest.mark.nightly
"""The same network as for one token: it takes far longer, and rewriting has nothing new to see."""

LEVELS = [Level.ORT_ENABLE_BASIC, Level.ORT_ENABLE_EXTENDED, Level.ORT_ENABLE_ALL]


def prepared(model, level):
    result = prepare(model, SessionOptions(graph_optimization_level=level))
    if level:
        check_model(result)
    return result.graph


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        if a is None or isinstance(a, list):
            assert (a is None) == (b is None)
            assert_same(a or [], b or [])
            continue
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            rounding = 2e-3 if a.dtype == np.float16 else 2e-5  # fused, float16 is rounded fewer times
            np.testing.assert_allclose(b, a, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
def test_onnx_models_compute_the_same(onnx_cases, constant):
    refused = []
    for name, data, feeds in onnx_cases:
        model = read(data)
        try:
            before = run(prepared(model, Level.ORT_DISABLE_ALL), feeds)
        except NotImplementedError:
            refused.append(name)
            continue
        if constant:
            for value, array in zip(list(model.graph.inputs), feeds):
                make_constant(model.graph, value.name, array)
        for level in LEVELS:
            graph = prepared(model, level)
            assert [value.name for value in graph.outputs] == [value.name for value in model.graph.outputs], name
            assert_same(before, run(graph, [] if constant else feeds))
    assert len(refused) < 40, refused


@pytest.mark.slow
@pytest.mark.parametrize("id", [pytest.param(id, marks=REPEATED) if id.endswith("-prefill") else id for id in SHORT])
def test_real_models_compute_what_onnxruntime_does(id):
    model, feeds = read(path(id)), inputs(id)
    expected = reference(id)
    for level in (Level.ORT_DISABLE_ALL, *LEVELS):
        graph = prepared(model, level)
        assert_close(id, run(graph, [feeds[value.name] for value in graph.inputs]), expected)
