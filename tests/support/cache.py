"""The folder that keeps downloads from one test run to the next, and how packages come into it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sardonyx.web.archive import contents, downloaded, member, verified

__all__ = ["CACHE", "cached", "contents", "downloaded", "member", "verified"]

USER_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE = Path(os.environ.get("SARDONYX_TEST_CACHE") or USER_CACHE / "sardonyx-tests")


def cached(target: Path, make: Callable[[Path], None]) -> Path:
    """Return `target`, a file or folder in the cache; where new, `make(scratch)` leaves it at `scratch / target.name`.

    Whatever else `make` leaves in the folder `scratch` then lies beside `target`, unless it was there before.
    Other test processes wait meanwhile, and none ever sees a half-written file.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.parent), tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        if not target.exists():
            make(Path(scratch))
            for made in Path(scratch).iterdir():
                if not (target.parent / made.name).exists():
                    made.rename(target.parent / made.name)
    return target


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with open(folder / ".lock", "w") as lock:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
