"""Fingerprints that tell apart what is kept: sources, plans, compiled modules.

BLAKE2 is the interpreter's own. `hashlib` loads OpenSSL, which takes 3 MB of memory, as long as BLAKE2 takes for 3 MB.
"""

from __future__ import annotations

from typing import Protocol

try:
    from _blake2 import blake2b
except ImportError:  # another interpreter than CPython
    from hashlib import blake2b

SIZE = 32
"""Bytes of a digest."""
LARGE = 1 << 25
"""Bytes from which on OpenSSL is worth its loading."""


class Fingerprint(Protocol):
    """What objects of `hashlib` have in common."""

    def update(self, data: bytes | memoryview, /) -> None: ...

    def digest(self) -> bytes: ...

    def hexdigest(self) -> str: ...


def fingerprint(*parts: bytes | memoryview) -> Fingerprint:
    """The hash object of bytes, or of several one after another.

    >>> fingerprint(b"on", b"nx").hexdigest() == fingerprint(b"onnx").hexdigest()
    True
    """
    hasher: Fingerprint = blake2b(digest_size=SIZE)
    if sum(map(len, parts)) >= LARGE:
        import hashlib

        hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher
