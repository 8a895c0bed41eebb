"""`sardonyx.compile`: a model as a bundle, which runs in pages, and in Python without the compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from sardonyx.api.bundling import bundle_of
from sardonyx.api.open_inputs import Typical
from sardonyx.api.options import SessionOptions
from sardonyx.plans.plan_cache import Source


def compile(
    model: str | os.PathLike[str] | bytes,
    target: str | Sequence[str] = "wasm",
    *,
    sizes: Mapping[str, int | str] | None = None,
    shapes: Mapping[str, Typical] | Sequence[Mapping[str, Typical]] = (),
    options: SessionOptions | None = None,
    weights: str = "float32",
    compress: bool = True,
    caches: Mapping[str, str] | None = None,
) -> bytes:
    """The bundle of a model, given by its path or its bytes, for "wasm", "webgpu" or both.

    `sizes` are those of named dimensions: a number, `"?16"` for what is open and typically 16, or `"P + S"`. `shapes`
    are those of inputs, or typical values, or several sets of such; what neither tells stays open, with plans for 0, 1
    and more. Large weights are stored as `weights` says, "float32", "float16", "int8" or "int4". What is not compressed
    is larger, and Python maps it. `caches` are inputs with the outputs that add to them; the bundle is then for
    `InferenceSession.caches` alone.

    Raises InvalidArgument for what makes no sense, NotImplemented for nodes that cannot be part of a bundle.

    >>> from sardonyx.demo import assets
    >>> from sardonyx import InferenceSession
    >>> bundle = compile(assets() / "digits.onnx", sizes={"N": "?4"})
    >>> InferenceSession(bundle).get_inputs()[0].shape
    ['N', 1, 28, 28]
    """
    options = options or SessionOptions()
    targets = [target] if isinstance(target, str) else target
    buckets = [shapes] if isinstance(shapes, Mapping) else shapes or [{}]
    source = Source(model, options.changes)
    parts = bundle_of(source, targets, buckets, options, sizes=sizes, compress=compress, weights=weights, caches=caches)
    return b"".join(parts)
