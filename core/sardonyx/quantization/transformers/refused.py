"""What onnxruntime.transformers fuses models with before they are run: it can be imported, and says what to do."""

from __future__ import annotations

from typing import Any, NoReturn


class FusesBeforehand:
    """A class that cannot be made: NotImplementedError says why."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        refuse(type(self).__name__)


def refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name} fuses a model into another file, which Sardonyx does not: a session fuses what it runs; "
        "give InferenceSession the model as it is"
    )
