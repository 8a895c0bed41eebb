"""What a session spends its time on, as a Chrome trace, which ui.perfetto.dev and chrome://tracing show.

The format is the array of Google's "Trace Event Format": complete events (`"ph": "X"`), times in microseconds; events
that lie within another one of the same thread are drawn beneath it. Names and arguments are onnxruntime's where it has
them: of category `Node` are launches, of `Session` the steps of a session and its runs (`model_run`).
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod
from typing import Any, Protocol

from sardonyx.common import dtypes
from sardonyx.common.forks import Whole
from sardonyx.plans.plan import Launch, Plan
from sardonyx.sizes.expression import evaluate

NODE, SESSION = "Node", "Session"
KERNEL = "_kernel_time"
"""How the names of launches end."""


class Profiler:
    """Collects spans of time from any number of threads.

    >>> profiler = Profiler("a model")
    >>> with profiler.span("Relu_kernel_time", NODE, provider="NumpyExecutionProvider"):
    ...     pass
    >>> [event["name"] for event in profiler.trace() if event["ph"] == "X"]
    ['Relu_kernel_time']
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = time.perf_counter_ns()
        self._events: list[dict[str, Any]] = []
        self._threads: dict[int, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def span(self, name: str, category: str, **details: Any) -> Iterator[dict[str, Any]]:
        """Record how long the block takes. What it adds to the dictionary that it is given is shown with the span."""
        start = time.perf_counter_ns()
        try:
            yield details
        finally:
            end = time.perf_counter_ns()
            thread = threading.get_ident()
            with Whole(), self._lock:
                number = self._threads.setdefault(thread, len(self._threads) + 1)
                self._events.append(
                    {
                        "name": name,
                        "cat": category,
                        "ph": "X",
                        "pid": os.getpid(),
                        "tid": number,
                        "ts": (start - self.start) / 1000,
                        "dur": (end - start) / 1000,
                        "args": details,
                    }
                )

    def trace(self) -> list[dict[str, Any]]:
        """Everything so far, as the JSON array that a trace file holds."""
        process = {"ph": "M", "cat": "__metadata", "pid": os.getpid()}
        with Whole(), self._lock:
            names = [{"name": "process_name", "args": {"name": f"sardonyx: {self.name}"}, "tid": 0, **process}]
            names += [
                {"name": "thread_name", "args": {"name": f"thread {number}"}, "tid": number, **process}
                for number in self._threads.values()
            ]
            events = sorted(self._events, key=lambda event: (event["ts"], -event["dur"]))
        return names + events

    def totals(self, category: str = NODE) -> dict[str, float]:
        """Milliseconds of all spans of a category by name, the longest first."""
        sums: dict[str, float] = {}
        with Whole(), self._lock:
            for event in self._events:
                if event["cat"] == category:
                    sums[event["name"]] = sums.get(event["name"], 0) + milliseconds(event)
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as a JSON file."""
        import json  # which a run without a profile does without

        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.trace(), file)


def milliseconds(event: Mapping[str, Any]) -> float:
    """How long an event took: on the device, where that has a clock."""
    return float(event["args"].get("device", event["dur"] / 1000))


class Settings(Protocol):
    """What a session's options say of profiles."""

    enable_profiling: bool
    logid: str
    profile_file_prefix: str


class Profiling:
    """A session's profile: kept where the options ask for it, written when it ends, or with the session."""

    def __init__(self, options: Settings) -> None:
        self.profiler = Profiler(options.logid or "a session") if options.enable_profiling else None
        self.start = self.profiler.start if self.profiler else 0
        begun = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{time.time_ns() // 1000 % 1000000:06}"
        self._path = f"{options.profile_file_prefix}_{begun}.json"
        self._finish = weakref.finalize(self, self.profiler.save, self._path) if self.profiler else None

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Record a step of the session, if this is asked for."""
        return self.profiler.span(name, SESSION) if self.profiler else nullcontext()

    def end(self) -> str:
        """Write the trace; the name of its file, or "" where there is none."""
        if self._finish is None:
            return ""
        self._finish()
        return self._path


def describe(plan: Plan, launch: Launch, symbols: Mapping[str, int]) -> dict[str, Any]:
    """What a trace tells of a launch: operators inside it, provider, shapes, and the bytes that it reads and writes."""
    code = plan.codes[launch.code]
    reads = len(code["reads"])
    shapes, sizes = [], []
    for number in launch.buffers:
        buffer = plan.buffers[number]
        dtype = dtypes.by_name(buffer.dtype)
        try:
            shape = [evaluate(size, symbols) for size in buffer.shape]
        except KeyError:  # the run finds the size later: there is room for all that it may be
            shape = [evaluate(buffer.elements, symbols)]
        shapes.append({dtype.onnx_name: shape})
        sizes.append(prod(shape) * dtype.itemsize)
    labels = [plan.nodes[k] for k in launch.origins if 0 <= k < len(plan.nodes)]
    return {
        "op_name": "+".join(dict.fromkeys(label.partition(" ")[0] for label in labels)),
        "operators": labels,
        "provider": plan.devices[launch.device],
        "input_type_shape": shapes[:reads],
        "output_type_shape": shapes[reads:],
        "bytes": sum(sizes),
    }
