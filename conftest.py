"""What holds for every test, those in docstrings included: it compiles what it runs, and leaves no operator behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sardonyx import ops
from sardonyx.ops import REGISTRY
from sardonyx.plans import plan_cache

NIGHTLY_SECONDS = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `nightly` may take longer than pyproject.toml's limit, and ends all the same."""
    for item in items:
        if item.get_closest_marker("nightly") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(NIGHTLY_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def no_plans_of_earlier_runs() -> Iterator[None]:
    """Every test compiles: what an earlier run left in the cache would hide its failures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_cache, "key", lambda *_: None)
        yield


@pytest.fixture(autouse=True)
def own_operators() -> Iterator[None]:
    """Operators that a test declares are gone after it: while there are such, no session keeps its plans."""
    before = dict(REGISTRY)
    yield
    for key, operator in list(REGISTRY.items()):
        if before.get(key) is not operator and ops.is_foreign(operator):
            del REGISTRY[key]
            if key in before:
                REGISTRY[key] = before[key]
