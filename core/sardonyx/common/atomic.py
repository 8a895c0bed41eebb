"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

PART = ".part"
"""How the names of unfinished files end."""


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o600) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place, with these permissions, unless the block ends by an error.

    >>> import pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "digits.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"0123456789"), path.exists()
    >>> path.read_bytes()
    b'0123456789'
    >>> folder.cleanup()
    """
    temporary = os.path.join(os.path.dirname(path), os.urandom(8).hex() + PART)  # tempfile takes long to import
    try:
        with open(temporary, "xb", opener=_private) as file:
            yield file
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):  # it could not be made
            os.unlink(temporary)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
