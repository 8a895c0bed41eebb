"""Where a command writes: what cannot be written is refused before the work begins, by the name of its option."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sardonyx.errors import InvalidArgument, SardonyxError


def refuse_unwritable(option: str, path: Path, *, folder: bool = False) -> None:
    """Raises InvalidArgument where no such file, or `folder`, can be made."""
    if path.is_dir() and not folder:
        raise InvalidArgument(f"{option} {path} is a folder; name a file in it")
    if folder and path.exists() and not path.is_dir():
        raise InvalidArgument(f"{option} {path} cannot be written: it is a file, not a folder")
    above = path if path.is_dir() else path.parent
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        raise InvalidArgument(f"{option} {path} cannot be written: {above} is a file, not a folder")
    if not os.access(above, os.W_OK):
        raise InvalidArgument(f"{option} {path} cannot be written: the folder {above.absolute()} is read-only")


@contextmanager
def writing(option: str, path: Path, *, folder: bool = False) -> Iterator[None]:
    """Within the block, which makes a file, or files in a `folder`: what the system refuses is told."""
    refuse_unwritable(option, path, folder=folder)
    try:
        (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
        yield
    except SardonyxError:
        raise
    except OSError as error:
        raise InvalidArgument(f"{option} {path} cannot be written: {error.strerror or error}") from error
