"""What loading and running a model raises: in onnxruntime-genai that is RuntimeError, so that all of it is one here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.errors import InvalidValue, NoSuchFile, RuntimeException, SardonyxError


class ModelFileError(NoSuchFile, RuntimeError):
    """A file of a model does not exist."""


@contextmanager
def runtime_errors() -> Iterator[None]:
    """Have errors of this package be RuntimeErrors as well, of the nearest class that is one.

    >>> with runtime_errors():
    ...     raise NoSuchFile("model.onnx does not exist")
    Traceback (most recent call last):
        ...
    sardonyx.genai.refusals.ModelFileError: model.onnx does not exist
    """
    try:
        yield
    except SardonyxError as error:
        if isinstance(error, RuntimeError):
            raise
        kinds = {FileNotFoundError: ModelFileError, ValueError: InvalidValue, Exception: RuntimeException}
        kind = next(made for base, made in kinds.items() if isinstance(error, base))
        raise kind(str(error)) from error
