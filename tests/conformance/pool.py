"""Cases in processes of their own, each with a time-out: neither a hang nor a crash stops the others."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait

from tests.conformance.cases import Case, Outcome, run_case

SECONDS = {"real": 120.0}
"""Time-outs by kind of case; for others it is `QUICK`."""
QUICK = 20.0

# The cases take seconds to make, so workers inherit them. This module is for processes that have no threads yet.
_fork = multiprocessing.get_context("fork")


class _Worker:
    def __init__(self, cases: Sequence[Case], provider: str, unknown_sizes: bool) -> None:
        self.pipe, other = _fork.Pipe()
        self.process = _fork.Process(target=_work, args=(other, cases, provider, unknown_sizes), daemon=True)
        self.process.start()
        other.close()
        self.number = -1
        self.deadline = 0.0

    def begin(self, number: int, seconds: float) -> None:
        self.number = number
        self.deadline = time.monotonic() + seconds
        self.pipe.send(number)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(pipe: Connection, cases: Sequence[Case], provider: str, unknown_sizes: bool) -> None:
    warnings.simplefilter("ignore")
    while True:
        pipe.send(run_case(cases[pipe.recv()], provider, unknown_sizes))


def run_all(
    cases: Sequence[Case], provider: str, jobs: int, unknown_sizes: bool = False
) -> Iterator[tuple[Case, Outcome]]:
    """The outcome of every case, in the order in which they finish."""
    workers: list[_Worker] = []
    waiting = list(range(len(cases)))[::-1]
    try:
        for _ in range(min(jobs, len(cases))):
            workers.append(_Worker(cases, provider, unknown_sizes))
            _next(workers[-1], waiting, cases)
        while workers:
            now = time.monotonic()
            ready = wait([w.pipe for w in workers], max(0.0, min(w.deadline for w in workers) - now))
            for k, worker in enumerate(list(workers)):
                late = worker.pipe not in ready and time.monotonic() > worker.deadline
                if worker.pipe not in ready and not late:
                    continue
                outcome = Outcome("error", "TimeoutError: it takes too long") if late else _receive(worker)
                yield cases[worker.number], outcome
                if not worker.process.is_alive() or late or outcome.detail == DIED:
                    worker.stop()
                    worker = workers[k] = _Worker(cases, provider, unknown_sizes)
                _next(worker, waiting, cases)
            for worker in [w for w in workers if w.number < 0]:
                worker.stop()
                workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()


DIED = "ProcessError: the process died"


def _receive(worker: _Worker) -> Outcome:
    try:
        outcome: Outcome = worker.pipe.recv()
    except EOFError:
        return Outcome("error", DIED)
    return outcome


def _next(worker: _Worker, waiting: list[int], cases: Sequence[Case]) -> None:
    """Give a worker its next case; number -1 means that there is none."""
    worker.number = -1
    if waiting:
        number = waiting.pop()
        worker.begin(number, SECONDS.get(cases[number].kind, QUICK))
