"""Protobuf's wire format: bytes to records and back, by the tables of `schema`.

A record is a dictionary from field names to values; lists hold repeated fields, records hold messages. Neither
direction recurses, so a file that nests too deeply gets an error.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from sardonyx.errors import InvalidGraph, InvalidProtobuf
from sardonyx.model.serde.schema import BYTES, FIXED32, FIXED64, UNREAD, VARINT, Field, Message, Tags
from sardonyx.model.serde.source import BytesLike

Record: TypeAlias = dict[str, Any]

DEPTH = 200
"""How deeply messages may nest; a subgraph takes three levels."""

LONG = 4096
"""Lists of numbers longer than this are `array.array`s: trees have millions, which would be a gigabyte of objects."""

_STRUCTS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_NUMPY = {"int": "<i8", "float": "<f4", "double": "<f8"}
_ARRAY = {"int": "q", "float": "f", "double": "d"}


def decode(data: BytesLike, message: Message) -> Record:
    """The record in these bytes; InvalidProtobuf names the message and the byte at which they make no sense."""
    view = memoryview(data)
    root: Record = {}
    stack: list[tuple[Record, Tags, int, str]] = []
    record, by_tag, end = root, message.by_tag, len(view)
    pos = streak = last = 0
    try:
        while True:
            if pos >= end:
                if pos > end:
                    raise ValueError("a number runs past the end of its message")
                if not stack:
                    return root
                record, by_tag, end, _ = stack.pop()
                continue
            start = pos
            tag = data[pos]
            pos += 1
            if tag > 127:  # fields above 15 have tags of two bytes
                tag, pos = _varint(data, start)
            field = by_tag.get(tag)
            if field is None:
                pos = _skip(data, tag, pos, end, by_tag)
                record.setdefault(UNREAD, bytearray()).extend(data[start:pos])
                continue
            name, kind, label, child = field
            wire = tag & 7
            value: Any
            if wire == BYTES:
                size = data[pos]
                pos += 1
                if size > 127:
                    size, pos = _varint(data, pos - 1)
                stop = pos + size
                if stop > end:
                    raise ValueError(f"'{name}' claims {size} bytes where {end - pos} are left")
                if kind == "string":
                    value = str(data[pos:stop], "utf-8")
                elif child is not None:
                    value = {}
                    if label:
                        record.setdefault(name, []).append(value)
                    else:  # a message that comes twice is merged
                        value = record.setdefault(name, value)
                    if len(stack) == DEPTH:
                        raise ValueError(f"messages nest more than {DEPTH} deep")
                    stack.append((record, by_tag, end, name))
                    record, by_tag, end = value, child.by_tag, stop
                    continue
                elif kind == "bytes":
                    value = bytes(data[pos:stop])
                elif kind == "view" or label == "packed":
                    value = view[pos:stop]
                else:
                    _extend(record, name, kind, numbers(kind, view[pos:stop]))
                    pos = stop
                    continue
                pos = stop
            else:
                if wire == VARINT:
                    value = data[pos]
                    pos += 1
                    if value > 127:
                        value, pos = _varint(data, pos - 1)
                        if value >> 63:
                            value -= 1 << 64
                else:
                    codec = _STRUCTS[kind]
                    value = codec.unpack_from(data, pos)[0]
                    pos += codec.size
                if label == "packed":
                    value = view[start + 1 : pos]
                elif label:
                    streak = streak + 1 if start == last else 1
                    last = pos
            if not label:
                record[name] = value
                continue
            values = record.get(name)
            if values is None:
                record[name] = [value]
            else:
                values.append(value)
                if streak >= LONG and wire != BYTES and label == "repeated":
                    run, pos = _run(view[:end], pos, tag, kind)
                    _extend(record, name, kind, run)
                    last = pos
                elif kind == "bytes" and len(values) % LONG == 0:
                    words, pos = _words(view[:end], pos, tag, values[-LONG:])
                    values += words
    except (ValueError, IndexError, struct.error) as error:
        reason = str(error) if isinstance(error, ValueError) else "the bytes end inside a field"
        if isinstance(error, UnicodeDecodeError):
            reason = f"'{name}' is not UTF-8"
        raise InvalidProtobuf(f"{_place(message, stack)}, byte {pos}: {reason}") from None


def _place(message: Message, stack: list[tuple[Record, Tags, int, str]]) -> str:
    place = message.name
    for record, _, _, name in stack:
        place += f".{name}" + (f"[{len(record[name]) - 1}]" if isinstance(record[name], list) else "")
    return place


def _varint(data: BytesLike, pos: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, pos
    raise ValueError("a number has more than ten bytes")


def _skip(data: BytesLike, tag: int, pos: int, end: int, by_tag: Tags) -> int:
    wire, number = tag & 7, tag >> 3
    name = next((field[0] for other, field in by_tag.items() if other >> 3 == number), "")
    if name or not number:
        raise ValueError(f"'{name}' has wire type {wire}" if name else "a field has the number 0")
    if wire == VARINT:
        return _varint(data, pos)[1]
    if wire == BYTES:
        size, pos = _varint(data, pos)
    elif wire in (FIXED32, FIXED64):
        size = 4 if wire == FIXED32 else 8
    else:
        raise ValueError(f"field {number} has wire type {wire}, which ONNX does not use")
    if pos + size > end:
        raise ValueError(f"field {number} claims {size} bytes where {end - pos} are left")
    return pos + size


def _extend(record: Record, name: str, kind: str, values: np.ndarray) -> None:
    """Appends many numbers to a repeated field, which becomes an `array.array` once it is long."""
    items = record.setdefault(name, [])
    if isinstance(items, list) and len(items) + len(values) > LONG:
        items = record[name] = array(_ARRAY[kind], items)
    if isinstance(items, list):
        items.extend(values.tolist())
    else:
        items.frombytes(values.tobytes())


def _run(view: memoryview, pos: int, tag: int, kind: str) -> tuple[np.ndarray, int]:
    """The numbers of a list that is not packed (tag, number, tag, number ...) from here on, and where they end."""
    blocks = [np.empty(0, _NUMPY[kind])]
    complete = tag < 128
    while complete and pos < len(view):
        block = np.frombuffer(view[pos : pos + (1 << 18)], np.uint8)
        if kind == "int":
            ends = np.flatnonzero(block < 128)
            pairs = len(ends) // 2
            words = _varints(block[: ends[2 * pairs - 1] + 1]) if pairs else np.empty(0, np.int64)
            tags, values = words[0::2], words[1::2]
        else:
            width = _STRUCTS[kind].size + 1
            pairs = len(block) // width
            rows = block[: pairs * width].reshape(pairs, width)
            tags, values = rows[:, 0], rows[:, 1:].copy().view(_NUMPY[kind])[:, 0]
        other = np.flatnonzero(tags != tag)
        count = int(other[0]) if len(other) else pairs
        complete = 0 < count == pairs
        blocks.append(values[:count])
        if count:
            pos += int(ends[2 * count - 1]) + 1 if kind == "int" else count * width
    return np.concatenate(blocks), pos


def _words(view: memoryview, pos: int, tag: int, before: list[bytes]) -> tuple[list[bytes], int]:
    """The elements from here on that are among those before, and where they end: trees repeat a few words endlessly."""
    words = list(dict.fromkeys(before))
    if len(words) > 16 or tag > 127:
        return [], pos
    entries = [varint(tag) + varint(len(word)) + word for word in words]
    run = re.compile(b"(?:" + b"|".join(map(re.escape, entries)) + b")*+")
    vocabulary, elements = np.array(words, object), []
    while (match := run.match(view, pos, pos + (1 << 20))) and match.end() > pos:
        text = match.group()
        for code, entry in enumerate(entries):
            text = text.replace(entry, bytes((code,)))
        codes = np.frombuffer(text, np.uint8)
        if codes.max() >= len(words):  # one word holds the entry of another
            break
        elements += vocabulary[codes].tolist()
        pos = match.end()
    return elements, pos


def numbers(kind: str, packed: memoryview, storage: str = "<i8") -> np.ndarray:
    """The numbers of a packed list: float32, float64 or, wrapped to `storage`, integers [n].

    ValueError where the bytes are no such list.
    """
    if kind != "int":
        if len(packed) % _STRUCTS[kind].size:
            raise ValueError(f"{len(packed)} bytes are no whole number of {kind}s")
        return np.frombuffer(packed, _NUMPY[kind])
    raw = np.frombuffer(packed, np.uint8)
    blocks, pos = [np.empty(0, storage)], 0
    while pos < len(raw):  # in blocks, for the arrays in between are many times as large as the bytes
        block = raw[pos : pos + (1 << 20)]
        if pos + len(block) < len(raw):
            ends = np.flatnonzero(block[-10:] < 128)
            if not len(ends):
                raise ValueError("a number has more than ten bytes")
            block = block[: len(block) - 9 + int(ends[-1])]
        blocks.append(_varints(block).astype(storage))
        pos += len(block)
    return np.concatenate(blocks)


def _varints(raw: np.ndarray) -> np.ndarray:
    """The numbers in these bytes, which are not empty: int64 [n]."""
    last = raw < 128
    if last.all():
        return raw.astype(np.int64)
    if not last[-1]:
        raise ValueError("a list of numbers ends inside a number")
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    longest = int(lengths.max())
    if longest > 10:
        raise ValueError("a number has more than ten bytes")
    values = (raw[starts] & 127).astype(np.uint64)
    for place in range(1, longest):
        longer = np.flatnonzero(lengths > place)
        values[longer] |= (raw[starts[longer] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
    return values.view(np.int64)


def encode(thing: Any, message: Message, describe: Callable[[Message, Any], Record]) -> list[bytes | memoryview]:
    """The bytes of a message, in pieces. `describe` gives a thing's record, in which messages are again things.

    The pieces are found from the last to the first: so every length is known where it is written, nothing is copied.
    """
    pieces: list[bytes | memoryview] = []
    written = 0
    stack: list[tuple[Iterator[tuple[Field | None, Any]], int, int]] = [
        (_backwards(message, describe(message, thing)), 0, 0)
    ]
    while stack:
        fields, before, tag = stack[-1]
        field, value = next(fields, (None, None))
        new: list[bytes | memoryview]
        if field is None and value is not None:
            new = [value]
        elif field is None:
            stack.pop()
            new = [varint(tag) + varint(written - before)] if tag else []
        elif field.message:
            if len(stack) > DEPTH:
                raise InvalidGraph(f"the model nests more than {DEPTH} messages deep")
            stack.append((_backwards(field.message, describe(field.message, value)), written, field.tag))
            continue
        else:
            new = _field(field, value)
        for piece in new:
            pieces.append(piece)
            written += len(piece)
    pieces.reverse()
    return pieces


def _backwards(message: Message, record: Record) -> Iterator[tuple[Field | None, Any]]:
    if record.get(UNREAD):
        yield None, record[UNREAD]
    for field in reversed(message.fields.values()):
        value = record.get(field.name)
        if value is None:
            continue
        if not field.label or isinstance(value, array):
            yield field, value
        else:
            for element in reversed(value):
                yield field, element


def _field(field: Field, value: Any) -> list[bytes | memoryview]:
    """The bytes of one field: the last piece first."""
    if isinstance(value, array):
        data = packed(np.frombuffer(value, _NUMPY[field.kind]))
        return [data, varint(field.number << 3 | BYTES) + varint(len(data))]
    tag = varint(field.tag)
    if field.kind == "int":
        return [tag + varint(int(value))]
    if field.kind in _STRUCTS:
        return [tag + _STRUCTS[field.kind].pack(value)]
    if field.kind == "view":
        return [value, tag + varint(len(value))]
    data = value.encode() if isinstance(value, str) else value
    return [tag + varint(len(data)) + data]


def varint(value: int) -> bytes:
    """One number, of 64 bits, as it stands in a file.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    if 0 <= value < 128:
        return bytes((value,))
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def packed(values: np.ndarray) -> bytes:
    """The bytes of a packed list of float32, float64 or int64 [n]."""
    if values.dtype != np.int64:
        return values.tobytes()
    words = values.view(np.uint64)
    sizes = np.ones(len(words), np.int64)
    for place in range(1, 10):
        sizes += words >> np.uint64(7 * place) != 0
    out = np.empty(int(sizes.sum()), np.uint8)
    starts = np.cumsum(sizes) - sizes
    for place in range(10):
        long = np.flatnonzero(sizes > place)
        more = (sizes[long] > place + 1) * np.uint64(128)
        out[starts[long] + place] = words[long] >> np.uint64(7 * place) & np.uint64(127) | more
    return out.tobytes()
