"""Compiled code on disk: $XDG_CACHE_HOME/sardonyx, or ~/.cache/sardonyx; SARDONYX_CACHE=0 turns it off."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

_KEPT = 256  # files; the least recently used go
_DIGEST = hashlib.sha256().digest_size


def directory() -> Path | None:
    """Where compiled code is kept, None if nowhere."""
    if os.environ.get("SARDONYX_CACHE") == "0":
        return None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sardonyx"
    except RuntimeError:  # no home directory
        return None


def _path(key: bytes) -> Path | None:
    folder = directory()
    return folder and folder / f"{hashlib.sha256(key).hexdigest()}.cwasm"


def read(key: bytes) -> bytes | None:
    """What `write` kept under this key, None if there is nothing whole."""
    path = _path(key)
    try:
        stored = path.read_bytes() if path else b""
        payload = stored[_DIGEST:]
        if not path or hashlib.sha256(payload).digest() != stored[:_DIGEST]:
            return None
        os.utime(path)
    except OSError:
        return None
    return payload


def write(key: bytes, payload: bytes) -> None:
    """Keep `payload`; a disk that refuses is no error. Another process sees all of it or nothing."""
    path = _path(key)
    if path is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with open(descriptor, "wb") as output:
                output.write(hashlib.sha256(payload).digest() + payload)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        for old in sorted(path.parent.glob("*.cwasm"), key=os.path.getmtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return
