"""Files mapped into memory: arrays are views of them, so who writes one anew in place changes or ends what reads it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from typing import BinaryIO
from weakref import WeakKeyDictionary

from sardonyx.errors import Fail

_files: WeakKeyDictionary[mmap.mmap, tuple[str, os.stat_result]] = WeakKeyDictionary()


def map_file(file: BinaryIO, path: str | os.PathLike[str]) -> mmap.mmap:
    """The bytes of an open file; ValueError or OSError where it cannot be mapped, as an empty one."""
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _files[mapped] = os.path.abspath(path), os.fstat(file.fileno())
    return mapped


def changed(mappings: Iterable[object]) -> str:
    """The path of a file that was written anew since it was mapped, "" where none was.

    A file that another took the place of, or that was removed, is as it was.
    """
    for mapped in mappings:
        if isinstance(mapped, mmap.mmap) and mapped in _files:
            path, before = _files[mapped]
            try:
                now = os.stat(path)
            except OSError:
                continue
            is_same = (now.st_dev, now.st_ino) == (before.st_dev, before.st_ino)
            if is_same and (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                return path
    return ""


def check(mappings: Iterable[object]) -> None:
    """Raises Fail where a file was written anew since it was mapped."""
    if path := changed(mappings):
        raise Fail(
            f"{path} was written anew while a session reads it: make another session of it, and have what writes "
            "models write to a new file that takes the old one's place (os.replace), or give sessions the bytes"
        )
