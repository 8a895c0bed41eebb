"""What the files of an export tell of a model that has no `genai_config.json`, laid out as that would be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sardonyx.errors import InvalidValue, NoSuchFile
from sardonyx.genai import gguf, layout

SUFFIXES = (".onnx", ".sdx", ".ort")
ENCODER = ("encoder_model", "encoder")
DECODER = ("model", "decoder_model_merged", "decoder_model", "decoder")
"""What exporters call files, the likeliest first."""
FIRST, NEXT = "decoder_model", "decoder_with_past_model"
"""What older exporters call a decoder for the first run, and one for all others."""
CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx", "max_target_positions", "max_seq_len", "seq_length")
NAMES = {
    "bos": ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftranscript|>"),
    "eos": ("</s>", "<eos>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"),
    "pad": ("<pad>", "<|pad|>", "[PAD]"),
}
"""What tokens are called that begin a text, end it, and stand where there is none."""
_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def described(path: Path) -> dict[str, Any]:
    """The configuration of an export: a folder, or the file of a decoder.

    `config.json` and `generation_config.json` tell most, or else a `.gguf` that lies beside. What they do not tell, as
    the names of inputs, is read from the model when it is loaded.
    """
    folder = path if path.is_dir() else path.parent
    model: dict[str, Any] = {"decoder": {"filename": _name(path, folder, DECODER)}}
    beside = (folder / model["decoder"]["filename"]).parent
    _apart(folder, model["decoder"])
    encoders = [file for name in ENCODER for file in _files(beside, name)]
    if encoders and path not in encoders:
        model["encoder"] = {"filename": str(encoders[0].relative_to(folder))}
    told = {name: layout.read_json(folder / name) for name in ("config.json", "generation_config.json")}
    if (metadata := gguf_beside(path)) is not None:
        _from_gguf(gguf.read(metadata), model)
    _from_json(told["config.json"], model)
    _from_json(told["generation_config.json"], model)
    if "eos_token_id" not in model:
        _from_tokenizer(folder, model)
    return {"model": model, "search": {}}


def gguf_beside(path: Path) -> Path | None:
    """The `.gguf` file that lies in a folder, or beside a file: that of its name, or the only one."""
    folder = path if path.is_dir() else path.parent
    found = sorted(folder.glob("*.gguf"))
    same = [each for each in found if each.stem == path.stem]
    return same[0] if same else found[0] if len(found) == 1 else None


def _from_json(told: Mapping[str, Any], model: dict[str, Any]) -> None:
    """Take over what a `config.json` says, or the part of it about text."""
    text = told.get("text_config") if isinstance(told.get("text_config"), dict) else {}
    told = {**(text or {}), **told}
    if told.get("model_type"):
        model["type"] = told["model_type"]
    for name in (*_IDS, "vocab_size"):
        if told.get(name) is not None:
            model[name] = told[name]
    heads, width = _whole(told, "num_attention_heads", "n_head"), _whole(told, "hidden_size", "n_embd")
    if heads:
        model["decoder"]["num_attention_heads"] = heads
        model["decoder"]["num_key_value_heads"] = _whole(told, "num_key_value_heads") or heads
    if size := _whole(told, "head_dim") or (width // heads if heads else 0):
        model["decoder"]["head_size"] = size
    lengths = [told[name] for name in CONTEXT if told.get(name)]
    if lengths:
        model["context_length"] = lengths[0]


def _whole(told: Mapping[str, Any], *names: str) -> int:
    """The first whole number that one of these names tells, else 0: some models have a number for each layer."""
    return next((told[name] for name in names if type(told.get(name)) is int and told[name]), 0)


def _from_tokenizer(folder: Path, model: dict[str, Any]) -> None:
    """Take the special tokens of the beginning, the end and padding by their usual names."""
    settings = layout.read_json(folder / "tokenizer_config.json", layout.SETTINGS)
    added = layout.read_json(folder / "tokenizer.json", layout.TOKENIZER).get("added_tokens") or ()
    numbers = {each.get("content"): each.get("id") for each in added}
    for name, usual in NAMES.items():
        said = settings.get(f"{name}_token")
        said = said.get("content") if isinstance(said, dict) else said
        found = [numbers[token] for token in ([said] if said else usual) if token in numbers]
        if found and f"{name}_token_id" not in model:
            model[f"{name}_token_id"] = found[0]


def _from_gguf(told: Mapping[str, Any], model: dict[str, Any]) -> None:
    """Take over what the metadata of a GGUF file says."""
    kind = told.get("general.architecture", "")
    model["type"] = kind
    model["vocab_size"] = len(told.get("tokenizer.ggml.tokens", ()))
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding")):
        if f"tokenizer.ggml.{key}_token_id" in told:
            model[f"{name}_token_id"] = told[f"tokenizer.ggml.{key}_token_id"]
    if f"{kind}.context_length" in told:
        model["context_length"] = told[f"{kind}.context_length"]


def _name(path: Path, folder: Path, names: tuple[str, ...]) -> str:
    """The file of a decoder, as a path within the folder."""
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise InvalidValue(f"{path} is no model; its name should end in {', '.join(SUFFIXES)}")
        return path.name
    for place in (folder, folder / "onnx"):
        for name in names:
            for file in _files(place, name):
                return str(file.relative_to(folder))
    others = [file for suffix in SUFFIXES for file in sorted(folder.glob(f"*{suffix}"))]
    if len(others) == 1:
        return others[0].name
    if others:
        raise NoSuchFile(
            f"{folder} has {', '.join(file.name for file in others)}, and nothing says which one is the decoder; "
            "give the path of that file"
        )
    raise NoSuchFile(f"{folder} has no {names[0]}.onnx, neither there nor in onnx/, and no genai_config.json names one")


def _apart(folder: Path, decoder: dict[str, Any]) -> None:
    """Where a decoder has another file for the runs after the first, take that, and the other one as its `first`."""
    file = folder / decoder["filename"]
    later = file.with_name(file.name.replace(FIRST, NEXT, 1))
    if re.fullmatch(f"{FIRST}(_(?!merged)[^.]*)?", file.stem) and later.exists():
        decoder |= {"first": decoder["filename"], "filename": str(later.relative_to(folder))}


def _files(place: Path, name: str) -> Iterator[Path]:
    """Files of this name, the plain one before those of other precisions, as `model_q4.onnx`."""
    for suffix in SUFFIXES:
        if (place / f"{name}{suffix}").exists():
            yield place / f"{name}{suffix}"
    for suffix in SUFFIXES:
        yield from sorted(place.glob(f"{name}_*{suffix}"))
