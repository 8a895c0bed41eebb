"""Run a package's program on one side, or on all, and print what it answered and how long it took."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.packages.installed import modules
from tests.packages.programs import PROGRAMS
from tests.packages.standing_in import stand_in

SIDES = {
    "onnxruntime": None,
    "CPU": None,
    "NumPy": "NumpyExecutionProvider",
    "WebGPU": "WebGpuExecutionProvider",
}
"""What `CPUExecutionProvider`, which packages ask for, is to stand for; None where it stays what it is."""

CPU = "CPUExecutionProvider"
HERE = "here"
"""The last argument where the program runs in this process."""

ROOT = Path(__file__).parents[2]


def report(name: str, side: str) -> dict[str, Any]:
    """What `answered` returns for a package on a side, in a process of its own.

    Raises:
        subprocess.CalledProcessError: pip failed, or the process did; `stderr` says why.
    """
    paths = [str(modules(name)), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "tests.packages", name, side, HERE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=500)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def answered(name: str, side: str) -> dict[str, Any]:
    """The answer of a package, the seconds of the first and of the second one, and the providers that gave it."""
    if side != "onnxruntime":
        stand_in(SIDES[side])
    import onnxruntime

    start = time.perf_counter()
    answer = PROGRAMS[name]()
    said = answer()
    first = time.perf_counter() - start
    start = time.perf_counter()
    answer()
    seconds = [round(first, 3), round(time.perf_counter() - start, 3)]
    sessions = [each for each in gc.get_objects() if type(each) is onnxruntime.InferenceSession]
    providers = sorted({next((name for name in each.get_providers() if name != CPU), CPU) for each in sessions})
    return {"answer": said, "seconds": seconds, "providers": providers}


def main() -> None:
    name, *sides = sys.argv[1:]
    if HERE in sides:
        print(json.dumps(answered(name, sides[0])))
        return
    for side in sides or SIDES:
        print(side, json.dumps(report(name, side)), flush=True)


if __name__ == "__main__":
    main()
