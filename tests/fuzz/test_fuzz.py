"""Mutated models: each gives a result or an error of this package, within a second and 200 MB."""

import pytest

from tests.fuzz.runner import run_all


def check(first: int, count: int, kind: str, provider: str = "NumpyExecutionProvider") -> None:
    unsound = [outcome for outcome in run_all(first, count, kind, provider) if not outcome.is_sound]
    assert not unsound, "\n".join(str(outcome)[:500] for outcome in unsound)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_operators(part):
    check(part * 500, 500, "node")


@pytest.mark.slow
def test_real_models():
    check(0, 500, "real")


@pytest.mark.slow
def test_wasm():
    pytest.importorskip("wasmtime", reason="pip install wasmtime")
    check(0, 100, "node", "WasmExecutionProvider")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(1, 7))
def test_more_operators(part):
    check(part * 2500, 2500, "node")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(1, 3))
def test_more_real_models(part):
    check(part * 2500, 2500, "real")
