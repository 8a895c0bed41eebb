"""A screen that is not there, and what the program is given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from tests.models import path
from tests.support import require
from tests.support.display import open_display

from .seen import FILES, LINES

collect_ignore = ["drive.py"]  # it imports the example, by names that only its own process knows


@pytest.fixture(scope="package")
def display() -> Iterator[str]:
    """The name of an X display of 1160 x 760 pixels, in true colours."""
    require("desktop")
    with open_display() as name:
        yield name


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of text."""
    folder = tmp_path_factory.mktemp("models")
    for id, name in FILES.items():
        (folder / name).symlink_to(path(id))
    return folder


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture of two lines."""
    picture = Image.new("RGB", (900, 420), "#f4ecd8")
    draw = ImageDraw.Draw(picture)
    draw.text((60, 60), LINES[0], fill="#203050", font=ImageFont.load_default(64))
    draw.text((64, 250), LINES[1], fill="#7a2e1d", font=ImageFont.load_default(40))
    target = tmp_path_factory.mktemp("page") / "page.png"
    picture.save(target)
    return target
