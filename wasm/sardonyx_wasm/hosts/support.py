"""What may be missing: wasmtime's library, a processor that it writes code for, instructions of an engine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common import memory

DType: TypeAlias = np.dtype[Any] | type[np.generic]


def library() -> str | None:
    """wasmtime's shared library, None where the package is not installed, or came without one for this platform."""
    spec = find_spec("wasmtime")
    folders = (spec and spec.submodule_search_locations) or ()
    for folder in folders:
        for system in sorted(name for name in os.listdir(folder) if "-" in name):
            for name in os.listdir(os.path.join(folder, system)):
                if "wasmtime." in name:
                    return os.path.join(folder, system, name)
    return None


def has_code_generator() -> bool:
    """Whether wasmtime can write code for this processor."""
    return sys.maxsize > 2**32 and platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")


ADDRESSES = 5 << 30
"""Bytes of addresses that a process needs: wasmtime reserves more than 4 GiB for a memory, before any of it is used."""


def has_addresses() -> bool:
    """Whether this process may have the addresses that a memory is given."""
    return memory.addresses() > ADDRESSES


def _probe(start: str, zeros: int, instruction: str) -> bytes:
    head = "0061736d01000000010401600000020f0103656e76066d656d6f7279020001030201000a"
    tail = "1a0b000f046e616d65010801000570726f6265"
    return bytes.fromhex(head + start + zeros * ("fd0c" + 16 * "00") + instruction + tail)


PROBES = {"simd": _probe("2c012a00", 2, "fde401"), "relaxed-simd": _probe("3e013c00", 3, "fd8502")}
"""Feature -> a module that is valid where it exists: a function with an addition of f32x4, or f32x4.relaxed_madd.

They are written out, since most processes find their code in the cache and need no assembler.
"""
