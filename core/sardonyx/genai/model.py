"""A model that writes text: its configuration, with the sessions that run its networks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.common.cached import cached_property
from sardonyx.common.record import replace
from sardonyx.genai import ports
from sardonyx.genai.absent import MultiModalProcessor, StreamingProcessor
from sardonyx.genai.config import Config
from sardonyx.genai.decoder import Decoder, Network
from sardonyx.genai.ports import Ports
from sardonyx.providers import registry

NEAR = 0.01
"""How far logits are apart, in parts of the largest, that roundings alone tell apart."""


class Model:
    """A model from a folder, the file of a decoder, or a `Config`."""

    def __init__(self, config: Config | str | os.PathLike[str]) -> None:
        self.config = config if isinstance(config, Config) else Config(config)
        decoder, encoder = self.config.decoder, self.config.model.get("encoder")
        self.network = self._network(self.config.decoder_model())
        self.first: Network | None = None
        if decoder.get("first"):
            self.first = self._network(self.config.source(decoder["first"]))
            known = replace(self.network.ports, last_only=self.first.ports.last_only)
            self.network = replace(self.network, ports=known)
        self.encoder = (
            self._session(self.config.source(encoder["filename"])) if encoder and encoder.get("filename") else None
        )

    def _session(self, source: str | bytes, rows: str = "") -> InferenceSession:
        """A session of a file, or of bytes, which gives chosen rows of an output where one is named."""
        options, providers = self.config.sessions()
        if rows:
            options.choose_rows(rows, ports.ROWS)
        return InferenceSession(source, options, providers)

    def _network(self, source: str | bytes) -> Network:
        """What gives logits, of chosen rows."""
        session = self._session(source, ports.logits_of(self.config.decoder))
        told = ports.told(session.get_inputs(), session.get_outputs(), self.config.decoder)
        chosen = ports.ROWS in told.known
        return Network(session, told, cache(lambda: self._session(source) if chosen else session))

    @property
    def session(self) -> InferenceSession:
        """The session of the decoder."""
        return self.network.session

    @property
    def ports(self) -> Ports:
        """What the decoder's inputs and outputs are for."""
        return self.network.ports

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

    @property
    def reading(self) -> Ports:
        """What the inputs and outputs of the first run are for, which takes what an encoder made."""
        return self.first.ports if self.first else self.ports

    def decoder(self, rows: int, given: Mapping[str, Any], most: int) -> Decoder:
        """A memory of so many rows; the arguments are those of `Decoder`."""
        return Decoder(self.network, rows, given, most, self.first)

    @cached_property
    def bears_padding(self) -> bool:
        """Whether prompts of a batch may differ in length.

        A model that takes positions is told them. Of another one this is tried: a token that follows padding must get
        the logits that it gets without.
        """
        known = self.reading
        if known.positions or known.unknown or known.encoded:
            return True
        if self.ports.last_only or not self.ports.mask:
            return False
        a, b, pad = (token % max(self.vocabulary, 1) for token in (3, 4, self.config.pad))
        plain = self.decoder(1, {}, 3).run(np.array([[a, b]]), np.array([[0, 1]]), np.ones((1, 2)))
        rows = self.decoder(2, {}, 3)
        rows.run(np.array([[a, b], [a, pad]]), np.array([[0, 1], [0, 0]]), np.array([[1, 1], [1, 0]]), np.array([1, 0]))
        padded = rows.run(np.array([[a], [b]]), np.array([[2], [1]]), np.array([[1, 1, 1], [1, 0, 1]]))
        return bool(abs(padded[1] - plain[0]).max() <= NEAR * abs(plain).max())

    def create_multimodal_processor(self) -> MultiModalProcessor:
        """Raises NotImplementedError."""
        return MultiModalProcessor()

    def create_streaming_processor(self) -> StreamingProcessor:
        """Raises NotImplementedError."""
        return StreamingProcessor(self)
