"""Fixtures of the tests of WebAssembly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def no_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "0")


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Convolutions go the ways of a host whose BLAS does small products in place."""
    from sardonyx_wasm.device import blas
    from sardonyx_wasm.legalization.tiling import fastest

    monkeypatch.setattr(blas, "in_blocks", lambda: True)
    fastest.cache_clear()
    yield
    fastest.cache_clear()


@pytest.fixture(params=[["relaxed-simd", "simd", "threads"], ["simd", "threads"], []], ids="+".join)
def features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> frozenset[str]:
    """The features that the host seems to have, one step of the ladder after the other."""
    from sardonyx_wasm import provider
    from sardonyx_wasm.hosts import host

    few = frozenset(request.param) & host().features
    monkeypatch.setattr(host(), "features", few)
    monkeypatch.setattr(provider, "_devices", {})
    return few
