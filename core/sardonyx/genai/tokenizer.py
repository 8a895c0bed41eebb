"""The tokenizer of a model: text to tokens and back, and messages to text; a library does the work."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sardonyx.errors import InvalidValue, NoSuchFile, NotImplemented, SardonyxError
from sardonyx.genai import chat_template, export, gguf, gguf_tokenizer, javascript, layout
from sardonyx.genai.config import Config
from sardonyx.genai.model import Model
from sardonyx.genai.tensor import Tensor
from sardonyx.genai.token_stream import TokenizerStream

Array = npt.NDArray[Any]
OPTIONS = {"add_special_tokens": False, "skip_special_tokens": True}
"""What `update_options` changes, and how it is before."""
_SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class Tokenizer:
    """The tokenizer in the folder of a model: `tokenizer.json`, or that of a `.gguf` which lies there.

    Texts are encoded without a token of the beginning, which templates put in front; special tokens that stand in a
    text are taken for such, and left out of what is decoded. `update_options` changes both.
    """

    def __init__(self, source: Model | Config | str | os.PathLike[str]) -> None:
        given = source.config if isinstance(source, Model) else source
        self._config = given if isinstance(given, Config) else Config(given)
        self._options = dict(OPTIONS)
        text, self._settings = _files(self._config.folder)
        try:
            self._tokenizer = _library(text, self._settings)
        except SardonyxError:
            raise
        except Exception as error:  # the library raises no other class
            raise InvalidValue(f"the tokenizer.json of {self._config.folder} cannot be read: {error}") from error

    # ---- text and tokens

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        return np.array(self._encode(text), np.int32)

    def decode(self, tokens: Any) -> str:
        """The text of tokens."""
        numbers = np.asarray(tokens, np.int64).reshape(-1)
        if numbers.size and numbers.min() < 0:
            raise InvalidValue(f"{numbers.min()} is no token: they are numbered from 0 on")
        return self._decode(numbers.tolist())

    def encode_batch(self, texts: Sequence[str]) -> Tensor:
        """The tokens of several texts [texts, S], those of shorter ones with padding behind."""
        rows = [self._encode(text) for text in texts]
        most = max(map(len, rows), default=0)
        return Tensor(np.array([row + [self._config.pad] * (most - len(row)) for row in rows], np.int32))

    def decode_batch(self, tokens: Any) -> list[str]:
        """The texts of several rows of tokens."""
        return [self.decode(row) for row in (tokens.as_numpy() if isinstance(tokens, Tensor) else tokens)]

    def create_stream(self) -> TokenizerStream:
        """What gives text token by token."""
        return TokenizerStream(self._decode)

    def to_token_id(self, token: str) -> int:
        """The number of a token, -1 where there is none of this text."""
        found = self._tokenizer.token_to_id(token)
        return -1 if found is None else int(found)

    def to_json(self) -> str:
        """The tokenizer as `tokenizer.json` has it."""
        return str(self._tokenizer.to_str())

    def update_options(self, **options: Any) -> None:
        """Set `add_special_tokens` and `skip_special_tokens`, to booleans or their names."""
        for name, value in options.items():
            if name not in OPTIONS:
                raise InvalidValue(f"there is no option {name!r} of tokenizers, but {' and '.join(OPTIONS)}")
            self._options[name] = value.lower() in ("true", "1") if isinstance(value, str) else bool(value)

    def _encode(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=self._options["add_special_tokens"]).ids
        return found

    def _decode(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=self._options["skip_special_tokens"]))

    # ---- chats

    def apply_chat_template(
        self,
        messages: str | Sequence[Any],
        *,
        template_str: str | None = None,
        tools: str | Sequence[Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """The text of a chat, by the model's own template or another one; messages and tools are lists, or JSON."""
        values = {name: _content(self._settings[name]) for name in _SPECIAL if self._settings.get(name)}
        return chat_template.render(
            template_str or self.chat_template,
            {
                **values,
                "messages": _listed("messages", messages),
                "tools": _listed("tools", tools) if tools else None,
                "add_generation_prompt": add_generation_prompt,
            },
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What `tokenizer_config.json` has."""
        return dict(self._settings)

    @property
    def chat_template(self) -> str:
        """The model's own template of chats; InvalidValue where it has none."""
        found = self._settings.get("chat_template")
        if isinstance(found, list):
            named = {each.get("name"): each.get("template") for each in found}
            found = named.get("default") or next(iter(named.values()), None)
        if not found:
            raise InvalidValue("the model has no chat template; give one as template_str")
        return str(found)

    # ---- numbers of tokens

    @property
    def bos_token_id(self) -> int:
        return self._number("bos_token_id")

    @property
    def eos_token_ids(self) -> Array:
        return np.array(self._config.eos, np.int32)

    @property
    def pad_token_id(self) -> int:
        return self._config.pad

    @property
    def bor_token_id(self) -> int:
        return self._number("bor_token_id")

    @property
    def eor_token_id(self) -> int:
        return self._number("eor_token_id")

    @property
    def bot_token_id(self) -> int:
        return self._number("bot_token_id")

    @property
    def eot_token_id(self) -> int:
        return self._number("eot_token_id")

    def _number(self, name: str) -> int:
        found = self._config.model.get(name)
        if found is None:
            raise InvalidValue(f"{name} is not defined for this model")
        return int(found)


def _library(text: str, settings: dict[str, Any]) -> Any:
    """The tokenizer of a library, of what `tokenizer.json` and `tokenizer_config.json` hold."""
    try:
        import tokenizers
    except ImportError:
        if javascript.has_tokenizers():
            return javascript.Tokenizer(text, settings)
        raise NotImplemented(javascript.missing("tokenizers")) from None
    made = tokenizers.Tokenizer.from_str(text)
    made.encode_special_tokens = False
    made.no_padding()
    made.no_truncation()
    return made


def _files(folder: Path) -> tuple[str, dict[str, Any]]:
    """The texts of `tokenizer.json` and the settings beside it."""
    for place in (folder, folder.parent):
        if (place / "tokenizer.json").exists():
            settings = layout.read_json(place / "tokenizer_config.json", layout.SETTINGS)
            template = place / "chat_template.jinja"
            if template.exists():
                settings["chat_template"] = layout.read_text(template)
            return layout.read_text(place / "tokenizer.json"), settings
        if (file := export.gguf_beside(place)) is not None:
            told = gguf.read(file)
            return json.dumps(gguf_tokenizer.tokenizer(told)), gguf_tokenizer.settings(told)
    raise NoSuchFile(f"{folder} has no tokenizer.json, and no .gguf file from which one could be made")


def _content(token: Any) -> str:
    """The text of a special token, which is written in two ways."""
    return str(token.get("content", "") if isinstance(token, dict) else token)


def _listed(name: str, given: Any) -> list[Any]:
    """A list, or what JSON says that is one."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise InvalidValue(f"{name} are no JSON: {error}") from error
    if not isinstance(given, (list, tuple)):
        raise InvalidValue(f"{name} are a list, or JSON of one")
    return list(given)
