"""A model that writes text: its configuration, with the sessions that run its networks."""

from __future__ import annotations

import os
from typing import Any

from sardonyx.api.session import InferenceSession
from sardonyx.genai import ports
from sardonyx.genai.absent import MultiModalProcessor, StreamingProcessor
from sardonyx.genai.config import Config
from sardonyx.providers import registry


class Model:
    """A model from a folder, the file of a decoder, or a `Config`."""

    def __init__(self, config: Config | str | os.PathLike[str]) -> None:
        self.config = config if isinstance(config, Config) else Config(config)
        options, providers = self.config.sessions()

        def session(part: dict[str, Any]) -> InferenceSession:
            return InferenceSession(self.config.source(part["filename"]), options, providers)

        decoder, encoder = self.config.decoder, self.config.model.get("encoder")
        self.session = session(decoder)
        self.ports = ports.told(self.session.get_inputs(), self.session.get_outputs(), decoder)
        self.encoder = session(encoder) if encoder and encoder.get("filename") else None

    @property
    def type(self) -> str:
        """The kind of network, as its configuration calls it."""
        return str(self.config.model.get("type") or "decoder")

    @property
    def device_type(self) -> str:
        """What it runs on."""
        return "WebGPU" if self.session.get_providers()[0] == registry.WEBGPU else "CPU"

    @property
    def vocabulary(self) -> int:
        """How many tokens there are, 0 where nothing tells."""
        return self.ports.vocabulary or int(self.config.model.get("vocab_size") or 0)

    def create_multimodal_processor(self) -> MultiModalProcessor:
        """Raises NotImplementedError."""
        return MultiModalProcessor()

    def create_streaming_processor(self) -> StreamingProcessor:
        """Raises NotImplementedError."""
        return StreamingProcessor(self)
