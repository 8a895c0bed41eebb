"""How many threads NumPy's BLAS uses: a setting of the whole process, which sessions ask for."""

from __future__ import annotations

import ctypes
import importlib.util
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

shared = 0
"""How many threads sessions without threads of their own use; 0 for as many as there are cores."""
_limit: object = None
_asked = 0

_SETTERS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads64_", "openblas_set_num_threads")


def limit_blas(count: int) -> None:
    """Let BLAS use `count` threads, for all sessions of this process; 0 leaves it as it is."""
    global _limit, _asked
    if not count or count == _asked:
        return
    limit = _bundled() or _any()
    if limit is None:
        warnings.warn("intra_op_num_threads needs threadpoolctl: pip install 'sardonyx[wasm]'", stacklevel=3)
        return
    if _asked:
        warnings.warn(f"intra_op_num_threads={count} holds for the whole process, not {_asked} any more", stacklevel=3)
    _asked = count
    _limit = limit(count)


def _bundled() -> Callable[[int], Any] | None:
    """The function of the OpenBLAS that NumPy's wheels bring along; to search the process takes 5 ms longer."""
    package = Path(np.__file__).parent
    for folder in (package.with_name("numpy.libs"), package / ".dylibs"):
        for file in folder.glob("*openblas*"):
            with suppress(OSError):
                library = ctypes.CDLL(str(file))
                for name in _SETTERS:
                    if hasattr(library, name):
                        return getattr(library, name)  # type: ignore[no-any-return]
    return None


def _any() -> Callable[[int], Any] | None:
    """The same for whatever BLAS is loaded."""
    if importlib.util.find_spec("threadpoolctl") is None:
        return None
    import threadpoolctl

    return lambda count: threadpoolctl.threadpool_limits(count, "blas")
