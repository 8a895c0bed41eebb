"""FlatBuffers: from records to bytes, by the same schemas as `flatbuffer` reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from sardonyx.model.serde.flatbuffer import SCALARS, Slot
from sardonyx.model.serde.wire import Record

ALIGNMENT = 8
"""Tables, and what is in lists of bytes, begin at multiples of this many bytes."""


def encode(record: Record, tables: dict[str, list[Slot | None]], root: str, magic: bytes) -> bytes:
    """The file whose root table is this record; fields that a record lacks keep their defaults. No unions.

    >>> from sardonyx.model.serde.flatbuffer import decode, parse
    >>> tables = parse("table Pair\\n  string name\\n  [int64] dims")
    >>> decode(encode({"name": "w", "dims": [2, 3]}, tables, "Pair", b"TEST"), tables, "Pair", "pair")
    {'name': 'w', 'dims': [2, 3]}
    """
    encoder = _Encoder(tables)
    encoder.out += bytes(4) + magic
    encoder.point(0, encoder.table(record, root))
    return bytes(encoder.out)


class _Encoder:
    def __init__(self, tables: dict[str, list[Slot | None]]) -> None:
        self.tables = tables
        self.out = bytearray()

    def point(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.out, place, target - place)

    def align(self, offset: int = 0) -> None:
        """Fill up to so many bytes behind a multiple of the alignment."""
        self.out += bytes((offset - len(self.out)) % ALIGNMENT)

    def table(self, record: Record, name: str) -> int:
        """Where the table begins that was appended, with all that it points to."""
        slots = [(number, slot) for number, slot in enumerate(self.tables[name]) if slot and slot.name in record]
        sizes = {number: _size(slot) for number, slot in slots}
        places, end = {}, 4  # behind the table's offset to its vtable
        for number in sorted(sizes, key=lambda number: -sizes[number]):
            end = -(-end // sizes[number]) * sizes[number]
            places[number] = end
            end += sizes[number]
        entries = [places.get(number, 0) for number in range(len(self.tables[name]))]
        vtable = struct.pack(f"<{2 + len(entries)}H", 4 + 2 * len(entries), end, *entries)
        self.align(-len(vtable))
        self.out += vtable
        start = len(self.out)
        self.out += struct.pack("<i", len(vtable)) + bytes(end - 4)
        for number, slot in slots:
            place, value = start + places[number], record[slot.name]
            if slot.many or slot.kind not in SCALARS:
                self.point(place, self.items(value, slot) if slot.many else self.element(value, slot.kind))
            else:
                SCALARS[slot.kind].pack_into(self.out, place, value)
        return start

    def items(self, values: Sequence[Any], slot: Slot) -> int:
        """Where a list begins that was appended."""
        self.align(4)
        start = len(self.out)
        self.out += struct.pack("<I", len(values))
        if slot.kind in SCALARS:
            self.out += b"".join(map(SCALARS[slot.kind].pack, values))
            return start
        self.out += bytes(4 * len(values))
        for number, value in enumerate(values):
            self.point(start + 4 + 4 * number, self.element(value, slot.kind))
        return start

    def element(self, value: Any, kind: str) -> int:
        if kind not in ("string", "bytes"):
            return self.table(value, kind)
        content = value.encode() + b"\0" if kind == "string" else value
        self.align(4)
        start = len(self.out)
        self.out += struct.pack("<I", len(content) - (kind == "string"))
        self.out += content
        return start


def _size(slot: Slot) -> int:
    return 4 if slot.many or slot.kind not in SCALARS else SCALARS[slot.kind].size
