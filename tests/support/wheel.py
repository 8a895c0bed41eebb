"""The wheel under test, built once per test process from the working tree."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def build_wheel() -> Path:
    """Build the wheel into a temporary folder and return its path.

    Raises:
        RuntimeError: the build failed; the message holds its output.
    """
    folder = tempfile.mkdtemp(prefix="sardonyx-wheel-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, str(ROOT)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
    if done.returncode:
        raise RuntimeError(f"the wheel cannot be built:\n{done.stdout}")
    (wheel,) = Path(folder).glob("*.whl")
    return wheel
