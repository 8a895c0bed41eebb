"""What can go wrong with a bundle whose checksums are right: its manifest lies, as random numbers say."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from sardonyx.plans.bundle import VERSION, Bundle
from sardonyx.plans.bundle.format import ALIGNMENT
from sardonyx.plans.signature import MAGIC
from tests.fuzz.mutations import INTEGERS

Random = random.Random
Place = tuple[Any, Any]
"""A list or an object of the manifest, and what an item of it is found by."""

OTHERS = [None, True, 0.5, "", "x", [], {}, [[]], ["*", 2, "s0"], ["**", 2, 3], 10**30, float("inf")]
NAMES = ["", "float32", "int64", "string", "bool", "float65", "s0", "n0", "p0", "w0", "loop", "read", "host"]


def mutate(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A bundle whose manifest says something else, with the right checksums, and what that is."""
    bundle = Bundle(data)
    sections = [data[place.offset : place.offset + place.nbytes] for place in bundle.sections.values()]
    manifest = bundle.manifest
    done = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        holder, key = rng.choice(list(places(manifest)))
        before = holder[key]
        changed = change(rng, holder, key)
        done.append(f"{key!r} of {str(holder)[:60]}: {str(before)[:30]} -> {changed}")
    return "; ".join(done), rewritten(manifest, sections)


def rewritten(manifest: Any, sections: Sequence[bytes]) -> bytes:
    """A bundle of this manifest as it is, which need not know its sections, with the right checksums."""
    text = json.dumps(manifest, separators=(",", ":")).encode()
    head = struct.pack("<8s4I", MAGIC, VERSION, len(text), zlib.crc32(text), 0)
    data = head + struct.pack("<I", zlib.crc32(head)) + text
    for section in sections:
        data += bytes(-len(data) % ALIGNMENT) + section
    return data


def places(value: Any) -> Iterator[Place]:
    """All places below a value; the more there are of a kind, the more often it is hit."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from places(item)


def change(rng: Random, holder: Any, key: Any) -> str:
    value = holder[key]
    if type(value) is int and rng.random() < 0.9:
        near = [value + 1, value - 1, value * 2, value // 2, -value, value + 256]
        holder[key] = rng.choice(near if rng.random() < 0.5 else INTEGERS)
    elif isinstance(value, str) and rng.random() < 0.7:
        holder[key] = rng.choice([*NAMES, value + "x", value[:-1]])
    elif isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                del value[place]
            case 1:
                value.insert(place, value[rng.randrange(len(value))])
            case 2:
                value[place] = value[rng.randrange(len(value))]
            case 3:
                rng.shuffle(value)
    elif rng.random() < 0.3:
        del holder[key]
        return "nothing"
    else:
        holder[key] = rng.choice(OTHERS)
    return str(holder[key])[:40]
