"""An encoder, which is run once for a text or a sound that a decoder then reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.api.session import InferenceSession
from sardonyx.errors import InvalidValue
from sardonyx.genai.ports import ENCODED, IDS, MASK, OTHERS, Ports

Array = npt.NDArray[Any]
FEATURES = ("input_features", "audio_features", "pixel_values", "input_values")
"""What encoders take that read no tokens."""


class Encoder:
    """The encoder of a model, and where its results go."""

    def __init__(self, session: InferenceSession, ports: Ports) -> None:
        self._session = session
        self._ports = ports
        self._inputs = {each.name: each.type for each in session.get_inputs()}
        self._outputs = [each.name for each in session.get_outputs()]

    @property
    def reads_tokens(self) -> bool:
        """Whether it is for tokens; else a caller gives its input by name."""
        return IDS in self._inputs

    def run(self, tokens: Array | None, mask: Array | None, given: Mapping[str, Array]) -> dict[str, Array]:
        """What the decoder is given of tokens [rows, S] with their mask, or of inputs by their names."""
        feeds = {name: given[name] for name in self._inputs if name in given}
        if tokens is not None and mask is not None:
            feeds |= {name: array for name, array in ((IDS, tokens), (MASK, mask)) if name in self._inputs}
        missing = [name for name in self._inputs if name not in feeds]
        if missing:
            raise InvalidValue(f"the encoder wants input {missing[0]!r}; Generator.set_model_input gives it")
        feeds = {name: _as(array, self._inputs[name]) for name, array in feeds.items()}
        results = dict(zip(self._outputs, self._session.run(None, feeds), strict=True))
        found = {}
        if self._ports.encoded:
            names = (self._ports.encoded, ENCODED, *OTHERS[ENCODED], "last_hidden_state", self._outputs[0])
            found[self._ports.encoded] = next(results[name] for name in names if name in results)
        if self._ports.encoded_mask and mask is not None:
            found[self._ports.encoded_mask] = mask
        for each in self._ports.past:
            made = each.input.replace("past", "present")
            if each.cross and made in results:
                found[each.input] = results[made]
        return found


def _as(array: Array, kind: str) -> Array:
    """An array as the type of an input."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return np.ascontiguousarray(array, {"float": "float32", "double": "float64"}.get(name, name))
