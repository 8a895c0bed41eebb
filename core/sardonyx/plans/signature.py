"""The bytes by which a bundle is known from a model, without what reads either."""

from __future__ import annotations

import os
from typing import TypeAlias

from sardonyx.model.serde.source import BytesLike

MAGIC = b"\x89SDX\r\n\x1a\n"
Given: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview


def is_bundle(data: bytes | bytearray | memoryview) -> bool:
    """Whether bytes begin like a bundle."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def is_bundle_at(source: Given, held: BytesLike | None = None) -> bool:
    """Whether what lies at a path or in memory begins like a bundle; a pipe, and what cannot be opened, does not.

    `held` is what lies at the path, if it was read.

    >>> is_bundle_at(MAGIC + b"and more"), is_bundle_at(b"ir_version"), is_bundle_at("no such file")
    (True, False, False)
    """
    if held is not None:
        return is_bundle(memoryview(held))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return is_bundle(memoryview(source).cast("B"))
    if not os.path.isfile(source):  # opening a pipe would wait
        return False
    try:
        with open(source, "rb") as file:
            return is_bundle(file.read(len(MAGIC)))
    except OSError:  # opening the model says it better
        return False
