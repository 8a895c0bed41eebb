"""Memory that runs out: after a run that failed the next one is right, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sardonyx import InferenceSession
from sardonyx.errors import SardonyxError
from sardonyx.providers import registry
from tests.engine.graphs import CHAIN, CONTROL_FLOW, model
from tests.engine.providers import PROVIDERS, require_provider

Feeds = dict[str, Any]
WEIGHTS = """g (float[N, 8] x) => (float[N, 8] y) {
    one = Constant <value_ints = [8, 8]> ()
    w = ConstantOfShape <value = float[1] {0.5}> (one)
    m = MatMul (x, w)
    y = Softmax (m)
}"""


def rows(count: int, width: int = 4) -> np.ndarray:
    return np.linspace(-2, 2, width * count, dtype=np.float32).reshape(count, width)


def flow(count: int) -> Feeds:
    return {"x": rows(count), "n": np.array(3), "c": np.array(count > 2)}


CASES: dict[str, tuple[str, list[Feeds]]] = {
    "sizes that grow": (CHAIN, [{"x": rows(count)} for count in (300, 2, 400)]),
    "control flow": (CONTROL_FLOW, [flow(count) for count in (40, 2, 50)]),
    "weights": (WEIGHTS, [{"x": rows(count, 8)} for count in (5, 2, 90)]),
}


class Scarce:
    """Lets so many of a device's allocations go well, and counts what is given back."""

    def __init__(self, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: float = np.inf
        self.held: dict[int, int] = {}
        allocate, free = device.allocate, device.free

        def scarce(nbytes: int) -> Any:
            self.left -= 1
            if self.left < 0:
                raise MemoryError("none of it")
            chunk = allocate(nbytes)
            self.held[id(chunk)] = nbytes
            return chunk

        def freed(chunk: Any) -> None:
            self.held.pop(id(chunk), None)
            free(chunk)

        monkeypatch.setattr(device, "allocate", scarce)
        monkeypatch.setattr(device, "free", freed)


@pytest.fixture(params=PROVIDERS)
def scarce(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Scarce]:
    require_provider(request.param)
    return request.param, Scarce(registry.load(request.param).device({}), monkeypatch)


def attempt(run: Callable[[], list[Any]]) -> list[Any] | None:
    try:
        return run()
    except SardonyxError:
        return None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("warm", [False, True], ids=["new", "warm"])
def test_every_allocation_fails_once(name: str, warm: bool, scarce: tuple[str, Scarce]) -> None:
    provider, memory = scarce
    text, runs = CASES[name]
    whole = InferenceSession(model(text), providers=[provider])
    wanted = [whole.run(None, feeds) for feeds in runs]
    refused = 0
    for number in range(60):
        memory.left = np.inf
        session = InferenceSession(model(text), providers=[provider])
        if warm:
            session.run(None, runs[-2])
        memory.left = number
        first = attempt(lambda session=session: session.run(None, runs[0]))  # type: ignore[misc]
        is_failing = memory.left < 0
        memory.left = np.inf
        refused += first is None
        later = [session.run(None, feeds) for feeds in runs]
        for found, right in zip([first or wanted[0], *later], [wanted[0], *wanted], strict=True):
            for a, b in zip(found, right, strict=True):
                np.testing.assert_array_equal(a, b)
        session.shrink()
        assert sum(report.arena for report in session.memory()) == 0
        if not is_failing:
            break
    assert not is_failing
    assert warm or refused


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_fails_keeps_no_more_than_one_that_does_not(name: str, scarce: tuple[str, Scarce]) -> None:
    provider, memory = scarce
    text, runs = CASES[name]
    session = InferenceSession(model(text), providers=[provider])
    session.run(None, runs[0])
    session.shrink()
    before = dict(memory.held)
    for number in range(8):
        memory.left = number
        attempt(lambda: session.run(None, runs[0]))
        memory.left = np.inf
        session.shrink()
        assert memory.held == before
