"""The file format of bundles: see `sardonyx.bundle`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sardonyx.errors import InvalidArgument

MAGIC = b"\x89SDX\r\n\x1a\n"
VERSION = 1
"""Raised whenever a reader of the old format would go wrong."""
ALIGNMENT = 64
_HEAD = struct.Struct("<8s4I")


class Section(NamedTuple):
    """A range of a bundle."""

    offset: int
    nbytes: int
    checksum: int


def is_bundle(data: bytes | memoryview) -> bool:
    """Whether bytes begin like a bundle."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def write(manifest: dict[str, Any], sections: Sequence[tuple[str, bytes | memoryview]]) -> Iterator[bytes | memoryview]:
    """The parts of a bundle in order. The manifest is completed with the list of sections."""
    listed = [[name, len(data), zlib.crc32(data)] for name, data in sections]
    text = json.dumps({**manifest, "sections": listed}, separators=(",", ":"), ensure_ascii=False).encode()
    head = struct.pack("<8s3I", MAGIC, VERSION, len(text), zlib.crc32(text))
    yield head + struct.pack("<I", zlib.crc32(head)) + text
    end = _HEAD.size + len(text)
    for _, data in sections:
        yield bytes(-end % ALIGNMENT)
        yield data
        end += -end % ALIGNMENT + len(data)


class Bundle:
    """A bundle in memory, or mapped from a file; `name` is what errors call it.

    Raises InvalidArgument where the bytes are no bundle, not all of it, or of another version.
    """

    def __init__(self, data: bytes | memoryview, name: str = "the bundle") -> None:
        self.name = name
        self._data = memoryview(data)
        self.manifest: dict[str, Any] = self._read()
        self.sections: dict[str, Section] = {}
        end = self._end
        for title, nbytes, checksum in self.manifest["sections"]:
            end += -end % ALIGNMENT
            self.sections[title] = Section(end, nbytes, checksum)
            end += nbytes
        if end > len(self._data):
            raise InvalidArgument(f"{name} is cut off: it has {len(self._data):,} bytes of {end:,}; fetch it anew")

    def _read(self) -> dict[str, Any]:
        data, name = self._data, self.name
        if not is_bundle(data):
            raise InvalidArgument(f"{name} is no bundle: make one with `sardonyx compile model.onnx --out model.sdx`")
        if len(data) < _HEAD.size:
            raise InvalidArgument(f"{name} is cut off: it has {len(data)} bytes; fetch it anew")
        _, version, length, checksum, own = _HEAD.unpack_from(data)
        if zlib.crc32(data[: _HEAD.size - 4]) != own:
            raise InvalidArgument(f"{name} is damaged: its head does not match its checksum; fetch it anew")
        if version != VERSION:
            raise InvalidArgument(
                f"{name} has version {version} of the format, and this release reads {VERSION}: compile the model anew"
            )
        self._end = _HEAD.size + length
        if len(data) < self._end:
            raise InvalidArgument(f"{name} is cut off: it has {len(data):,} bytes; fetch it anew")
        text = data[_HEAD.size : self._end]
        if zlib.crc32(text) != checksum:
            raise InvalidArgument(f"{name} is damaged: its manifest does not match its checksum; fetch it anew")
        manifest: dict[str, Any] = json.loads(bytes(text))
        return manifest

    def section(self, title: str) -> memoryview:
        """The bytes of a section; raises InvalidArgument if they are not those that were written."""
        offset, nbytes, checksum = self.sections[title]
        data = self._data[offset : offset + nbytes]
        if zlib.crc32(data) != checksum:
            raise InvalidArgument(f"{self.name} is damaged: {title!r} does not match its checksum; fetch it anew")
        return data
