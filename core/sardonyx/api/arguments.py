"""What a session is made of and asked for, checked as onnxruntime checks it."""

from __future__ import annotations

import os
from typing import Any

from sardonyx.errors import NoSuchFile

BYTES = ("getvalue", "read", "SerializeToString", "to_py", "bytes")
"""The methods by which files in memory, files, models of `onnx`, a page's arrays and its answers give bytes."""


def check(given: Any, wanted: type | tuple[type, ...], name: str) -> None:
    """Raises TypeError where an argument is of another class."""
    if not isinstance(given, wanted):
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        raise TypeError(f"{name}: give a {first.__name__}, not a {type(given).__name__}")


def check_model(given: Any) -> None:
    """Raises TypeError where a model is no path and no bytes; NoSuchFile for what is never a path."""
    if isinstance(given, (str, os.PathLike)):
        if "\0" in str(os.fspath(given)):
            raise NoSuchFile(f"{os.fspath(given)} does not exist: no path has a zero in it")
        return
    try:
        memoryview(given)
    except TypeError:
        raise TypeError(_no_model(given)) from None


def _no_model(given: object) -> str:
    """What is wrong with something that is no model, and what would be one.

    >>> import io
    >>> _no_model(io.BytesIO())
    "Unable to load from type '<class '_io.BytesIO'>': a model is a path, or bytes, which its getvalue() gives"
    """
    way = next((f", which its {name}() gives" for name in BYTES if hasattr(given, name)), "")
    if hasattr(given, "__await__"):
        way = "; `await` gives what it will be"
    return f"Unable to load from type '{type(given)}': a model is a path, or bytes{way}"
