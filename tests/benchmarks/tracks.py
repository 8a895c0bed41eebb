"""What the threads of a run do one beside the other: calls of the module, and products of the host between them.

A `Recorder` stands around the functions that a device finds in its modules, so a run that nobody records costs what it
did. A step is what lies between two products: launches of the module, among them waits for other threads, and then the
parts of the product, which are NumPy's, and Python's. Threads that wait inside of the module look as if they worked:
that they do shows where a step takes each of them longer than its part of what it takes one thread.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sardonyx.providers.contract import Device
from sardonyx_wasm.device import WasmDevice

_PRODUCT = (1 << 32) - 1


class Call(NamedTuple):
    """A call of the module: seconds when it began and ended, and what it asked the host to do, below 0 for nothing."""

    thread: int
    threads: int
    begun: float
    ended: float
    task: int


class Span(NamedTuple):
    """What a thread did: a call of the module, or a part of the product of a step."""

    thread: int
    step: int
    part: int
    begun: float
    ended: float

    @property
    def is_product(self) -> bool:
        return self.part >= 0


class Recorder:
    """Keeps the calls of modules that devices load while it is `on` them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    @contextmanager
    def on(self, device: Device) -> Iterator[None]:
        """Record calls of what the WASM provider's device loads in the block, then and later."""
        assert isinstance(device, WasmDevice)
        module = device._module
        device._module = lambda *what: _Recorded(module(*what), self)  # type: ignore[method-assign]
        try:
            yield
        finally:
            del device._module

    def run(self, run: Callable[[], Any]) -> list[Call]:
        """Return the calls of a run."""
        self.calls.clear()
        run()
        return [*self.calls]

    def around(self, function: Callable[..., int]) -> Callable[..., int]:
        """Return a function of a module that is recorded."""

        def recorded(words: int, thread: int, threads: int) -> int:
            begun = time.perf_counter()
            task = function(words, thread, threads)
            self.calls.append(Call(thread, threads, begun, time.perf_counter(), task))
            return task

        return recorded


class _Recorded:
    """A module whose drivers are recorded."""

    def __init__(self, module: Any, recorder: Recorder) -> None:
        self._module, self._recorder = module, recorder

    def function(self, name: str) -> Callable[..., Any]:
        found = self._module.function(name)
        return self._recorder.around(found) if name in ("run", "walk") else found


def spans(calls: Sequence[Call]) -> list[Span]:
    """Return what each thread did, in seconds since the first call began: its calls and what was between them.

    >>> spans([Call(0, 1, 5.0, 6.0, (2 << 32) + 7), Call(0, 1, 8.0, 9.0, -2)])
    [Span(thread=0, step=7, part=-1, begun=0.0, ended=1.0), Span(thread=0, step=7, part=2, begun=1.0, ended=3.0), \
Span(thread=0, step=8, part=-1, begun=3.0, ended=4.0)]
    """
    start = min((call.begun for call in calls), default=0.0)
    tracks: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        tracks[call.thread].append(call)
    found = []
    for thread, track in sorted(tracks.items()):
        step = 0
        for call, following in zip(track, [*track[1:], None], strict=True):
            step = step + 1 if call.task < 0 else call.task & _PRODUCT
            found.append(Span(thread, step, -1, call.begun - start, call.ended - start))
            if call.task >= 0 and following is not None:
                found.append(Span(thread, step, call.task >> 32, call.ended - start, following.begun - start))
    return found


def by_step(found: Sequence[Span]) -> dict[int, dict[int, float]]:
    """Return the seconds of each step on each thread."""
    steps: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for span in found:
        steps[span.step][span.thread] += span.ended - span.begun
    return {step: dict(threads) for step, threads in sorted(steps.items())}


def write(path: Path, found: Sequence[Span], names: Mapping[int, str]) -> None:
    """Write a run in Chrome's trace event format (chrome://tracing, Perfetto), a track for each thread."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": thread, "name": "thread_name", "args": {"name": f"thread {thread}"}}
        for thread in sorted({span.thread for span in found})
    ]
    for span in found:
        name = names.get(span.step, f"step {span.step}") if span.is_product else "module"
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": span.thread,
                "name": name,
                "ts": 1e6 * span.begun,
                "dur": 1e6 * (span.ended - span.begun),
                "args": {"step": span.step} | ({"part": span.part} if span.is_product else {}),
            }
        )
    path.write_text(json.dumps({"traceEvents": events}))
