"""A cache on disk, shared by processes: $XDG_CACHE_HOME/sardonyx, or ~/.cache/sardonyx; SARDONYX_CACHE=0 turns it off.

An entry is a file with a digest of its contents in front: what is damaged counts as not there, and is removed.
"""

from __future__ import annotations

import marshal
import mmap
import os
from collections.abc import Sequence
from contextlib import suppress

from sardonyx.common import sources
from sardonyx.common.atomic import PART, replacing
from sardonyx.common.fingerprint import SIZE, fingerprint
from sardonyx.common.sources import IN_MEMORY

ROOM = (64 if IN_MEMORY else 1024) << 20
"""Bytes of all entries together; the least recently used go."""
MOST = 4096
"""The most entries."""
SELDOM = 16
"""One write in this many prunes the folder, which takes 10 us for each entry."""
_SUFFIX = ".entry"
_ALIGN = 64
"""What the address of the first byte of an entry is a multiple of, where files are mapped."""
_WORD = 4


def directory() -> str | None:
    """Where entries are kept, None if nowhere."""
    if os.environ.get("SARDONYX_CACHE") == "0":
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser(os.path.join("~", ".cache"))
    return None if home.startswith("~") else os.path.join(home, "sardonyx")  # there may be no home


def _path(key: bytes) -> str | None:
    folder = directory()
    return folder and os.path.join(folder, f"{fingerprint(key).hexdigest()}{_SUFFIX}")


def read(key: bytes) -> memoryview | None:
    """What `write` kept under this key, mapped where the system can do that; None if there is nothing whole."""
    path = _path(key)
    try:
        if path is None or not os.path.isfile(path):
            return None
        stored = _view(path)
        if fingerprint(stored[SIZE:]).digest() != stored[:SIZE]:
            forget(key)
            return None
        os.utime(path)
    except Exception:  # a disk that refuses
        return None
    return stored[SIZE:]


def _view(path: str) -> memoryview:
    with open(path, "rb") as file:
        if not IN_MEMORY:
            with suppress(ValueError, OSError):  # an empty file, or one that cannot be mapped
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return memoryview(file.read())


def forget(key: bytes) -> None:
    """Remove an entry, which may be there or not."""
    path = _path(key)
    try:
        if path is not None:
            os.unlink(path)
    except OSError:
        return


def write(key: bytes, *parts: bytes | memoryview) -> None:
    """Keep these bytes, one after another; a disk that refuses is no error. Others see all of it or nothing."""
    path = _path(key)
    if path is None:
        return
    digest = fingerprint(*parts)
    try:
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with replacing(path, private=True) as file:
            file.writelines((digest.digest(), *parts))
        if digest.digest()[0] % SELDOM == 0:
            _make_room(folder)
    except OSError:
        return


def keep(key: bytes, packages: Sequence[str], *parts: bytes | memoryview) -> None:
    """Keep what this process has computed by the sources of these packages; `recall` gives it."""
    used = marshal.dumps(sources.used(packages))
    head = len(used).to_bytes(_WORD, "little") + used
    write(key, head, bytes(-(SIZE + len(head)) % _ALIGN), *parts)


def recall(key: bytes) -> memoryview | None:
    """What was kept under this key, if the sources that it was computed by are as they were."""
    stored = read(key)
    if stored is None:
        return None
    size = _WORD + int.from_bytes(stored[:_WORD], "little")
    try:
        is_current = sources.rely(marshal.loads(stored[_WORD:size]))
    except (AttributeError, EOFError, TypeError, ValueError):  # whole, but of another kind
        forget(key)
        return None
    return stored[size + -(SIZE + size) % _ALIGN :] if is_current else None


def _make_room(folder: str) -> None:
    """Remove the entries that were not used for longest, and what processes that died left unfinished."""
    with os.scandir(folder) as listed:
        entries = [(entry.stat(), entry.path) for entry in listed if entry.name.endswith((_SUFFIX, PART))]
    room = ROOM
    for number, (stat, path) in enumerate(sorted(entries, key=lambda entry: entry[0].st_mtime, reverse=True)):
        room -= stat.st_size
        if room < 0 or number >= MOST:
            with suppress(FileNotFoundError):
                os.unlink(path)
