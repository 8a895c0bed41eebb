"""Code as Python functions, and segments of launches of them, which threads may share."""

from __future__ import annotations

from collections.abc import Sequence
from operator import length_hint
from time import perf_counter
from typing import Any

import numpy as np

from sardonyx.code.kernel import Kernel, Routine
from sardonyx.common.crew import Crew
from sardonyx.common.termination import poll
from sardonyx.common.trial import Trial
from sardonyx.errors import RuntimeException, SardonyxError
from sardonyx.host.products import shared
from sardonyx.numpy_backend.division import Bound, Run
from sardonyx.numpy_backend.makers import Maker, makers
from sardonyx.numpy_backend.sharing import Part, Walk, stages
from sardonyx.numpy_backend.team import Team
from sardonyx.providers.contract import Address, Executable, SegmentLaunch

SHARED = 1 << 17
"""Bytes that the launches of a segment touch, from which on threads may share it."""
FIRST = 3
"""Runs in which launches are timed before any is divided."""
PRODUCTS = frozenset({"dot_general", "conv_general", "attention", "recurrent"})
"""Routines that multiply matrices."""
FAULTS = (ArithmeticError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What NumPy raises of arrays. Any other error is that of a signal's handler, whose caller expects it as it is."""


class NumpyExecutable(Executable):
    """Code as Python functions that make bound functions."""

    def __init__(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]], team: Team) -> None:
        kernels = [code for code in codes if isinstance(code, Kernel)]
        written = iter(makers(kernels))
        self.makers = [next(written) if isinstance(code, Kernel) else self._bound(code) for code in codes]
        self.segments = segments
        self._multiply = [isinstance(code, Routine) and code.primitive in PRODUCTS for code in codes]
        self._team = team

    def _bound(self, code: Any) -> Maker:
        assert isinstance(code, Routine)
        from sardonyx.numpy_backend.routines import BoundRoutine  # which brings the primitives

        return BoundRoutine(code)

    def bind(self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]) -> Run:
        launches = self.segments[segment]
        calls: list[Bound] = []
        try:
            with np.errstate(all="ignore"):  # what depends on indices alone is computed here
                for launch, addresses, values in zip(launches, buffers, params, strict=True):
                    calls.append(self.makers[launch.code](addresses, values))
        except FAULTS as error:
            raise _failed(launches[len(calls)], error) from error
        multiplies = any(self._multiply[launch.code] for launch in launches)
        if self._team.crew.size > 1 and sum([a.nbytes for line in buffers for a in line]) >= SHARED:
            return _Shared(calls, launches, self._team)
        return _Run(calls, launches, self._team.crew if multiplies else None)


class _Run:
    """A segment: launches one after another, on the thread that calls."""

    def __init__(self, calls: Sequence[Bound], launches: Sequence[SegmentLaunch], crew: Crew | None) -> None:
        self._runs = [call.run for call in calls]
        self._launches = launches
        self._crew = crew

    def __call__(self) -> None:
        if self._crew is None:
            self._do()
        else:
            with shared(self._crew):
                self._do()

    def _do(self) -> None:
        left = iter(self._runs)
        try:
            with np.errstate(all="ignore"):
                for run in left:
                    poll()
                    run()
        except FAULTS as error:
            raise _failed(self._launches[len(self._runs) - length_hint(left) - 1], error) from error


class _Shared(_Run):
    """A segment that threads may share: how, is decided by how long its launches took; whether, by trying."""

    def __init__(self, calls: Sequence[Bound], launches: Sequence[SegmentLaunch], team: Team) -> None:
        super().__init__(calls, launches, team.crew)
        self._calls = list(calls)
        self._team = team
        self._times: list[list[float]] = []
        self._stages: list[list[Part]] = []
        self._trial = Trial()

    def __call__(self) -> None:
        if len(self._times) < FIRST:
            self._watch()
        elif not self._stages:
            super().__call__()
        else:
            way, begun = self._trial.next(), perf_counter()
            with shared(None):
                way = self._team.turn.run(self._together, self._alone) if way else self._alone()
            self._trial.took(way, perf_counter() - begun)

    def _watch(self) -> None:
        """Run with a look at the clock after each launch."""
        times: list[float] = []
        watched = _Run([call._replace(run=_timed(call.run, times)) for call in self._calls], self._launches, self._crew)
        watched()
        self._times.append(times)
        if len(self._times) == FIRST:
            seconds = [min(each) for each in zip(*self._times, strict=True)]
            self._stages = stages(self._calls, seconds, self._team.rooms)
            self._calls = []

    def _alone(self) -> int:
        self._do()
        return 0

    def _together(self) -> int:
        walk = Walk(self._stages)
        try:
            with np.errstate(all="ignore"):
                self._team.crew.join(walk.share)
        except FAULTS as error:
            if walk.failed is None:
                raise
            raise _failed(self._launches[walk.failed], error) from error
        return 1


def _timed(run: Run, times: list[float]) -> Run:
    def timed() -> None:
        begun = perf_counter()
        run()
        times.append(perf_counter() - begun)

    return timed


def _failed(launch: SegmentLaunch, error: Exception) -> SardonyxError:
    """What is said of a launch that failed."""
    if isinstance(error, SardonyxError):
        return error
    return RuntimeException(f"{launch.label}: {type(error).__name__}: {error}")
