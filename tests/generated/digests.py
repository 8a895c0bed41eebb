"""What is generated for a model: digests of its plans, of their code, and of its bundles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import sardonyx
from sardonyx.api.bundling import bundle_of
from sardonyx.numpy_backend import codegen
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source
from sardonyx_wasm.hosts import wasmtime

Feeds = Mapping[str, Any]
SIDES = {"numpy": "NumpyExecutionProvider", "wasm": "WasmExecutionProvider"}
TARGETS = ("wasm", "webgpu")


def digests(model: Any, feeds: Feeds) -> Iterator[tuple[str, str]]:
    """What is generated, and its digest; for what is refused, the digest of what is said."""
    for side, provider in SIDES.items():
        with modules() as compiled:
            try:
                session = sardonyx.InferenceSession(model, providers=[provider])
                session.run(None, dict(feeds))
            except sardonyx.errors.SardonyxError as error:
                yield f"{side} refusal", digest([str(error).encode()])
                continue
        plans = session.plans
        yield f"{side} plans", digest(json.dumps(told(plan)).encode() for plan in plans)
        if side == "numpy":
            yield "numpy source", digest(source.encode() for plan in plans for source in sources(plan))
        else:
            yield "wasm modules", digest(sorted(compiled))
    shapes = {name: np.shape(feed) for name, feed in feeds.items()}
    for target in TARGETS:
        try:
            yield f"{target} bundle", digest(bundle_of(Source(model), [target], [shapes]))
        except sardonyx.errors.SardonyxError as error:
            yield f"{target} refusal", digest([str(error).encode()])


def told(plan: Plan) -> dict[str, Any]:
    """A plan as data, its weights as digests."""
    return plan.data(lambda array: [str(array.dtype), array.shape, digest([np.ascontiguousarray(array).tobytes()])])


def sources(plan: Plan) -> Iterator[str]:
    """The Python that NumPy's provider makes of kernels."""
    for data in plan.codes:
        code = code_of(data)
        if type(code).__name__ == "Kernel":
            yield codegen.source(code)
    for function in plan.functions:
        for inner in function:
            yield from sources(inner)


@contextmanager
def modules() -> Iterator[list[bytes]]:
    """The WebAssembly that is handed to wasmtime within the block."""
    seen: list[bytes] = []
    compile = wasmtime.Code.compile

    def noted(engine: Any, data: bytes) -> Any:
        seen.append(hashlib.sha256(data).digest())
        return compile(engine, data)

    with mock.patch.object(wasmtime.Code, "compile", noted):
        yield seen


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """The digest of bytes in order."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part)
    return hashed.hexdigest()[:16]
