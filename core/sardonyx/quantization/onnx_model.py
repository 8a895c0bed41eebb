"""A model in the hands of a quantizer, as onnxruntime's tool hands it out."""

from __future__ import annotations

import os
from typing import Any

from sardonyx.model.serde.writer import save
from sardonyx.quantization.proto import as_model, like


class ONNXModel:
    """A model that is being changed: `ir` is its graph here, `model` a ModelProto of it, made when it is asked for."""

    def __init__(self, model: Any) -> None:
        self._given = model
        self.ir = as_model(model)

    @property
    def model(self) -> Any:
        """The model as it is now: of the class that was given, else of the package onnx."""
        return like(self._given, self.ir)

    def save_model_to_file(self, output_path: str | os.PathLike[str], use_external_data_format: bool = False) -> None:
        """Write the model; with external data, tensors of 1 KiB and more go into a file beside it, named `.data`."""
        beside = f"{os.path.basename(os.fspath(output_path))}.data" if use_external_data_format else None
        save(self.ir, output_path, external_data=beside)
