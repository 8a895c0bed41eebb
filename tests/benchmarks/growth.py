"""A chat whose memory grows by a token with every run: how often that lays memory out anew, and what binding costs."""

from __future__ import annotations

import statistics
import time
from typing import Any
from unittest import mock

import numpy as np

from sardonyx.plans.epochs import Layout
from sardonyx.providers import registry
from sardonyx.runtime.frames import Frame
from tests import models
from tests.benchmarks.fresh import session
from tests.models.chat import ANSWER, PROMPT

MODEL = "smollm2-int4-contrib-decode"
Figures = dict[str, Any]


class Watched:
    """Counts and times what a provider does, until `undo`."""

    def __init__(self, provider: str) -> None:
        self.laid = self.allocated = 0
        self.bound: list[float] = []
        device = type(registry.load(provider).device({}))
        bind = Frame.bind

        def timed(*arguments: Any) -> None:
            start = time.perf_counter()
            bind(*arguments)
            self.bound.append(1e3 * (time.perf_counter() - start))

        patches = [
            mock.patch.object(Frame, "bind", timed),
            mock.patch.object(Layout, "place", self._counted("laid", Layout.place)),
            mock.patch.object(device, "allocate", self._counted("allocated", device.allocate)),
        ]
        for patch in patches:
            patch.start()
        self._patches = patches

    def _counted(self, what: str, function: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            setattr(self, what, getattr(self, what) + 1)
            return function(*arguments)

        return counted

    def undo(self) -> None:
        for patch in self._patches:
            patch.stop()


def measure(provider: str, side: str, steps: int) -> Figures:
    """Of so many runs with one token each: how many lay memory out or allocate, and milliseconds, medians."""
    chat = session(side, models.path(MODEL))
    names = [output.name for output in chat.get_outputs()]
    memory = {name: array[:, :, :0] for name, array in models.inputs(MODEL).items() if name.startswith("past")}
    tokens = np.array([PROMPT])
    laid = allocated = 0
    ran: list[float] = []
    bound: dict[bool, list[float]] = {True: [], False: []}
    watched = Watched(provider)
    try:
        for step in range(-2, steps):  # the prompt and the first token are not counted
            length = next(iter(memory.values())).shape[2] + tokens.shape[1]
            before = watched.laid, watched.allocated
            watched.bound.clear()
            start = time.perf_counter()
            feeds = {"input_ids": tokens, "attention_mask": np.ones((1, length), np.int64), **memory}
            found = dict(zip(names, chat.run(None, feeds), strict=True))
            memory = {name: found[name.replace("past_key_values", "present")] for name in memory}
            tokens = np.array([[ANSWER[step % len(ANSWER)]]])
            if step >= 0:
                ran.append(1e3 * (time.perf_counter() - start))
                laid += watched.laid > before[0]
                bound[watched.laid > before[0]].append(sum(watched.bound))
                allocated += watched.allocated > before[1]
    finally:
        watched.undo()
    return {
        "model": MODEL,
        "provider": provider,
        "steps": steps,
        "laid_out": laid,
        "allocated": allocated,
        "bind_ms": statistics.median(bound[False]) if bound[False] else 0.0,
        "laid_bind_ms": statistics.median(bound[True]) if bound[True] else 0.0,
        "run_ms": statistics.median(ran),
        "plans": chat.compiled,
    }


def rendered(figures: Figures) -> str:
    return (
        "{model} on {provider}: {laid_out} of {steps} steps lay memory out anew, {allocated} allocate; those take "
        "{laid_bind_ms:.2f} ms to bind, the others {bind_ms:.2f} ms, of {run_ms:.1f} ms; {plans} plans made"
    ).format(**figures)
