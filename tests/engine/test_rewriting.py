"""A provider's rewriting that fails: other providers run those nodes, and the user is told."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx.common import debug
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.primitives.array import Equation
from sardonyx.primitives.trace import Trace
from sardonyx.providers.registry import WASM, load

Rewrite = Callable[[Trace, Collection[int]], None]


def session() -> sardonyx.InferenceSession:
    """y = relu(exp(x)) by two nodes, for WASM, with nothing optimized."""
    nodes = [helper.make_node("Exp", ["x"], ["e"], name="first"), helper.make_node("Relu", ["e"], ["y"], name="second")]
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])] for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "two", inputs, outputs), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    return sardonyx.InferenceSession(model.SerializeToString(), providers=[WASM])


def at_the_second(trace: Trace, origins: Collection[int]) -> None:
    """Fails in the middle of a trace that it has changed."""
    rewriter = Rewriter(trace)

    def rule(equation: Equation) -> bool:
        if equation.origin in origins and equation.params.get("function") == "max":
            raise KeyError("lost")
        rewriter.define_reshaped(equation.outputs[0], rewriter.renamed(equation))
        return True

    rewriter.run(rule)


def before_all(trace: Trace, origins: Collection[int]) -> None:
    assert not origins, "not ready"


@pytest.mark.parametrize(
    ("rewrite", "homes", "told"),
    [
        (at_the_second, [0, 1], "leaves Relu 'second' to the next provider, .*KeyError: 'lost'"),
        (before_all, [1, 1], "leaves .*AssertionError: not ready"),
    ],
)
def test_what_a_provider_fails_to_rewrite_runs_on_the_next(
    rewrite: Rewrite, homes: list[int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug, "_warned", set())
    monkeypatch.setattr(load(WASM), "rewrite", rewrite)
    made = session()
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with pytest.warns(UserWarning, match=f"{WASM} {told}.*report this"):
        (y,) = made.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    assert made.plans[0].placement == homes


def test_errors_on_purpose_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(trace: Trace, origins: Collection[int]) -> Any:
        raise sardonyx.errors.NotImplemented("no such thing")

    monkeypatch.setattr(load(WASM), "rewrite", refuse)
    with pytest.raises(sardonyx.errors.NotImplemented, match="no such thing"):
        session().run(None, {"x": np.zeros((3, 4), np.float32)})
