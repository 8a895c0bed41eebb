"""The tokenizer of a GGUF file, as the file `tokenizer.json` and its companions would have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sardonyx.errors import InvalidValue, NotImplemented

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
CONTROL, USER = 3, 4
"""Kinds of tokens: those that text does not have, and those that a user added."""
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"


def _split(numbers: str) -> list[dict[str, Any]]:
    """Pieces by the pattern of words that newer models share, with one of their patterns of numbers."""
    pattern = {"Regex": _ENDINGS + _WORDS % numbers}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    return [split, {**BYTE_LEVEL, "use_regex": False}]


_PLAIN = [BYTE_LEVEL]
_DIGITS = [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]
PIECES: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS),
    **dict.fromkeys(("gpt-2", "phi-2", "jina-es", "jina-de", "olmo"), _PLAIN),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "dbrx", "smaug-bpe"), _split(r"\p{N}{1,3}")),
    **dict.fromkeys(("qwen2", "stablelm2"), _split(r"\p{N}")),
}
"""How text is cut before pairs are merged, by llama.cpp's names."""


def tokenizer(told: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of `tokenizer.json`; NotImplemented where it is of a kind that this does not know."""
    kind = told.get("tokenizer.ggml.model")
    cut = told.get("tokenizer.ggml.pre", "gpt-2")
    if kind != "gpt2":
        raise NotImplemented(f"the GGUF's tokenizer is of kind {kind!r}, and gpt2 can be read; give tokenizer.json")
    if cut not in PIECES:
        known = ", ".join(PIECES)
        raise NotImplemented(
            f"the GGUF's tokenizer cuts text as {cut!r} does; {known} can be read; give tokenizer.json"
        )
    if lacking := [name for name in ("tokens", "merges") if f"tokenizer.ggml.{name}" not in told]:
        raise InvalidValue(f"the GGUF's tokenizer has no {' and no '.join(lacking)}; give tokenizer.json")
    tokens = told["tokenizer.ggml.tokens"]
    kinds = told.get("tokenizer.ggml.token_type") or [1] * len(tokens)
    added = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for number, (token, kind) in enumerate(zip(tokens, kinds))
        if kind in (CONTROL, USER)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": PIECES[cut]},
        "post_processor": _beginning(told, tokens),
        "decoder": {**BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": cut in ("llama-bpe", "llama3", "llama-v3"),
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": told["tokenizer.ggml.merges"],
        },
    }


def settings(told: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of `tokenizer_config.json`."""
    tokens = told.get("tokenizer.ggml.tokens", ())
    names = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    found: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": False}
    for name, key in names.items():
        number = told.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None and 0 <= number < len(tokens):
            found[name] = tokens[number]
    if "tokenizer.chat_template" in told:
        found["chat_template"] = told["tokenizer.chat_template"]
    return found


def _beginning(told: Mapping[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    """What puts the token of the beginning in front, where texts have one."""
    number = told.get("tokenizer.ggml.bos_token_id")
    if not told.get("tokenizer.ggml.add_bos_token") or number is None or not 0 <= number < len(tokens):
        return None
    name = tokens[number]
    first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    other = {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, other],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
