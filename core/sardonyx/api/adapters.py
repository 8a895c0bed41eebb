"""LoRA adapters in files: the tensors that a model takes instead of some of its initializers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sardonyx.api.ort_value import OrtValue
from sardonyx.common.atomic import replacing
from sardonyx.model.serde.adapter_format import VERSION, Adapter, read_adapter, write_adapter
from sardonyx.model.serde.source import open_file


class AdapterFormat:
    """What is in a file of onnxruntime's format for adapters: read, or to be written.

    >>> import numpy as np
    >>> adapter = AdapterFormat()
    >>> adapter.set_parameters({"lora_a": OrtValue.ortvalue_from_numpy(np.zeros((4, 1), np.float32))})
    >>> adapter.get_parameters()["lora_a"].shape(), adapter.get_format_version()
    ([4, 1], 1)
    """

    def __init__(self, adapter: Adapter | None = None) -> None:
        contents = adapter or Adapter(0, 0, {})
        self._adapter_version, self._model_version = contents.adapter_version, contents.model_version
        self._parameters = {name: OrtValue(array, dtype) for name, (dtype, array) in contents.parameters.items()}

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """What is in a file; its tensors are views of it. InvalidProtobuf where it is none of this format."""
        return AdapterFormat(read_adapter(open_file(file_path)))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write a file of this format."""
        tensors = {name: value.stored() for name, value in self._parameters.items()}
        with replacing(file_path) as file:
            file.write(write_adapter(Adapter(self._adapter_version, self._model_version, tensors)))

    def get_format_version(self) -> int:
        return VERSION

    def set_adapter_version(self, adapter_version: int) -> None:
        self._adapter_version = int(adapter_version)

    def get_adapter_version(self) -> int:
        return self._adapter_version

    def set_model_version(self, model_version: int) -> None:
        self._model_version = int(model_version)

    def get_model_version(self) -> int:
        return self._model_version

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Have these tensors, by the names of the model's initializers; InvalidArgument where one is none."""
        for value in params.values():
            value.stored()
        self._parameters = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        return dict(self._parameters)


class LoraAdapter:
    """An adapter for `RunOptions.add_active_adapter`: runs with it take its tensors for initializers of their names."""

    def __init__(self) -> None:
        self.parameters: dict[str, OrtValue] = {}

    def Load(self, file_path: str | os.PathLike[str]) -> None:  # noqa: N802 - onnxruntime's name
        """Have what is in a file."""
        self.parameters = AdapterFormat.read_adapter(file_path).get_parameters()
