"""Models that many tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sardonyx import genai
from tests.genai.sides import ours, theirs
from tests.genai.tiny import Tiny

KINDS = {
    "plain": Tiny(),
    "grouped": Tiny(grouped=True, positions=False, seed=5),
    "together": Tiny(past="past_{}", present="present_{}"),
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of `KINDS`."""
    root = tmp_path_factory.mktemp("tiny")
    return {name: tiny.save(root / name) for name, tiny in KINDS.items()}


@pytest.fixture(scope="session")
def pair(folders: dict[str, Path]) -> Callable[[str], tuple[genai.Model, Any]]:
    """The same model on both sides, ours and theirs, loaded once."""
    loaded: dict[str, tuple[genai.Model, Any]] = {}

    def get(name: str = "plain") -> tuple[genai.Model, Any]:
        if name not in loaded:
            loaded[name] = ours(folders[name]), theirs(folders[name])
        return loaded[name]

    return get
