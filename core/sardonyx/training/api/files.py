"""Sessions of the files that `generate_artifacts` writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.api.session import InferenceSession
from sardonyx.errors import InvalidArgument, SardonyxError
from sardonyx.model.serde.reader import read

FOREIGN = ("lazy_reset_grad", "params")
"""An input that training models, and optimizers, of onnxruntime's own tool have."""


def session(
    uri: str | os.PathLike[str] | bytes, options: SessionOptions | None, providers: Sequence[Any] | None
) -> InferenceSession:
    """A session of a file, or its bytes. InvalidArgument says where onnxruntime's own tool wrote it."""
    model = os.fspath(uri)
    try:
        return InferenceSession(model, options, providers)
    except SardonyxError:
        if not any(value.name in FOREIGN for value in read(model).graph.inputs):
            raise
    what = "this model" if isinstance(model, bytes) else model
    raise InvalidArgument(
        f"{what} was written by onnxruntime's generate_artifacts, whose gradients are operators of its own: write it "
        "anew by sardonyx.training.artifacts; the checkpoint can stay"
    )
