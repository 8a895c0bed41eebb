"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

PART = ".part"
"""How the names of unfinished files end."""


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place, with these permissions, unless the block ends by an error.

    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "digits.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"0123456789"), path.exists()
    >>> path.read_bytes()
    b'0123456789'
    >>> folder.cleanup()
    """
    descriptor, temporary = tempfile.mkstemp(PART, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
