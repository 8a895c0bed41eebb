"""Tests that ask for a provider get it, or are skipped with the reason."""

from __future__ import annotations

import pytest

from tests.engine.providers import require_provider


@pytest.fixture(autouse=True)
def _provider_is_there(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params.get("provider") if hasattr(request.node, "callspec") else None
    if name:
        require_provider(name)
