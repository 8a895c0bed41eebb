"""Runs that go on beside their caller: in a thread or, where there are none as in Pyodide, on the event loop.

`InferenceSession.run_async` alone wants this module, and asyncio with it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from sardonyx.providers.contract import Device, Provider
from sardonyx.runtime.handles import Handle, by_device

Results: TypeAlias = list[Any]

THREADS = sys.platform != "emscripten"
_tasks: set[asyncio.Future[None]] = set()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="sardonyx-run")


def begin(
    work: Callable[[], Results], awaited: Callable[[], Awaitable[Results]], stop: Callable[[], object] | None
) -> Awaitable[Results]:
    """Begin work in a thread, or what is `awaited` instead; who cancels the former calls `stop`."""
    if THREADS:
        return _result(_pool().submit(work), stop)
    return asyncio.ensure_future(awaited())


async def _result(future: Future[Results], stop: Callable[[], object] | None) -> Results:
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if stop is not None:
            stop()
        raise


def tell(
    work: Callable[[], Results], awaited: Callable[[], Awaitable[Results]], callback: Callable[[Results, str], object]
) -> None:
    """The same, for a callback that takes what came of it and what went wrong, or ""."""
    if THREADS:
        _pool().submit(_tell, work, callback)
    else:
        task = asyncio.ensure_future(_tell_awaited(awaited(), callback))
        _tasks.add(task)  # the loop may forget them
        task.add_done_callback(_tasks.discard)


def _tell(work: Callable[[], Results], callback: Callable[[Results, str], object]) -> None:
    try:
        results, error = work(), ""
    except Exception as failure:
        results, error = [], str(failure)
    try:
        callback(results, error)
    except Exception:  # the pool would keep it to itself
        threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), threading.current_thread()]))


async def _tell_awaited(work: Awaitable[Results], callback: Callable[[Results, str], object]) -> None:
    try:
        results, error = await work, ""
    except Exception as failure:
        results, error = [], str(failure)
    callback(results, error)


async def opened(providers: Iterable[tuple[Provider, Mapping[str, Any]]]) -> None:
    """Have those devices open that take waiting."""
    for provider, options in providers:
        await provider.open(options)


async def downloaded(devices: Sequence[Device], handles: Sequence[Handle]) -> list[np.ndarray]:
    """The arrays of tensors, those of one device read together where that can be awaited."""
    arrays_by_place: dict[int, np.ndarray] = {}
    for number, places in by_device(handles).items():
        arrays = await devices[number].download_all_async([handles[k].tensor for k in places])
        arrays_by_place.update(zip(places, arrays, strict=True))
    return [arrays_by_place[k] for k in range(len(handles))]
