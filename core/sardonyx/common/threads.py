"""Threads of products: a session has some of its own, and NumPy's BLAS has one while a session runs.

BLAS divides a product among threads of its own, which wait for each other several times in a product, by spinning. On a
machine that does other things one of them is always descheduled, and all others wait for its next time slice: two
threads may take ten times as long as one. So BLAS has one thread within a run, and as many as before outside of it.
Large products are divided by `products.matmul` instead, for a `Crew`, which waits for no thread that has not begun.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from sardonyx.common import debug, extras, forks
from sardonyx.common.record import record
from sardonyx.errors import EPFail

shared = 0
"""How many threads sessions without threads of their own use; 0 for as many as there are cores."""


MOST = 256
"""The most threads of a session, unless there are more cores: each has a megabyte of its own."""
DIGITS = 9
"""What a number of threads has at most: Python refuses to read thousands."""
PATIENCE = 100
"""Milliseconds in which the system should have forgotten threads that ended."""


def cores() -> int:
    """The processors that this process may use, as far as Python can start threads."""
    if sys.platform == "emscripten":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_start(count: int) -> bool:
    """Whether the system lets this process have so many more threads, which a limit of a user or container forbids.

    >>> can_start(1)
    True
    """
    before, over = _tasks(), threading.Event()
    probes = [threading.Thread(target=over.wait, daemon=True) for _ in range(count)]
    begun = []
    try:
        for probe in probes:
            probe.start()
            begun.append(probe)
    except RuntimeError:
        return False
    finally:
        over.set()
        for probe in begun:
            probe.join()
        for _ in range(PATIENCE):  # the system counts a thread for some time after it has ended
            if _tasks() <= before:
                break
            time.sleep(1e-3)
    return True


def _tasks() -> int:
    """The threads of this process that the system counts; 0 where it does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def number(provider: str, options: Mapping[str, str]) -> int:
    """The threads that a provider's option `intra_op_num_threads` asks for; EPFail where that is none, or too large."""
    text = options.get("intra_op_num_threads", "0")
    if not text.isdecimal():
        raise EPFail(f"{provider}: intra_op_num_threads='{text}' is no number; use 1, 2, ... or 0 for all cores")
    most = max(MOST, cores())
    if len(text) > DIGITS or int(text) > most:
        raise EPFail(f"{provider}: intra_op_num_threads='{text}' is more than {most}; use 1, 2, ... or 0 for all cores")
    return int(text) or cores()


@record(frozen=True)
class Setting:
    """How many threads a BLAS has: functions that tell and that change it."""

    get: Callable[[], int]
    set: Callable[[int], object]


@cache
def blas() -> tuple[Setting, ...]:
    """The settings of the libraries that NumPy may take its products from; none where nothing tells them."""
    if sys.platform == "emscripten":
        return ()
    openblas = next((setting for library in _libraries() for setting in _openblas(library)), None)
    return (openblas,) if openblas else tuple(_any())


@cache
def corename() -> str:
    """The processors for which the code is that OpenBLAS has chosen, in lower case; "" for any other BLAS.

    OpenBLAS's own names: haswell, zen, skylakex, neoversen1 ...
    """
    if sys.platform == "emscripten":
        return ""
    import ctypes

    for library in _libraries():
        for name in _CORENAME:
            with suppress(AttributeError):
                tell = getattr(library, name)
                tell.restype = ctypes.c_char_p
                return str(tell().decode().lower())
    return ""


def check(count: int) -> None:
    """Warn where a session is to have so many threads, and BLAS cannot be told to have one."""
    if count and not blas() and sys.platform != "emscripten":
        debug.warn(f"intra_op_num_threads={count} does not hold for NumPy's BLAS: {extras.missing('threadpoolctl')}")


class OneThread:
    """Within the block, on whichever threads, BLAS has one thread of its own.

    A signal may keep a block from ending as it should; then it ends with this object. Nothing here is `__del__`, where
    Python loses what a signal's handler raises.
    """

    __slots__ = ("__weakref__", "_lost")

    def __enter__(self) -> None:
        with _lock:
            if not _inside:
                _before[:] = [setting.get() for setting in blas()]
            me = threading.get_ident()
            self._lost = lost = weakref.ref(self, _lose)
            _inside[lost] = me
            if len(_inside) == 1:
                _set([1] * len(_before))

    def __exit__(self, *_: object) -> None:
        _end(self._lost)
        del self._lost


_lock = threading.RLock()
_inside: dict[weakref.ref[OneThread], int] = {}
"""The blocks, and the thread of each."""
_before: list[int] = []


def _end(block: weakref.ref[OneThread]) -> None:
    with _lock:
        if block in _inside:
            if len(_inside) == 1:
                _set(_before)
            del _inside[block]


def _lose(block: weakref.ref[OneThread]) -> None:
    """End a block whose object is gone."""
    _end(block)


def _set(counts: list[int]) -> None:
    for setting, before, count in zip(blas(), _before, counts, strict=True):
        if before != 1:
            setting.set(count)


def _survive() -> None:
    """In a child process: have no blocks of threads that it does not have."""
    others = [block for block, thread in _inside.items() if thread != threading.get_ident()]
    for block in others:
        del _inside[block]
    if others and not _inside:
        _set(_before)
    _lock.release()


forks.register(_lock.acquire, _lock.release, _survive)

_OPENBLAS = [f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]
_CORENAME = [f"{prefix}openblas_get_corename{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


def _libraries() -> Iterator[Any]:
    """NumPy's module of products, which knows the names of all that it is linked with, and what its wheels bring."""
    import ctypes

    import numpy as np

    package = os.path.dirname(np.__file__)
    modules = (sys.modules.get(f"numpy.{core}._multiarray_umath") for core in ("_core", "core"))
    files = [module.__file__ for module in modules if module is not None and module.__file__]
    for folder in (f"{package}.libs", os.path.join(package, ".dylibs")):
        with suppress(OSError):
            files += [entry.path for entry in os.scandir(folder) if "openblas" in entry.name]
    for file in files:
        with suppress(OSError):
            yield ctypes.CDLL(file)


def _openblas(library: Any) -> Iterator[Setting]:
    """OpenBLAS's functions, by whichever of its names they are there."""
    for name in _OPENBLAS:
        with suppress(AttributeError):
            yield Setting(getattr(library, name.format("get")), getattr(library, name.format("set")))


def _any() -> Iterator[Setting]:
    """The same for any other BLAS, by threadpoolctl."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return
    import threadpoolctl

    for library in threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers:
        yield Setting(library.get_num_threads, library.set_num_threads)
