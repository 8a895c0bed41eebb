"""The engine's side of compiling in a page: what `web/sardonyx/compiler.js` calls in Pyodide."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sardonyx.api.bundling import bundle_of
from sardonyx.api.open_inputs import Typical
from sardonyx.errors import SardonyxError
from sardonyx.passes.changes import ModelChanges
from sardonyx.plans.plan_cache import Source


def compile(model: Any, targets: Any, shapes: Any, sizes: Any, files: Any = ()) -> Any:
    """The bundle of a model, an ArrayBuffer, which is emptied, as a Uint8Array; what is wrong with it as a text.

    `targets` is a list, `shapes` an object of sizes or Tensors by input name, or a list of such, `sizes` an object of
    sizes by their names, `files` a list of the paths and bytes of external data: JavaScript's.
    """

    def made(source: Source) -> Iterator[bytes | memoryview]:
        requested = shapes.to_py()
        buckets = [_bucket(each) for each in (requested if isinstance(requested, list) else [requested])]
        return bundle_of(source, targets.to_py(), buckets or [{}], sizes=sizes.to_py())

    return delivered(model, files, made)


def delivered(model: Any, files: Any, make: Callable[[Source], Iterator[bytes | memoryview]]) -> Any:
    """The bundle that is made of a model, as `compile` gives it."""
    from js import Uint8Array

    data = model.to_bytes()
    if hasattr(model, "transfer"):
        model.transfer(0)  # before garbage collection would find it
    try:
        changes = ModelChanges(files={path: content.to_bytes() for path, content in files})
        parts = list(make(Source(data, changes)))
    except Exception as error:
        return _text(error)
    bundle = Uint8Array.new(sum(map(len, parts)))
    end = 0
    for part in parts:
        bundle.subarray(end, end + len(part)).assign(part)
        end += len(part)
    return bundle


def _bucket(shapes: dict[str, Any]) -> dict[str, Typical]:
    """
    >>> _bucket({"x": [1, "?16"], "size": {"type": "int64", "data": [4, 4], "dims": [2]}})
    {'x': [1, '?16'], 'size': array([4, 4])}
    """
    return {
        name: np.asarray(each["data"]).reshape(each["dims"]) if isinstance(each, dict) else list(each)
        for name, each in shapes.items()
    }


def _text(error: Exception) -> str:
    """The message of an error, without a traceback."""
    text = " ".join(str(error).split())
    if isinstance(error, SardonyxError) and text:
        return text
    name = type(error).__name__
    return f"{name}: {text}" if text else name
