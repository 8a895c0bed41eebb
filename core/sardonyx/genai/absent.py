"""What onnxruntime-genai has and this does not: names that can be imported, and raise NotImplementedError with why."""

from __future__ import annotations

from typing import Any, NoReturn

from sardonyx.common.enums import Choice
from sardonyx.errors import NotImplemented


class _Absent:
    """A class whose making says why it cannot be used."""

    reason = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplemented(f"{type(self).__name__} is not implemented: {self.reason}")

    @classmethod
    def open(cls, *args: Any) -> NoReturn:
        raise NotImplemented(f"{cls.__name__} is not implemented: {cls.reason}")

    open_bytes = open


class _Serving(_Absent):
    reason = "requests are not scheduled together here; a Generator with a batch_size runs several prompts at once"


class Engine(_Serving):
    pass


class EngineCapabilities(_Serving):
    pass


class EngineEvent(_Serving):
    pass


class EngineEventBuffer(_Serving):
    pass


class Request(_Serving):
    pass


class RequestOptions(_Serving):
    pass


class TurnOptions(_Serving):
    pass


class TurnUsage(_Serving):
    pass


class MtpGenerator(_Absent):
    reason = "tokens are not predicted several at a time; Generator gives the same ones"


class Adapters(_Absent):
    reason = "adapters are fed to a session here: sardonyx.LoraAdapter and RunOptions.add_active_adapter"


class MultiModalProcessor(_Absent):
    reason = "pictures and sounds are not prepared here; Generator.set_model_input takes what a model wants of them"


class StreamingProcessor(_Absent):
    reason = "sound is not prepared here; Generator.set_model_input takes what a model wants of it"


class Images(MultiModalProcessor):
    pass


class Audios(MultiModalProcessor):
    pass


class EngineErrorCode(Choice):
    """Accepted for compatibility."""

    NONE = 0
    CAPACITY_DEFERRED = 1
    EXECUTION_CAPACITY_EXCEEDED = 2
    RETRYABLE_EXECUTION = 3
    REQUEST_UNSERVICEABLE = 4
    ENGINE_CONTRACT_FAILURE = 5
    ENGINE_EXECUTION_FAILURE = 6


class EngineEventFlags(Choice):
    """Accepted for compatibility."""

    NONE = 0
    TOKEN = 1
    TURN_FINISHED = 2
    CAPACITY_BLOCKED = 4
    FAILED = 8
    RETRYABLE = 16


class FinishReason(Choice):
    """Accepted for compatibility."""

    NONE = 0
    EOS = 1
    STOP_STRING = 2
    MAX_GENERATED_TOKENS = 3
    MAX_SESSION_TOKENS = 4
    CANCELLED = 5
    FAILED = 6
