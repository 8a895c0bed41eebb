"""Calls of every operator that hypothesis draws within its schema: all providers give what the judges give."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from sardonyx import InferenceSession
from tests.engine.providers import NUMPY, WASM, WEBGPU, require_provider

from .judges import check
from .strategies import DRAWERS, Call, calls

careful = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
LEAST = 0.4
"""The part of an operator's calls that a judge has to take: of the others all judges lack the type or the form, or are
known to be wrong (`faults`). It is about a half for few operators, and nearly all for most."""
FEW = {
    "CastMap": "onnxruntime, which alone has it, takes no keys of strings and fills up wrongly",
    "FastGelu": "onnxruntime, which alone has it, loses digits where tanh is nearly -1",
    "Loop": "the evaluator gives scalars an axis, onnxruntime heeds conditions that ONNX says are ignored",
    "Shrink": "both take integers for floats",
}
"""Operators of which it is a fifth, and why."""
KEYS = [pytest.param(*key, id=".".join(filter(None, key))) for key in sorted(DRAWERS)]


def on(provider: str) -> Any:
    """Runs calls, those of equal models in one session: what it compiled for some sizes must not be used for others."""
    session = lru_cache(None)(lambda model: InferenceSession(model, providers=[provider]))

    def run(call: Call) -> list[Any]:
        return list(session(call.model().SerializeToString()).run(None, call.feeds()))

    return run


def judge(domain: str, name: str, provider: str, examples: int) -> None:
    """Checks calls of an operator on a provider, of which enough have judges."""
    require_provider(provider)
    judges: list[int] = []
    provided = on(provider)

    @settings(careful, max_examples=examples)
    @given(calls(domain, name))
    def run(call: Call) -> None:
        judges.append(check(call, provided))

    run()
    judged = sum(map(bool, judges))
    assert judged >= (LEAST / 2 if name in FEW else LEAST) * len(judges), f"{judged} of {len(judges)} calls are judged"


@pytest.mark.parametrize(("domain", "name"), KEYS)
def test_calls(domain: str, name: str) -> None:
    judge(domain, name, NUMPY, 40)


@pytest.mark.parametrize(("domain", "name"), KEYS[::10])
def test_calls_in_wasm(domain: str, name: str) -> None:
    judge(domain, name, WASM, 20)


@pytest.mark.parametrize(("domain", "name"), KEYS[5::10])
def test_calls_on_a_gpu(domain: str, name: str) -> None:
    judge(domain, name, WEBGPU, 20)


@pytest.mark.slow
@pytest.mark.parametrize("provider", [WASM, WEBGPU])
@pytest.mark.parametrize(("domain", "name"), KEYS)
def test_calls_on_all(domain: str, name: str, provider: str) -> None:
    judge(domain, name, provider, 40)


@pytest.mark.nightly
@pytest.mark.parametrize("provider", [NUMPY, WASM, WEBGPU])
@pytest.mark.parametrize(("domain", "name"), KEYS)
def test_many_calls(domain: str, name: str, provider: str) -> None:
    judge(domain, name, provider, 100)
