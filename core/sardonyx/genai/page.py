"""The folder from which a page chats with a model (`web/sardonyx/genai/chat.js`): its bundle, tokenizer and options."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from sardonyx.api.compile import compile
from sardonyx.api.feeds import node_arg
from sardonyx.api.options import SessionOptions
from sardonyx.errors import InvalidArgument
from sardonyx.genai import javascript, ports
from sardonyx.genai.config import Config
from sardonyx.genai.tokenizer import Tokenizer
from sardonyx.model.serde.reader import read

MODEL = "model.sdx"


def write(config: Config, folder: str | os.PathLike[str], targets: Sequence[str] = ("wasm",)) -> Path:
    """Write `model.sdx`, `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`; the folder's path.

    The bundle keeps keys and values on the device, and gives the logits of one position. Raises InvalidArgument where
    the model's keys and values cannot be told.
    """
    place = Path(folder)
    tokenizer = Tokenizer(config)
    decoder = config.decoder
    source = config.decoder_model()
    graph = read(source).graph
    known = ports.told(list(map(node_arg, graph.inputs)), list(map(node_arg, graph.outputs)), decoder)
    pairs = {each.input: each.output for each in known.past if each.output and not each.cross}
    if not pairs:
        raise InvalidArgument(
            f"{decoder.get('filename', 'the decoder')} has no keys and values that go from run to run; pages need them"
        )
    options = SessionOptions()
    options.choose_rows(known.logits, ports.ROWS)
    bundle = compile(source, targets, options=options, caches=pairs)
    place.mkdir(parents=True, exist_ok=True)
    (place / MODEL).write_bytes(bundle)
    (place / "tokenizer.json").write_text(javascript.portable(tokenizer.to_json()), "utf-8")
    settings = {**tokenizer.settings, "chat_template": tokenizer.chat_template}
    search = config.search_options()
    generation = {
        "eos_token_id": config.eos,
        "max_length": config.context or None,
        "do_sample": search.do_sample,
        "temperature": search.temperature,
        "top_k": search.top_k,
        "top_p": search.top_p,
        "repetition_penalty": search.repetition_penalty,
    }
    for name, contents in (("tokenizer_config.json", settings), ("generation_config.json", generation)):
        (place / name).write_text(json.dumps(contents, indent=2, ensure_ascii=False), "utf-8")
    return place
