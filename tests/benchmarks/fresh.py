"""A function in a Python process of its own, whose BLAS has one thread, and the four sides that benchmarks compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ONNXRUNTIME = "onnxruntime"
PROVIDERS = ("NumPy", "WASM", "WebGPU")
SIDES = {
    ONNXRUNTIME: ("onnxruntime", "CPUExecutionProvider"),
    "NumPy": ("sardonyx", "NumpyExecutionProvider"),
    "WASM": ("sardonyx", "WasmExecutionProvider"),
    "WebGPU": ("sardonyx", "WebGpuExecutionProvider"),
}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "LP_NUM_THREADS": "1"}
"""LP is llvmpipe, a software GPU."""
COLD = {"SARDONYX_CACHE": "0", "MESA_SHADER_CACHE_DISABLE": "true"}
"""Nothing that an earlier process compiled."""

ROOT = Path(__file__).parents[2]


def call(
    module: str, function: str, *arguments: Any, limit: float | None = None, environment: Mapping[str, str] = COLD
) -> Any:
    """Return `module.function(*arguments)`, called in a fresh process; arguments and result travel as JSON.

    Raises:
        TimeoutError: it took longer than `limit` seconds.
        RuntimeError: it raised; the message is the last line of its complaint.
    """
    command = [sys.executable, "-m", __spec__.name, module, function, json.dumps(arguments)]
    everything = {**os.environ, **ONE_THREAD, **environment}
    everything.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=everything, cwd=ROOT)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"no answer in {limit:g} s") from None
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def session(side: str, path: str | Path, threads: int = 1) -> Any:
    """Return a session of so many threads: the sides have the same interface.

    Raises:
        RuntimeError: the side's provider does not work here.
    """
    library, provider = SIDES[side]
    module = import_module(library)
    options = module.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    made = module.InferenceSession(str(path), options, providers=[provider])
    if provider not in made.get_providers():
        raise RuntimeError(f"{provider} does not work on this machine")
    return made


def load(side: str) -> None:
    """Import the library of `side`, which no benchmark but import_time counts."""
    getattr(import_module(SIDES[side][0]), "InferenceSession")  # noqa: B009  # sardonyx imports it when asked


def quiet() -> None:
    """Keep Vulkan's drivers from complaining about the environment."""
    from tests.support.needs import quieten_vulkan

    quieten_vulkan()


if __name__ == "__main__":
    quiet()
    print(json.dumps(getattr(import_module(sys.argv[1]), sys.argv[2])(*json.loads(sys.argv[3]))))
