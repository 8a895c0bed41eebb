"""A screen that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.support import require

collect_ignore = ["drive.py"]  # it imports the example, by names that only its own process knows


@pytest.fixture(scope="package")
def display() -> Iterator[str]:
    """The name of an X display of 1160 x 760 pixels, in true colours."""
    require("desktop")
    reading, writing = os.pipe()
    command = [shutil.which("Xvfb") or "Xvfb", "-displayfd", str(writing), "-screen", "0", "1160x760x24"]
    server = subprocess.Popen([*command, "-nolisten", "tcp"], pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as told:
        number = told.readline().strip()
    try:
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()
