"""Only tests are collected here: whatever else is in this folder needs PyTorch to be imported."""

from pathlib import Path

import pytest

from tests.support import require

collect_ignore = [str(file) for file in Path(__file__).parent.rglob("*.py") if not file.name.startswith("test_")]


@pytest.fixture(autouse=True)
def _torch_is_there() -> None:
    require("torch")
