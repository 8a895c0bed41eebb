"""FlatBuffers: from bytes to the same records as protobuf's, by a schema in FlatBuffers' own terms.

A file is tables that point forward to others. Their fields are numbered, and those with their default value are not
there. Nothing is trusted: each offset is compared with the file, and since tables may point to the same one, what is
visited is bounded by the size of the file.
"""

from __future__ import annotations

import struct
from typing import Any

from sardonyx.common.record import record
from sardonyx.errors import InvalidProtobuf
from sardonyx.model.serde.source import BytesLike
from sardonyx.model.serde.wire import Record

DEPTH = 100
"""How deeply tables may nest; a subgraph takes three levels."""

SCALARS = {
    "bool": struct.Struct("<?"),
    "int8": struct.Struct("<b"),
    "int32": struct.Struct("<i"),
    "int64": struct.Struct("<q"),
    "float": struct.Struct("<f"),
}
_OFFSET, _SHORT, _BYTE, _SIGNED = struct.Struct("<I"), struct.Struct("<H"), struct.Struct("<B"), SCALARS["int32"]


@record(frozen=True)
class Slot:
    """One field of a table: of a scalar kind, `string`, `bytes` (a view), a table's name, or a list of one of these.

    A union names its tables; its number comes in the slot before, and what is read is the table under its field's name.
    """

    name: str
    kind: str
    many: bool
    union: tuple[tuple[str, str], ...] = ()


def parse(text: str) -> dict[str, list[Slot | None]]:
    """Tables by name, of a text with a table in each paragraph; `_` stands for a field that is not read."""
    tables = {}
    for block in text.strip().split("\n\n"):
        head, *lines = block.splitlines()
        tables[head.split()[1]] = [slot for line in lines for slot in _slots(line.split())]
    return tables


def _slots(words: list[str]) -> list[Slot | None]:
    kind, name, *others = words
    if kind == "_":
        return [None]
    if kind == "union":
        pairs = tuple((field, table) for field, _, table in (word.partition(":") for word in others))
        return [None, Slot(name, "union", False, pairs)]
    return [Slot(name, kind.strip("[]"), kind[0] == "[")]


def decode(data: BytesLike, tables: dict[str, list[Slot | None]], root: str, what: str) -> Record:
    """The record of the file's root table; InvalidProtobuf says what it is, where the bytes make no sense."""
    try:
        return _Decoder(data, tables).root(root)
    except (struct.error, ValueError, IndexError) as error:
        raise InvalidProtobuf(f"this is a damaged {what}: {error}") from None


class _Decoder:
    def __init__(self, data: BytesLike, tables: dict[str, list[Slot | None]]) -> None:
        self.data = memoryview(data)
        self.tables = tables
        self.budget = len(self.data)
        """How many more tables and elements may be visited: each takes a byte at least, unless it is shared."""

    def root(self, name: str) -> Record:
        return self.table(self.follow(0), name, 0)

    def number(self, kind: struct.Struct, place: int) -> Any:
        if place < 0:
            raise ValueError("an offset points before the file")
        return kind.unpack_from(self.data, place)[0]

    def follow(self, place: int) -> int:
        """Where an offset at this place points to."""
        offset: int = self.number(_OFFSET, place)
        if not offset or place + offset >= len(self.data):
            raise ValueError(f"the offset {offset} at byte {place} points out of the file")
        return place + offset

    def visit(self, count: int = 1) -> None:
        self.budget -= count
        if self.budget < 0:
            raise ValueError("its parts are more than it has bytes")

    def table(self, place: int, name: str, depth: int) -> Record:
        if depth > DEPTH:
            raise ValueError(f"tables nest more than {DEPTH} levels deep")
        self.visit()
        vtable = place - self.number(_SIGNED, place)
        size = self.number(_SHORT, vtable)
        record: Record = {}
        for number, slot in enumerate(self.tables[name]):
            entry = 4 + 2 * number
            if slot is None or entry + 2 > size:
                continue
            if offset := self.number(_SHORT, vtable + entry):
                if slot.kind == "union":
                    choice = self.number(_SHORT, vtable + entry - 2)
                    variant = self.number(_BYTE, place + choice) if choice else 0
                    if 0 < variant <= len(slot.union):
                        field, table = slot.union[variant - 1]
                        record[field] = self.table(self.follow(place + offset), table, depth + 1)
                else:
                    record[slot.name] = self.value(place + offset, slot, depth)
        return record

    def value(self, place: int, slot: Slot, depth: int) -> Any:
        if not slot.many and slot.kind in SCALARS:
            return self.number(SCALARS[slot.kind], place)
        place = self.follow(place)
        if not slot.many:
            return self.element(place, slot.kind, depth)
        count = self.number(_OFFSET, place)
        if slot.kind in SCALARS:
            self.visit(count)
            kind = SCALARS[slot.kind]
            return [each for (each,) in kind.iter_unpack(self.part(place + 4, count * kind.size))]
        self.part(place + 4, 4 * count)
        return [self.element(self.follow(place + 4 + 4 * k), slot.kind, depth) for k in range(count)]

    def element(self, place: int, kind: str, depth: int) -> Any:
        if kind not in ("string", "bytes"):
            return self.table(place, kind, depth + 1)
        self.visit()
        length = self.number(_OFFSET, place)
        content = self.part(place + 4, length)
        return content if kind == "bytes" else str(content, "utf-8")

    def part(self, start: int, length: int) -> memoryview:
        if start + length > len(self.data):
            raise ValueError(f"{length} bytes from byte {start} on run out of the file")
        return self.data[start : start + length]
