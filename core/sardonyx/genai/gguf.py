"""The metadata of GGUF files: keys and values before the tensors (ggml's docs/gguf.md), without the tensors."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sardonyx.errors import InvalidValue, NoSuchFile
from sardonyx.genai import layout

MAGIC = b"GGUF"
STRING, ARRAY = 8, 9
NUMBERS = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
"""NumPy's types by GGUF's numbers."""


def read(path: Path) -> dict[str, Any]:
    """The metadata by their keys; arrays are lists. InvalidValue where the file is no GGUF of version 2 or 3."""
    try:
        with open(path, "rb") as file:
            metadata = _Reader(file).metadata()
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}") from error
    except (struct.error, EOFError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"{path} ends, or is broken, within its metadata") from error
    except ValueError as error:
        raise InvalidValue(f"{path} {error}") from None
    checked: dict[str, Any] = layout.sound(metadata, layout.GGUF, str(path))
    return checked


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.nbytes = os.fstat(file.fileno()).st_size

    def metadata(self) -> dict[str, Any]:
        if self._bytes(4) != MAGIC:
            raise ValueError("is no GGUF file")
        (version,) = struct.unpack("<I", self._bytes(4))
        if version not in (2, 3):
            raise ValueError(f"is GGUF of version {version}; 2 and 3 can be read")
        _, count = struct.unpack("<QQ", self._bytes(16))
        return {self._string(): self._value(self._kind()) for _ in range(count)}

    def _bytes(self, count: int) -> bytes:
        if count > self.nbytes:  # `read` allocates what it is asked for
            raise EOFError
        found = self.file.read(count)
        if len(found) < count:
            raise EOFError
        return found

    def _kind(self) -> int:
        return int(struct.unpack("<I", self._bytes(4))[0])

    def _count(self) -> int:
        return int(struct.unpack("<Q", self._bytes(8))[0])

    def _string(self) -> str:
        return self._bytes(self._count()).decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            inner, count = self._kind(), self._count()
            if inner in (STRING, ARRAY):
                return [self._value(inner) for _ in range(count)]
            return self._numbers(inner, count).tolist()
        return self._numbers(kind, 1)[0].item()

    def _numbers(self, kind: int, count: int) -> np.ndarray:
        if kind not in NUMBERS:
            raise ValueError(f"has a value of kind {kind}, which GGUF does not know")
        dtype = np.dtype(NUMBERS[kind])
        return np.frombuffer(self._bytes(count * dtype.itemsize), dtype)
