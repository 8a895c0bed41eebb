"""Fixtures of the tests of WebAssembly."""

from __future__ import annotations

import pytest


@pytest.fixture
def no_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")


@pytest.fixture(params=[["relaxed-simd", "simd", "threads"], ["simd", "threads"], []], ids="+".join)
def features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """The features that the host seems to have, one step of the ladder after the other."""
    from sardonyx_wasm import provider
    from sardonyx_wasm.hosts import host

    few = frozenset(request.param) & host().features
    monkeypatch.setattr(host(), "features", few)
    monkeypatch.setattr(provider, "_devices", {})
    return few
