"""What can happen to a bundle on its way, or in the hands of who wants to do harm; random numbers say what does.

Bytes change, which checksums tell; and under checksums that are right, elements of weights, and what is said
of shaders.
"""

from __future__ import annotations

import json
import random
import zlib

from sardonyx.plans.bundle import Bundle
from tests.fuzz import manifests
from tests.fuzz.mutations import BYTES, INTEGERS, flip

Random = random.Random

FILLS = [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"]


def mutate(rng: Random, data: bytes, other: bytes) -> tuple[str, bytes]:
    """A damaged bundle, and what became of it; pieces come from the `other` one."""
    if rng.random() < 0.25:
        change = rng.choice(BYTES)
        return change.__name__, change(rng, data, other)
    bundle = Bundle(data)
    sections = {name: data[place.offset : place.offset + place.nbytes] for name, place in bundle.sections.items()}
    names = list(sections)
    weights = [name for name in bundle.manifest["weights"] if sections[name]]
    if rng.random() < 0.2 or not weights:
        one, two = rng.choice(names), rng.choice(names)
        sections[one], sections[two] = sections[two], sections[one]
        done = f"{one} and {two} change places"
    else:
        name = rng.choice(weights)
        sections[name] = _other_elements(rng, sections[name])
        done = f"{name} has other elements"
    return done, rewritten(bundle, sections)


def shaders(rng: Random, data: bytes) -> tuple[str, bytes]:
    """A section of shaders that says something else of them, or is no JSON, and what that is."""
    told = json.loads(data)
    if rng.random() < 0.2:
        return "bits", flip(rng, data, data)
    holder, key = rng.choice(list(manifests.places(told)))
    changed = manifests.change(rng, holder, key)
    return f"{key!r} -> {changed}", json.dumps(told).encode()


def rewritten(bundle: Bundle, sections: dict[str, bytes]) -> bytes:
    """A bundle of these sections, with the right checksums."""
    listed = [
        [name, len(sections[name]), zlib.crc32(sections[name]), *rest]
        for name, _, _, *rest in bundle.manifest["sections"]
    ]
    return manifests.rewritten({**bundle.manifest, "sections": listed}, [*sections.values()])


def _other_elements(rng: Random, data: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return flip(rng, data, data)
    if kind == 1:
        return rng.randbytes(len(data))
    if kind == 2:
        return rng.choice(FILLS) * len(data)
    width = rng.choice([width for width in (1, 2, 4, 8) if len(data) % width == 0])
    at = rng.randrange(len(data) // width) * width
    number = rng.choice(INTEGERS) % (1 << 8 * width)
    return data[:at] + number.to_bytes(width, "little") + data[at + width :]
