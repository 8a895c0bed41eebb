"""Kernels as Python functions: compiled from what `codegen` writes, or found where an earlier process kept them.

A maker is given buffers and parameters; it gives what runs the kernel on them.
"""

from __future__ import annotations

import functools
import marshal
import math
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from sardonyx.code import scalar
from sardonyx.code.kernel import Kernel
from sardonyx.common import cache, dtypes, sources
from sardonyx.numpy_backend.division import Bound
from sardonyx.numpy_backend.memory import flat, strided
from sardonyx.numpy_backend.pieces import bound
from sardonyx.providers.contract import Address

Maker: TypeAlias = Callable[[Sequence[Address], Sequence[int]], Bound]

PACKAGES = ("sardonyx",)
"""What writes kernels."""
KEPT = 8
"""Kernels from which on it takes less time to read what an earlier process has compiled."""


def makers(kernels: Sequence[Kernel]) -> list[Maker]:
    """The functions that bind kernels to buffers and parameters."""
    key = _key(kernels) if len(kernels) >= KEPT and cache.directory() else None
    stored = cache.recall(key) if key else None
    if stored is not None:
        return list(map(_maker, marshal.loads(stored)))
    from sardonyx.numpy_backend.codegen import source  # which nobody needs who finds what is kept

    codes = [_compiled(source(kernel)) for kernel in kernels]
    if key:
        cache.keep(key, PACKAGES, marshal.dumps(codes))
    return list(map(_maker, codes))


def _key(kernels: Sequence[Kernel]) -> bytes:
    """All that the code of kernels depends on; each build of Python has a bytecode of its own."""
    return repr(("makers", sources.installation(PACKAGES), sys.version, [kernel.key for kernel in kernels])).encode()


@functools.lru_cache(maxsize=4096)
def _compiled(text: str) -> CodeType:
    return compile(text, "<kernel>", "exec")


@functools.lru_cache(maxsize=4096)
def _maker(code: CodeType) -> Maker:
    made: dict[str, Maker] = {}
    exec(code, _scope(), made)
    return made["make"]


@functools.cache
def _scope() -> dict[str, Any]:
    """What the code of kernels calls."""
    scope: dict[str, Any] = {
        "np": np,
        "strided": strided,
        "flat": flat,
        "cast": scalar.cast,
        "narrowed": scalar.narrowed,
    }
    scope |= {"axis_index": axis_index, "widened": widened, "place": place, "bound": bound}
    scope |= {f"f_{name}": function.numpy for name, function in scalar.FUNCTIONS.items()}
    scope |= {f"t_{dtype.name}": dtype.storage for dtype in dtypes.ALL}
    return scope


def axis_index(rank: int, axis: int, size: int) -> np.ndarray:
    """0..size - 1 along one of `rank` axes."""
    return np.arange(size).reshape([size if k == axis else 1 for k in range(rank)])


def widened(value: np.ndarray, outer: int, inner: tuple[int, ...]) -> np.ndarray:
    """What a fold runs over: a value, or a constant without axes, stretched along all reduction axes."""
    return np.broadcast_to(value, (*(np.shape(value)[:outer] or (1,) * outer), *inner))


def place(value: np.ndarray, outer: int, function: str) -> np.ndarray:
    """Where the first extreme is of all that a fold runs over; 0 where that is nothing."""
    before = value.shape[:outer]
    lines = value.reshape(*before, math.prod(value.shape[outer:]))
    found = getattr(lines, function)(-1) if lines.shape[-1] else np.zeros(before)
    return np.asarray(found, np.int32).reshape(*before, *[1] * (value.ndim - outer))
