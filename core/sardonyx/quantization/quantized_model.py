"""A model in the hands of a quantizer, of which a ModelProto is made only where one is asked for."""

from __future__ import annotations

import os
from typing import Any

from sardonyx.quantization.network import Network
from sardonyx.quantization.onnx_model import ONNXModel
from sardonyx.quantization.proto import as_model, like


class QuantizedModel(ONNXModel):
    """An ONNXModel whose graph is `ir` until `model` is asked for, which needs the package onnx; writing does not."""

    def __init__(self, model: Any) -> None:
        self._given = model
        self._proto: Any = None
        self.ir = as_model(model)

    @property
    def model(self) -> Any:
        """The model as it is now, of the class that was given; what is done to it counts from here on."""
        if self._proto is None:
            self._proto = like(self._given, self.ir)
        return self._proto

    @model.setter
    def model(self, proto: Any) -> None:
        self._proto = proto

    def save_model_to_file(self, output_path: str | os.PathLike[str], use_external_data_format: bool = False) -> None:
        """Sort the nodes and write a file, with large tensors in another one beside it where that is asked for."""
        if self._proto is None:
            Network(self.ir).save(output_path, use_external_data_format)
        else:
            super().save_model_to_file(output_path, use_external_data_format)
