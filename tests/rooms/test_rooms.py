"""Every line of the engine is in a room that says what belongs there, and rooms stand above each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rooms.graph import House, circles

HOUSE = House(Path(__file__).parents[2])
FOLDERS = sorted(
    path.name
    for path in (Path(__file__).parents[2] / "core" / "sardonyx").iterdir()
    if path.is_dir() and not path.name.startswith("__")
)
MODULES_AT_THE_ROOT = 5
"""`__main__`, and what others import by that path."""
WHAT_DOES_NOT = re.compile(r"\b(no|not|nor|none|nothing|never|neither|without)\b")


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_room_says_what_belongs_there(folder: str) -> None:
    """In one sentence, which says what does not, too."""
    sentence = HOUSE.sentence(f"sardonyx.{folder}")
    assert sentence.endswith("."), sentence
    assert ". " not in sentence, sentence
    assert WHAT_DOES_NOT.search(sentence), sentence


def test_few_modules_are_in_no_room() -> None:
    assert len(HOUSE.loose) <= MODULES_AT_THE_ROOT, HOUSE.loose


def test_no_rooms_import_each_other() -> None:
    assert circles(HOUSE.rooms) == []


@pytest.mark.parametrize("room", ["api", "cli", "genai", "quantization", "training", "web"])
def test_modules_of_a_room_do_not_import_each_other_in_circles(room: str) -> None:
    prefix = f"sardonyx.{room}."
    assert [circle for circle in circles(HOUSE.modules) if any(each.startswith(prefix) for each in circle)] == []
