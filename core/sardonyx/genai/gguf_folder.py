"""The files that onnxruntime-genai wants beside a decoder, from the GGUF file of the same model.

python -c "from sardonyx.genai import gguf_folder; gguf_folder.write('smollm2.gguf', 'smollm2', 'model.onnx')"
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from sardonyx.api.feeds import node_arg
from sardonyx.genai import gguf, gguf_tokenizer, ports
from sardonyx.genai.config import FILE
from sardonyx.genai.ports import Ports
from sardonyx.model.serde.reader import read


def write(source: str | os.PathLike[str], folder: str | os.PathLike[str], model: str) -> None:
    """Write `tokenizer.json`, `tokenizer_config.json` and `genai_config.json` into the folder of a model's file."""
    told, place = gguf.read(Path(source)), Path(folder)
    graph = read(place / model).graph
    known = ports.told(list(map(node_arg, graph.inputs)), list(map(node_arg, graph.outputs)), {})
    files = {
        "tokenizer.json": gguf_tokenizer.tokenizer(told),
        "tokenizer_config.json": gguf_tokenizer.settings(told),
        FILE: configuration(told, known, model),
    }
    for name, contents in files.items():
        (place / name).write_text(json.dumps(contents, indent=2, ensure_ascii=False), "utf-8")


def configuration(told: dict[str, Any], known: Ports, model: str) -> dict[str, Any]:
    """The contents of `genai_config.json`."""
    kind = told.get("general.architecture", "")
    heads = told.get(f"{kind}.attention.head_count", 0)
    single = {ports.IDS: known.ids, ports.MASK: known.mask, ports.POSITIONS: known.positions}
    inputs = {name: port for name, port in single.items() if port}
    outputs = {ports.LOGITS: known.logits}
    for each in known.past[:2]:
        part = "_value" if "value" in each.input else "_key" if "key" in each.input else ""
        inputs[f"past{part}_names"] = re.sub(r"\d+", "%d", each.input, count=1)
        outputs[f"present{part}_names"] = re.sub(r"\d+", "%d", each.output, count=1)
    decoder = {
        "session_options": {"provider_options": []},
        "filename": model,
        "hidden_size": told.get(f"{kind}.embedding_length", 0),
        "num_attention_heads": heads,
        "num_key_value_heads": told.get(f"{kind}.attention.head_count_kv", heads),
        "num_hidden_layers": told.get(f"{kind}.block_count", 0),
        "head_size": next((each.shape[-1] for each in known.past), 0),
        "inputs": inputs,
        "outputs": outputs,
    }
    ids = {"bos": "bos", "eos": "eos", "pad": "padding"}
    numbers = {f"{name}_token_id": told.get(f"tokenizer.ggml.{key}_token_id") for name, key in ids.items()}
    context = told.get(f"{kind}.context_length", 0)
    return {
        "model": {
            **{name: number for name, number in numbers.items() if number is not None},
            "type": kind,
            "context_length": context,
            "vocab_size": known.vocabulary or len(told.get("tokenizer.ggml.tokens", ())),
            "decoder": decoder,
        },
        "search": {"max_length": context},
    }
