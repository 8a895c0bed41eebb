"""The exceptions of the public API, named as onnxruntime names them."""

from __future__ import annotations

LONGEST = 2000
"""Characters of an error's text."""


def printable(text: str, keep: str = "") -> str:
    """A name as errors show it: what cannot be printed, but for the characters in `keep`, is escaped.

    >>> printable("a\\nb\\0")
    'a\\\\nb\\\\x00'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


class SardonyxError(RuntimeError):
    """The base of every error that this package raises on purpose; onnxruntime-genai and -training know no other kind.

    Names in models are arbitrary: what cannot be printed is shown escaped, and the middle of a very long text left out.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) > LONGEST:
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
        return printable(text, keep="\n")


class Fail(SardonyxError):
    """Something failed that has no class of its own."""


class InvalidArgument(SardonyxError, ValueError):
    """A feed, an output name or an option does not fit the model."""


class UnsoundError(InvalidArgument):
    """A plan that was read, or what came with it, cannot be run."""


class InvalidValue(InvalidArgument):
    """What is given makes no sense, where onnxruntime raises a bare RuntimeError."""


class NoSuchFile(SardonyxError, FileNotFoundError):
    """The model, or a file that it names, does not exist."""


class NoModel(SardonyxError):
    """No model was given."""


class EngineError(SardonyxError):
    """An execution provider's device or compiler failed."""


class DeviceLost(EngineError):
    """A device is gone, with all that lay on it: its driver was reset, or the system took it away."""


class DeviceReset(DeviceLost):
    """onnxruntime's name for a device that was reset."""


class MustAwait(EngineError):
    """A device has to be waited for, and only asynchronous Python can wait here."""


class RuntimeException(SardonyxError):
    """A node failed while the model was running."""


class InvalidProtobuf(SardonyxError, ValueError):
    """The bytes are not an ONNX model."""


class ModelLoaded(SardonyxError):
    """A model was loaded already."""


class ModelLoadCanceled(SardonyxError):
    """The session's options were told to end its making (`SessionOptions.set_load_cancellation_flag`)."""


class ModelRequiresCompilation(SardonyxError):
    """A model must be compiled before; nothing here raises it."""


class NotFound(SardonyxError, LookupError):
    """What was asked for by name is not there."""


class NotImplemented(SardonyxError, NotImplementedError):
    """An operator, data type or option that nothing here implements."""


class InvalidGraph(SardonyxError, ValueError):
    """The model breaks a rule of ONNX."""


class EPFail(SardonyxError):
    """An execution provider cannot do what it was asked."""


class InvalidGuard(SardonyxError):
    """The sizes of this call do not fit a plan that has no compiler behind it."""
