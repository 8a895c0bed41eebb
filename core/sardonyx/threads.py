"""How many threads NumPy's BLAS uses: a setting of the whole process, which sessions ask for."""

from __future__ import annotations

import importlib.util
import warnings

_limit: object = None
_asked = 0


def limit_blas(count: int) -> None:
    """Let BLAS use `count` threads, for all sessions of this process; 0 leaves it as it is."""
    global _limit, _asked
    if not count or count == _asked:
        return
    if importlib.util.find_spec("threadpoolctl") is None:
        warnings.warn("intra_op_num_threads needs threadpoolctl: pip install 'sardonyx[wasm]'", stacklevel=3)
        return
    import threadpoolctl

    if _asked:
        warnings.warn(f"intra_op_num_threads={count} holds for the whole process, not {_asked} any more", stacklevel=3)
    _asked = count
    _limit = threadpoolctl.threadpool_limits(count, "blas")
