"""What a browser's processes hold: the pages' own ones, and the one that has what pages keep on a GPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TYPES = (b"--type=renderer", b"--type=gpu-process")
EVERY = 0.02
"""Seconds from one look to the next."""


@contextmanager
def watched() -> Iterator[list[int]]:
    """Within the block, look at what all of them hold together; the list has the bytes of each look."""
    looks, ended = [held()], threading.Event()

    def look() -> None:
        while not ended.wait(EVERY):
            looks.append(held())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield looks
    finally:
        ended.set()
        thread.join(60)


def held() -> int:
    """Bytes that the browsers which this process started hold now, but for pages of files."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has ended
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return sum(_private(pid) for pid in parents if _descends(pid, parents))


def _descends(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False


def _private(pid: int) -> int:
    with suppress(OSError):
        if any(kind in Path(f"/proc/{pid}/cmdline").read_bytes() for kind in TYPES):
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))
    return 0
