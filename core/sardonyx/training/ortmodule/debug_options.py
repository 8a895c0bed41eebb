"""What an ORTModule says and writes about itself, in onnxruntime's words."""

from __future__ import annotations

import os
from enum import IntEnum

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model
from sardonyx.model.serde.writer import save


class LogLevel(IntEnum):
    """How much is said; from INFO on, what was exported, and why anew."""

    VERBOSE = 0
    INFO = 1
    WARNING = 2
    ERROR = 3
    FATAL = 4
    DEVINFO = 5


class DebugOptions:
    """`save_onnx` writes the models of a module into files whose names, or paths, begin with `onnx_prefix`."""

    def __init__(
        self, log_level: LogLevel = LogLevel.WARNING, save_onnx: bool = False, onnx_prefix: str | os.PathLike[str] = ""
    ) -> None:
        self.log_level = LogLevel(log_level)
        self.save_onnx = save_onnx
        self.onnx_prefix = os.fspath(onnx_prefix)
        if save_onnx and not self.onnx_prefix:
            raise InvalidArgument("save_onnx wants onnx_prefix, with which the names of the files begin")

    @property
    def speaks(self) -> bool:
        """Whether it says what it exports."""
        return self.log_level <= LogLevel.INFO

    def path(self, kind: str, training: bool) -> str:
        """The file of a model of this kind."""
        return f"{self.onnx_prefix}_{kind}_{'training' if training else 'inference'}.onnx"

    def keep(self, model: Model, kind: str, training: bool) -> None:
        """Write a model, if it is asked for."""
        if self.save_onnx:
            save(model, self.path(kind, training))
