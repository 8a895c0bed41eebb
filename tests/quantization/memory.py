"""Peak memory and time of calibrating ResNet-50, in processes of their own.

    python -m tests.quantization.memory [--images 12] [--tools sardonyx,onnxruntime] [--methods run,MinMax,Percentile]

The peak is VmHWM of `/proc/self/status`: `ru_maxrss` begins with that of the process before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.models import catalogue

MODEL = "light-resnet50"
METHODS = ("run", "MinMax", "Percentile")
TOOLS = ("sardonyx", "onnxruntime")


class Images:
    """Random pictures, made when they are asked for."""

    def __init__(self, count: int) -> None:
        self.left: Iterator[int] = iter(range(count))

    def get_next(self) -> dict[str, Any] | None:
        seed = next(self.left, None)
        (name,) = catalogue.MODELS[MODEL].inputs
        return None if seed is None else {name: np.random.default_rng(seed).random((1, 3, 224, 224), np.float32)}


def measure(tool: str, method: str, count: int) -> dict[str, float]:
    """Peak memory in 10^6 bytes, and seconds, of a process that calibrates."""
    command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, tool, method, str(count)]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout.splitlines()[-1]
    found: dict[str, float] = json.loads(text)
    return found


def work(tool: str, method: str, count: int) -> dict[str, float]:
    """Calibrate here, or run the model on these pictures."""
    path, images = catalogue.path(MODEL), Images(count)
    started = time.perf_counter()
    if method == "run":
        runtime: Any = __import__(tool)
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        while (feeds := images.get_next()) is not None:
            session.run(None, feeds)
    else:
        from importlib import import_module

        calibrate = import_module(f"{tool}.quantization.calibrate")
        with tempfile.TemporaryDirectory() as folder:
            calibrator = calibrate.create_calibrator(
                path,
                augmented_model_path=str(Path(folder, "augmented.onnx")),
                calibrate_method=calibrate.CalibrationMethod[method],
            )
            calibrator.collect_data(images)
            calibrator.compute_data()
    seconds = time.perf_counter() - started
    (peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return {"megabytes": int(peak) * 1024 / 1e6, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def listed(text: str) -> list[str]:
        return text.split(",")

    parser.add_argument("--images", type=int, default=12, metavar="N", help="pictures (default %(default)s)")
    parser.add_argument("--tools", type=listed, default=[*TOOLS], metavar="NAME,...")
    parser.add_argument("--methods", type=listed, default=[*METHODS], metavar="NAME,...")
    arguments = parser.parse_args()
    for method in arguments.methods:
        for tool in arguments.tools:
            found = measure(tool, method, arguments.images)
            print(f"{method:12}{tool:12}{found['megabytes']:8.0f} MB{found['seconds']:8.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in TOOLS:
        print(json.dumps(work(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    else:
        main()
