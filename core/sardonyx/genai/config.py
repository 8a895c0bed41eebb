"""The configuration of a model that writes text: genai's `genai_config.json`, or what an export's own files tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from sardonyx.api.options import SessionOptions
from sardonyx.errors import InvalidValue, NoSuchFile, NotImplemented
from sardonyx.genai import export, layout, pipeline
from sardonyx.genai.search_options import TYPES, SearchOptions
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import write
from sardonyx.providers import registry

FILE = "genai_config.json"


class Config:
    """What is known of a model before it is loaded, from a folder, or a model's file.

    `data` is laid out as `genai_config.json` is; a folder without that file is described by `sardonyx.genai.export`.
    Scripts change it by `overlay`, and choose providers by onnxruntime-genai's names, or onnxruntime's.
    """

    def __init__(self, config_path: str | os.PathLike[str]) -> None:
        path = Path(config_path)
        if not path.exists():
            raise NoSuchFile(f"{path} does not exist; a model is a folder with {FILE} or config.json, or an .onnx file")
        self.folder = path if path.is_dir() else path.parent
        if path.is_dir() and (path / FILE).exists():
            self.data = layout.read_json(path / FILE, layout.CONFIGURATION)
        else:
            self.data = layout.sound(export.described(path), layout.CONFIGURATION, f"what lies in {self.folder}")
        self.model_data: dict[str, bytes] = {}

    # ---- changing it

    def overlay(self, json_text: str) -> None:
        """Put values over those that there are, from JSON of the same layout, with search options that there are."""
        change = layout.parsed(json_text, "the overlay", layout.CONFIGURATION)
        SearchOptions().set(**(change.get("search") or {}))
        _merge(self.data, change)

    def clear_providers(self) -> None:
        """Forget which providers were asked for: `CPUExecutionProvider` then is."""
        self._session_options["provider_options"] = []

    def append_provider(self, name: str) -> None:
        """Ask for a provider after those that were asked for, as in `webgpu`, `wasm` or `cpu`."""
        if name.lower() not in (known.lower() for known, _ in self.providers()):
            self._provider_options.append({name: {}})

    def set_provider_option(self, name: str, key: str, value: str) -> None:
        """Set an option of a provider, which is asked for where it was not yet."""
        self.append_provider(name)
        for entry in self._provider_options:
            for known, options in entry.items():
                if known.lower() == name.lower():
                    options[key] = value

    def set_decoder_provider_options_hardware_device_type(self, name: str, value: str) -> None:
        """Accepted: a provider has one device."""

    def set_decoder_provider_options_hardware_device_id(self, name: str, value: int) -> None:
        """Accepted: a provider has one device."""

    def set_decoder_provider_options_hardware_vendor_id(self, name: str, value: int) -> None:
        """Accepted: a provider has one device."""

    def clear_decoder_provider_options_hardware_device_type(self, name: str) -> None:
        """Accepted: a provider has one device."""

    def clear_decoder_provider_options_hardware_device_id(self, name: str) -> None:
        """Accepted: a provider has one device."""

    def clear_decoder_provider_options_hardware_vendor_id(self, name: str) -> None:
        """Accepted: a provider has one device."""

    @staticmethod
    def from_package_ep(config_path: str, ep: str) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplemented("packages of several variants cannot be read; give the folder of one")

    def add_model_data(self, filename: str, data: Any) -> None:
        """Give the bytes of a model's file, which is then not looked for in the folder."""
        self.model_data[filename] = bytes(data)

    def remove_model_data(self, filename: str) -> None:
        """Forget the bytes of a file."""
        self.model_data.pop(filename, None)

    # ---- reading it

    @property
    def model(self) -> dict[str, Any]:
        """The part about the model."""
        part: dict[str, Any] = self.data.setdefault("model", {})
        return part

    @property
    def decoder(self) -> dict[str, Any]:
        """The part about the network that gives logits."""
        part: dict[str, Any] = self.model.setdefault("decoder", {})
        return part

    @property
    def eos(self) -> list[int]:
        """The tokens that end a text."""
        given = self.model.get("eos_token_id")
        return [int(token) for token in given] if isinstance(given, list) else [] if given is None else [int(given)]

    @property
    def pad(self) -> int:
        """The token that stands where there is none; an end where none is named."""
        given = self.model.get("pad_token_id")
        return int(given) if given is not None else (self.eos or [0])[0]

    @property
    def decoder_start(self) -> int:
        """The token with which the decoder begins after an encoder."""
        given = self.model.get("decoder_start_token_id")
        return int(given) if given is not None else self.pad

    @property
    def context(self) -> int:
        """The longest sequence that the model knows, 0 where that is not told."""
        return int(self.model.get("context_length") or 0)

    def search_options(self) -> SearchOptions:
        """The options of a search that this configuration begins with."""
        options = SearchOptions()
        given = self.data.get("search") or {}
        options.set(**{name: value for name, value in given.items() if name in TYPES and value is not None})
        if not options.max_length:
            options.max_length = self.context
        return options

    def source(self, filename: str) -> str | bytes:
        """A model's file: the bytes that were given for it, or its path."""
        if filename in self.model_data:
            return self.model_data[filename]
        path = self.folder / filename
        if not os.path.exists(path):  # pathlib's raises OSError for a name that is too long
            raise NoSuchFile(f"{path} does not exist; {FILE} names it")
        return str(path)

    def decoder_model(self) -> str | bytes:
        """The decoder: its file, or of a pipeline the bytes of one model of all stages."""
        if "filename" in self.decoder:
            return self.source(self.decoder["filename"])
        if not self.decoder.get("pipeline"):
            raise InvalidValue(f"{FILE} names no file of the decoder: neither a filename nor a pipeline")
        files = pipeline.filenames(self.decoder["pipeline"])
        return write(pipeline.joined([read(self.source(file)) for file in files]))

    def providers(self) -> list[tuple[str, dict[str, str]]]:
        """The providers that are asked for, as they are called here, with their options."""
        return [(name, dict(options)) for entry in self._provider_options for name, options in entry.items()]

    def sessions(self) -> tuple[SessionOptions, list[tuple[str, dict[str, str]]] | None]:
        """The options of sessions, and onnxruntime's names of the providers, None where none is asked for.

        Of `session_options` those with a dot in their names are entries, as `"session.memory_limit": "300 MB"`.
        """
        options = SessionOptions()
        for name, value in self._session_options.items():
            if name in _SESSION:
                setattr(options, name, value)
            elif isinstance(value, str) and "." in name:
                options.add_session_config_entry(name, value)
        asked = [(registry.full_name(_ELSEWHERE.get(name.lower(), name)), given) for name, given in self.providers()]
        if asked and registry.CPU not in [name for name, _ in asked]:
            asked.append((registry.CPU, {}))
        return options, asked or None

    @property
    def _session_options(self) -> dict[str, Any]:
        part: dict[str, Any] = self.decoder.setdefault("session_options", {})
        return part

    @property
    def _provider_options(self) -> list[dict[str, dict[str, str]]]:
        part: list[dict[str, dict[str, str]]] = self._session_options.setdefault("provider_options", [])
        return part


_SESSION = ("enable_cpu_mem_arena", "enable_mem_pattern", "inter_op_num_threads", "intra_op_num_threads")
_ELSEWHERE = {name.removesuffix(registry.SUFFIX).lower(): name for name in registry.ELSEWHERE}


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Put one tree of values over another; lists are replaced."""
    for name, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(name), dict):
            _merge(below[name], value)
        else:
            below[name] = value
