"""Models as callers hold them: paths, bytes, and ONNX's ModelProto, whose class is that of what was given."""

from __future__ import annotations

import os
from typing import Any

from sardonyx.common.extras import missing
from sardonyx.model.ir import Model
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.passes.copy import copy_model


def is_proto(given: Any) -> bool:
    """Whether this is a message of protobuf."""
    return hasattr(given, "SerializeToString")


def as_model(given: Any) -> Model:
    """A model that may be changed: of a path, of bytes, of a ModelProto, or a copy of a Model.

    NoSuchFile, InvalidProtobuf and InvalidGraph say what is wrong with a file.
    """
    if isinstance(given, Model):
        return copy_model(given)
    if is_proto(given):
        return read(given.SerializeToString())
    if isinstance(given, (str, os.PathLike, bytes, bytearray, memoryview)):
        return read(given)
    raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(given).__name__}")


def as_proto(model: Model) -> Any:
    """The model as the package `onnx` has it; ImportError says how to install that."""
    try:
        from onnx import ModelProto
    except ImportError:
        raise ImportError(f"a ModelProto is asked for, and {missing('onnx')}") from None
    return ModelProto.FromString(write(model))


def like(given: Any, model: Model) -> Any:
    """A model as a ModelProto, of the class of what was given where that is one."""
    return type(given).FromString(write(model)) if is_proto(given) else as_proto(model)
