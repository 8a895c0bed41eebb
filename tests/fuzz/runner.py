"""Mutated models in a process of its own, which may neither hang nor take more memory than it is given."""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from sardonyx import InferenceSession
from sardonyx.common import memory
from sardonyx.errors import SardonyxError
from tests.fuzz import damages, manifests
from tests.fuzz.mutations import INTEGERS, mutate
from tests.fuzz.seeds import SEEDS, Seed

SECONDS = {"node": 1.0, "real": 1.0, "bundle": 5.0, "damage": 5.0}
"""The computing time that a case of a kind may take; a bundle may ask for as much memory as WebAssembly has."""
PATIENCE = 30.0
"""Seconds after which a process that does not answer is given up."""
BYTES = 200 << 20
"""The memory that a case may take beyond what the process has."""

_DTYPES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Outcome:
    """What became of a case: `result`, `refused` (an error of Sardonyx's own), `endless` (a Loop that asks for it),
    `late`, `hung`, `crashed`, or `broken` (any other error)."""

    number: int
    seed: str
    mutation: str
    status: str
    detail: str = ""

    @property
    def is_sound(self) -> bool:
        return self.status in ("result", "refused", "endless")

    def __str__(self) -> str:
        return f"case {self.number} ({self.mutation or 'unchanged'} of {self.seed}): {self.status}: {self.detail}"


class Late(BaseException):
    """The time is over."""


def case(number: int, kind: str) -> tuple[Seed, str, bytes]:
    """The mutated model of this number; the same number gives the same one."""
    rng = random.Random(f"{kind} {number}")
    seeds = SEEDS[kind]()
    seed = seeds[number % len(seeds)] if kind != "node" else rng.choice(seeds)
    if kind == "damage":
        return seed, *damages.mutate(rng, seed.data, rng.choice(seeds).data)
    if kind == "bundle":
        return seed, *manifests.mutate(rng, seed.data)
    return seed, *mutate(rng, seed.data, rng.choice(seeds).data)


def run(number: int, kind: str, provider: str, limited: bool = True) -> Outcome:
    """Load and run one case here."""
    seed, mutation, data = case(number, kind)
    status, detail = "result", ""
    try:
        with _limits(limited, SECONDS[kind]):
            attempt(data, seed.feeds, provider)
    except SardonyxError as error:
        status, detail = "refused", f"{type(error).__name__}: {error}"
    except Late as error:
        loops = any(frame.name == "_loop" for frame in traceback.extract_tb(error.__traceback__))
        status, detail = "endless" if loops else "late", _place(error)
    except Exception as error:
        status, detail = "broken", f"{type(error).__name__}: {error} at {_place(error)}"
    return Outcome(number, seed.name, mutation, status, detail)


def attempt(data: bytes, feeds: Mapping[str, Any], provider: str) -> None:
    """A session and one run, with the feeds given where the model still takes them and random ones elsewhere.

    A third of the models also get integers that are no sensible sizes or indices.
    """
    session = InferenceSession(data, providers=[provider])
    rng = np.random.default_rng(len(data))
    arrays = {each.name: _feed(rng, each, feeds.get(each.name)) for each in session.get_inputs()}
    session.run(None, arrays)
    for array in arrays.values():
        if isinstance(array, np.ndarray) and array.dtype == np.int64 and 0 < array.size < 64 and len(data) % 3 == 0:
            array.reshape(-1)[rng.integers(array.size)] = rng.choice(INTEGERS)
            session.run(None, arrays)


def _feed(rng: np.random.Generator, wanted: Any, known: Any) -> Any:
    if not wanted.type.startswith("tensor("):
        return known
    name = wanted.type[7:-1]
    sizes: dict[str, int] = {}
    shape = [
        size if isinstance(size, int) else sizes.setdefault(size or str(k), int(rng.integers(1, 5)))
        for k, size in enumerate(wanted.shape)
    ]
    if isinstance(known, np.ndarray) and len(shape) == known.ndim:
        fits = all(a == b or not isinstance(c, int) for a, b, c in zip(shape, known.shape, wanted.shape, strict=True))
        if fits and known.dtype.name == _DTYPES.get(name, name):
            return known.copy()
    if np.prod(shape, dtype=object) > 1 << 20 or name in ("?", "string"):
        return known
    try:
        return rng.normal(scale=3, size=shape).astype(_DTYPES.get(name, name))
    except (TypeError, ValueError):
        return known


@contextmanager
def _limits(limited: bool, seconds: float) -> Iterator[None]:
    """So many seconds of computing, and 200 MB more than there are now."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Late

    signal.signal(signal.SIGPROF, late)
    before = resource.getrlimit(resource.RLIMIT_AS)
    if limited:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, before[1]))
        memory.available.cache_clear()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        memory.available.cache_clear()


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "sardonyx" in frame.filename]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in own[:-6:-1])


# ---- the process


def run_all(first: int, count: int, kind: str, provider: str) -> Iterator[Outcome]:
    """The outcomes of cases in order, each worker process doing a few hundred of them."""
    SEEDS[kind]()  # made once, and inherited
    pipe, process = _start(kind, provider)
    try:
        for number in range(first, first + count):
            if (number - first) % 500 == 499:
                _stop(pipe, process)
                pipe, process = _start(kind, provider)
            pipe.send(number)
            try:
                if not pipe.poll(PATIENCE):
                    raise EOFError
                yield pipe.recv()
            except EOFError:
                status = "hung" if process.is_alive() else "crashed"
                _stop(pipe, process)
                seed, mutation, _ = case(number, kind)
                yield Outcome(number, seed.name, mutation, status)
                pipe, process = _start(kind, provider)
    finally:
        _stop(pipe, process)


def _start(kind: str, provider: str) -> tuple[Connection, Any]:
    fork = multiprocessing.get_context("fork")
    pipe, other = fork.Pipe()
    process = fork.Process(target=_work, args=(other, kind, provider), daemon=True)
    process.start()
    other.close()
    return pipe, process


def _stop(pipe: Connection, process: Any) -> None:
    process.kill()
    process.join()
    pipe.close()


def _work(pipe: Connection, kind: str, provider: str) -> None:
    warnings.simplefilter("ignore")
    seed = SEEDS[kind]()[0]
    attempt(seed.data, seed.feeds, provider)  # what is imported and compiled once is no case's fault
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        pipe.send(run(number, kind, provider, limited=provider == "NumpyExecutionProvider"))
