"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from sardonyx.errors import NoSuchFile

PART = ".part"
"""How the names of unfinished files end."""


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is something else than a file or a folder, as /dev/null, which no file may take the place of."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def replacing(path: str | os.PathLike[str], private: bool = False) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place unless the block ends by an error.

    Others may not read a private one. A link stays one, and a device or a pipe is written as it is. NoSuchFile where
    there can be no such file.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "digits.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"0123456789"), path.exists()
    >>> path.read_bytes()
    b'0123456789'
    >>> folder.cleanup()
    """
    if is_special(path):
        with open(path, "wb") as file:
            yield file
        return
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise NoSuchFile(f"{os.fspath(path)} cannot be written: the folder {folder} does not exist")
    if not os.path.basename(path) or os.path.isdir(target):
        raise NoSuchFile(f"{os.fspath(path)!r} is no name of a file to write")
    temporary = os.path.join(folder, os.urandom(8).hex() + PART)  # tempfile takes long to import
    try:
        file = open(temporary, "xb", opener=_private if private else None)  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from None  # not the name of the new file
    try:
        with file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
