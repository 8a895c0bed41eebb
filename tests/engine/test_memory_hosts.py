"""What is known of memory where the system tells less."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from sardonyx.common import memory


@pytest.mark.parametrize("found", [None, ModuleType("resource")], ids=["absent", "empty, as in JupyterLite"])
def test_a_system_without_limits_has_none(found: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", found)
    memory.available.cache_clear()
    assert memory.available() > 0
    assert memory.peak() == 0
    memory.available.cache_clear()
