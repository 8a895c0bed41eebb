"""How the JSON files of a model are laid out: of which kinds the values are that are read here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from sardonyx.errors import InvalidValue, NoSuchFile

Kind: TypeAlias = "type | dict[str, Kind] | list[Kind] | tuple[Kind, ...]"
"""str, int, dict or object (anything); an object by names, `*` for any; a list of a kind; or one of several."""

_PORTS: Kind = {"*": str}
_STAGES: Kind = {"*": dict}
_TOKENS = ("bos", "pad", "decoder_start", "bor", "eor", "bot", "eot")
CONFIGURATION: Kind = {
    "model": {
        "type": str,
        "context_length": int,
        "vocab_size": int,
        "eos_token_id": (int, [int]),
        **{f"{name}_token_id": int for name in _TOKENS},
        "encoder": {"filename": str},
        "decoder": {
            "filename": str,
            "first": str,
            "pipeline": (_STAGES, [_STAGES]),
            "inputs": _PORTS,
            "outputs": _PORTS,
            "head_size": int,
            "num_attention_heads": int,
            "num_key_value_heads": int,
            "session_options": {"provider_options": [{"*": dict}]},
        },
    },
    "search": dict,
}
"""That of `genai_config.json`."""
_TEXT: Kind = (str, {"content": str})
SETTINGS: Kind = {
    "chat_template": (str, [{"name": str, "template": str}]),
    **{f"{name}_token": _TEXT for name in ("bos", "eos", "unk", "pad", "sep", "cls", "mask")},
}
"""That of `tokenizer_config.json`."""
TOKENIZER: Kind = {"added_tokens": [{"id": int, "content": str}]}
"""That of `tokenizer.json`, as far as it is not the library's."""
GGUF: Kind = {
    "general.architecture": str,
    "tokenizer.chat_template": str,
    **{f"tokenizer.ggml.{name}": str for name in ("model", "pre")},
    **{f"tokenizer.ggml.{name}": [str] for name in ("tokens", "merges")},
    "tokenizer.ggml.token_type": [int],
    **{f"tokenizer.ggml.{name}_token_id": int for name in ("bos", "eos", "padding", "unknown")},
}
"""That of the metadata of GGUF files."""
_NAMES = {str: "text", int: "a whole number of 32 bits", dict: "an object"}


def read_text(path: Path) -> str:
    """The text of a file; NoSuchFile where there is none that can be read, InvalidValue where it is no text."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}") from error


def read_json(path: Path, kind: Kind = dict) -> dict[str, Any]:
    """The object in a file, empty where there is none; InvalidValue where it is no JSON of this kind."""
    return parsed(read_text(path), str(path), kind) if path.exists() else {}


def parsed(text: str, source: str, kind: Kind = dict) -> dict[str, Any]:
    """The object that is written as JSON; errors call it `source`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"{source} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidValue(f"{source} holds no JSON object")
    checked: dict[str, Any] = sound(found, kind, source)
    return checked


def sound(value: Any, kind: Kind, source: str, place: str = "") -> Any:
    """A copy of a value of this kind without what is null; InvalidValue names the place of what is of another kind.

    >>> sound({"model": {"type": "llama", "vocab_size": None, "x": []}}, CONFIGURATION, "it")
    {'model': {'type': 'llama', 'x': []}}
    >>> sound({"model": {"decoder": {"head_size": "64"}}}, CONFIGURATION, "it")
    Traceback (most recent call last):
        ...
    sardonyx.errors.InvalidValue: it: model.decoder.head_size is '64', and should be a whole number of 32 bits
    """
    if isinstance(kind, tuple):
        *others, last = kind
        for each in others:
            if _begins(value, each):
                return sound(value, each, source, place)
        return sound(value, last, source, place)
    if not _begins(value, kind):
        name = "a list" if isinstance(kind, list) else _NAMES[dict if isinstance(kind, dict) else kind]
        raise InvalidValue(f"{source}: {place or 'it'} is {str(value)[:60]!r}, and should be {name}")
    if isinstance(kind, list) and isinstance(kind[0], type) and all(_begins(item, kind[0]) for item in value):
        return value
    if isinstance(kind, list):
        return [sound(item, kind[0], source, f"{place}[{k}]") for k, item in enumerate(value)]
    if not isinstance(kind, dict):
        return value
    return {
        name: sound(item, kind.get(name, kind.get("*", object)), source, f"{place}.{name}".lstrip("."))
        for name, item in value.items()
        if item is not None
    }


def _begins(value: Any, kind: Kind) -> bool:
    """Whether a value is of a kind, but for what is in it."""
    if isinstance(kind, (dict, list)):
        return isinstance(value, type(kind))
    if kind is int:
        is_whole = type(value) is int or (type(value) is float and value.is_integer())
        return is_whole and -(2**31) <= value < 2**31
    return isinstance(kind, type) and isinstance(value, kind)
