"""A screen that is not there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def open_display() -> Iterator[str]:
    """The name of an X display of 1160 x 760 pixels, in true colours."""
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
        server.wait(60)
