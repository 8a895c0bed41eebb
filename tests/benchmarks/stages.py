"""Where a first answer's time goes: samples of a fresh process, by what the innermost function at work is for.

A timer interrupts the process twice a millisecond. What passed since the last sample goes to the stage of the stack
that is found, so that a long call of native code counts for who called it.
"""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERVAL = 0.0005
STAGES = {
    "import": ("importlib",),
    "read": ("sardonyx.model",),
    "upgrade": ("sardonyx.passes.upgrade", "sardonyx.passes.infer"),
    "optimize": ("sardonyx.passes",),
    "trace": ("sardonyx.ops",),
    "legalize": ("sardonyx.compiler.partition", "sardonyx_wasm.legalization", "sardonyx_webgpu.legalization"),
    "fuse": ("sardonyx.compiler.fuse", "sardonyx.compiler.rows"),
    "lower": ("sardonyx.compiler.lower", "sardonyx.compiler.finish", "sardonyx.compiler.routines"),
    "schedule": ("sardonyx.compiler", "sardonyx.plans"),
    "print": (
        "sardonyx.numpy_backend.codegen",
        "sardonyx.numpy_backend.makers",
        "sardonyx_wasm.generator",
        "sardonyx_wasm.drivers",
        "sardonyx_wasm.kernels",
        "sardonyx_wasm.code",
        "sardonyx_wasm.assembler",
        "sardonyx_webgpu.shaders",
        "sardonyx_webgpu.wgsl",
    ),
    "host": ("sardonyx_wasm.hosts.capi", "sardonyx_wasm.hosts.wasmtime", "sardonyx_webgpu.pipelines"),
    "weights": ("sardonyx.runtime.weights",),
    "run": ("sardonyx.runtime", "sardonyx_wasm", "sardonyx_webgpu", "sardonyx.numpy_backend"),
}
"""The modules of each stage. The longest name that a module's begins with counts; others are their caller's."""


def stage(frame: FrameType | None) -> str:
    """The stage of what is at work, or "rest"."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        fits = [(len(name), each) for each, names in STAGES.items() for name in names if module.startswith(name)]
        if fits:
            return max(fits)[1]
        frame = frame.f_back
    return "rest"


@contextmanager
def sampled() -> Iterator[defaultdict[str, float]]:
    """Milliseconds of each stage, of what this thread does in the block."""
    found: defaultdict[str, float] = defaultdict(float)
    last = time.perf_counter()

    def sample(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.perf_counter()
        found[stage(frame)] += 1e3 * (now - last)
        last = now

    before = signal.signal(signal.SIGALRM, sample)
    signal.setitimer(signal.ITIMER_REAL, INTERVAL, INTERVAL)
    try:
        yield found
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
