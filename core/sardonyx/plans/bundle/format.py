"""The file format of bundles: see `sardonyx.plans.bundle`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from sardonyx.common.fingerprint import fingerprint
from sardonyx.errors import InvalidArgument, UnsoundError
from sardonyx.plans.bundle.deflated import BLOCK, deflate, inflate
from sardonyx.plans.signature import MAGIC, is_bundle
from sardonyx.plans.soundness import reading

VERSION = 4
"""Raised whenever a reader of the old format would go wrong."""
ALIGNMENT = 64
SMALLEST = 1 << 12
"""Sections of fewer bytes are not deflated."""
WORTH = 0.97
"""A section stays as it is unless deflating reduces its size to this fraction."""
DENSEST = 1100
"""The most bytes that one byte of a deflated section can become."""
_HEAD = struct.Struct("<8s5I")


class Section(NamedTuple):
    """A range of a bundle; where it is deflated, it holds `size` bytes of elements of this `width`."""

    offset: int
    nbytes: int
    checksum: int
    size: int = 0
    width: int = 0


class Content(NamedTuple):
    """The title and bytes of a section to be written; `size` and `width` as in `Section`."""

    title: str
    data: bytes | memoryview
    size: int = 0
    width: int = 0

    def deflated(self, width: int) -> Content:
        """The content deflated, or as it is where that saves too little."""
        if len(self.data) < SMALLEST:
            return self
        data = deflate(self.data, width)
        return Content(self.title, data, len(self.data), width) if len(data) <= WORTH * len(self.data) else self


def write(
    manifest: dict[str, Any], sections: Sequence[Content], compress: bool = False
) -> Iterator[bytes | memoryview]:
    """The parts of a bundle in order. The manifest is completed with the list of sections, and may be deflated."""
    text = json.dumps(
        {**manifest, "sections": list(map(_listed, sections))}, separators=(",", ":"), ensure_ascii=False
    ).encode()
    size = len(text) if compress else 0
    text = deflate(text, 1) if compress else text
    head = struct.pack("<8s4I", MAGIC, VERSION, len(text), zlib.crc32(text), size)
    yield head + struct.pack("<I", zlib.crc32(head)) + text
    end = _HEAD.size + len(text)
    for each in sections:
        yield bytes(-end % ALIGNMENT)
        yield each.data
        end += -end % ALIGNMENT + len(each.data)


def _listed(content: Content) -> list[Any]:
    title, data, *more = content
    return [title, len(data), zlib.crc32(data), *(more if content.width else ())]


class Bundle:
    """A bundle in memory, or mapped from a file; `name` is what errors call it, `fingerprint` that of its manifest,
    `head` the bytes before its sections.

    Raises InvalidArgument where the bytes are no bundle, not all of it, or of another version.
    """

    def __init__(self, data: bytes | memoryview, name: str = "the bundle") -> None:
        self.name = name
        self._data = memoryview(data)
        with reading(name):
            self.manifest: dict[str, Any] = self._read()
            self.sections: dict[str, Section] = {}
            end = self.head
            for title, nbytes, *more in _sound(self.manifest["sections"]):
                end += -end % ALIGNMENT
                self.sections[title] = Section(end, nbytes, *more)
                end += nbytes
        if end > len(self._data):
            raise InvalidArgument(f"{name} is cut off: it has {len(self._data):,} bytes of {end:,}; fetch it anew")

    def _read(self) -> dict[str, Any]:
        data, name = self._data, self.name
        if not is_bundle(data):
            raise InvalidArgument(
                f"{name} is no bundle: make one with `sardonyx compile model.onnx --output model.sdx`"
            )
        if len(data) < _HEAD.size:
            raise InvalidArgument(f"{name} is cut off: it has {len(data)} bytes; fetch it anew")
        _, version, length, checksum, size, own = _HEAD.unpack_from(data)
        if zlib.crc32(data[: _HEAD.size - 4]) != own:
            raise InvalidArgument(f"{name} is damaged: its head does not match its checksum; fetch it anew")
        if version != VERSION:
            raise InvalidArgument(
                f"{name} has version {version} of the format, and this release reads {VERSION}: compile the model anew"
            )
        self.head = _HEAD.size + length
        if len(data) < self.head:
            raise InvalidArgument(f"{name} is cut off: it has {len(data):,} bytes; fetch it anew")
        text = data[_HEAD.size : self.head]
        if zlib.crc32(text) != checksum:
            raise InvalidArgument(f"{name} is damaged: its manifest does not match its checksum; fetch it anew")
        self.fingerprint = fingerprint(text).digest()
        if size > DENSEST * length:
            raise UnsoundError(f"its manifest cannot hold {size:,} bytes")
        manifest: dict[str, Any] = json.loads(inflate(text, size, 1).tobytes() if size else bytes(text))
        return manifest

    def section(self, title: str) -> memoryview:
        """What a section holds; raises InvalidArgument if its bytes are not those that were written."""
        offset, nbytes, checksum, size, width = self.sections[title]
        data = self._data[offset : offset + nbytes]
        damaged = f"{self.name} is damaged: {title!r} does not match its checksum; fetch it anew"
        if zlib.crc32(data) != checksum:
            raise InvalidArgument(damaged)
        try:
            return inflate(data, size, width).data if width else data
        except ValueError:
            raise InvalidArgument(damaged) from None


def _sound(listed: Any) -> Iterator[tuple[str, int, int, int, int]]:
    """The sections that a manifest lists; UnsoundError where one claims more than its bytes can hold."""
    numbers = list(chain.from_iterable([row[1:] for row in listed]))
    if {*map(type, numbers)} - {int} or min(numbers, default=0) < 0 or {type(row[0]) for row in listed} - {str}:
        raise UnsoundError("a section has no name, or no size")
    for title, nbytes, checksum, *more in listed:
        size, width = more or (0, 0)
        if width and (BLOCK % width or size % width or size > DENSEST * nbytes):
            raise UnsoundError(f"section {title!r} cannot hold {size:,} bytes")
        yield title, nbytes, checksum, size, width
