"""Random graphs on every provider, against onnxruntime, which fuses nothing."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import sardonyx
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider
from tests.engine.random_graphs import Graph

CASES = [(seed, provider) for seed in range(120) for provider in (NUMPY, WASM)]
ON_A_GPU = [(seed, WEBGPU) for seed in range(0, 120, 3)]
"""Fewer, since each takes half a second."""


@pytest.mark.parametrize(("seed", "provider"), CASES + ON_A_GPU)
def test_random_graphs(seed: int, provider: str) -> None:
    require_provider(provider)
    graph = Graph(seed, 4 + seed % 24)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = onnxruntime.InferenceSession(graph.model, options).run(None, graph.feeds)
    session = sardonyx.InferenceSession(graph.model, providers=[provider])
    for found, expected in zip(session.run(None, graph.feeds), wanted, strict=True):
        most = np.abs(expected).max(initial=1.0)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * most, strict=True)


@pytest.mark.nightly
@pytest.mark.parametrize("begin", range(1000, 4000, 100))
def test_more_random_graphs(begin: int) -> None:
    for seed in range(begin, begin + 100):
        for provider in (NUMPY, WASM, WEBGPU) if seed % 20 == 0 else (NUMPY, WASM):
            test_random_graphs(seed, provider)
