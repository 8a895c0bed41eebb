"""What is known of memory where the system tells less."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

from sardonyx.common import memory


@pytest.mark.parametrize("found", [None, ModuleType("resource")], ids=["absent", "empty, as in JupyterLite"])
def test_a_system_without_limits_has_none(found: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", found)
    monkeypatch.setattr(sys, "platform", "emscripten")
    assert memory.peak() == 0
    memory.available.cache_clear()
    assert memory.available() > 0
    memory.available.cache_clear()


def test_what_a_process_was_before_does_not_count() -> None:
    most = np.ones(1 << 28, np.uint8).nbytes
    assert memory.peak() > most
    code = "from sardonyx.common import memory; print(memory.peak())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=500)
    assert 0 < int(done.stdout) < most
