"""Texts as the inputs of an encoder of texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sardonyx.common.extras import missing
from sardonyx.errors import InvalidArgument, NoSuchFile

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""What encoders take of a text."""


class Texts:
    """A `tokenizer.json`, or a folder with one, that makes inputs of texts."""

    def __init__(self, tokenizer: str | os.PathLike[str], inputs: Sequence[str]) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ImportError(f"texts are to be encoded, and {missing('tokenizers')}") from None
        path = Path(tokenizer)
        path = path / "tokenizer.json" if path.is_dir() else path
        if not path.exists():
            raise NoSuchFile(f"the tokenizer {path} does not exist")
        if strangers := [name for name in inputs if name not in INPUTS]:
            raise InvalidArgument(f"the model has an input {strangers[0]!r}; of a text come {', '.join(INPUTS)}")
        self._tokenizer = Tokenizer.from_file(os.fspath(path))
        self._tokenizer.no_padding()
        self._inputs = [*inputs]

    def __call__(self, text: str) -> dict[str, NDArray[np.int64]]:
        """The inputs [1, T] of one text."""
        found = self._tokenizer.encode(text)
        rows = dict(zip(INPUTS, (found.ids, found.attention_mask, found.type_ids), strict=True))
        return {name: np.array([rows[name]], np.int64) for name in self._inputs}
