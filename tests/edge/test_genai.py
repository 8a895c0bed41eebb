"""A language model in a Raspberry Pi's userland of 32 bits: the same tokens, in the memory of a small board."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.edge.userland import Board, tokenizers
from tests.genai import smollm2
from tests.genai.sides import ours, theirs, written
from tests.genai.tiny import Tiny
from tests.models.chat import ANSWER, PROMPT

MOST = 400e6
"""Bytes that a board of 512 MB has for a program."""

SCRIPT = """
import json
from sardonyx import genai

asked = json.load(open("asked.json"))
config = genai.Config(".")
if asked["limit"]:
    config.overlay(json.dumps({"model": {"decoder": {"session_options": {"session.memory_limit": asked["limit"]}}}}))
model = genai.Model(config)

def said(attempt):
    try:
        return attempt()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

params = genai.GeneratorParams(model)
params.set_search_options(max_length=asked["length"])
generator = genai.Generator(model, params)
generator.append_tokens(asked["prompt"])
while not generator.is_done():
    generator.generate_next_token()
told = {"tokens": generator.get_sequence(0).tolist(), "devices": model.session.get_providers()}
told["encoded"] = said(lambda: genai.Tokenizer(model).encode("What is 12345? 🗼 東京").tolist())
params.set_guidance("regex", "[0-9]+")
told["guided"] = said(lambda: genai.Generator(model, params))
print(json.dumps(told))
"""


def files(folder: Path, prompt: list[int], length: int, limit: str = "") -> dict[str, bytes]:
    asked = {"prompt": prompt, "length": length, "limit": limit}
    return {file.name: file.read_bytes() for file in folder.iterdir()} | {"asked.json": json.dumps(asked).encode()}


@pytest.mark.slow
def test_tokens_need_no_package(armhf: Board, tmp_path: Path) -> None:
    """Text needs one, which is named."""
    folder = Tiny().save(tmp_path)
    (folder / "tokenizer.json").write_text("{}")
    told = json.loads(armhf.run_code(SCRIPT, files(folder, [5, 9, 3], 20)))
    assert [told["tokens"]] == written(theirs(folder), [5, 9, 3], max_length=20)
    assert told["encoded"] == "NotImplemented: tokenizers is not installed; pip install tokenizers jinja2"
    assert told["guided"].endswith('llguidance, which pip builds with Rust here: pip install "llguidance>=1"')


@pytest.mark.nightly
def test_smollm2(armhf: Board, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    folder, length = smollm2.folder(tmp_path), len(PROMPT) + 4
    armhf.install([tokenizers()], "--no-deps")
    printed, held = armhf.measure(SCRIPT, files(folder, PROMPT, length, "300 MB"), timeout=1800)
    record_property("summary", f"{held / 1e6:.0f} MB of {MOST / 1e6:.0f} were held on a board of 32 bits")
    told = json.loads(printed)
    assert told["devices"] == ["CPUExecutionProvider", "NumpyExecutionProvider"]
    assert [told["tokens"]] == written(ours(folder), PROMPT, max_length=length)
    assert told["tokens"][len(PROMPT) :] == ANSWER[:4]
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert told["encoded"] == reference.encode("What is 12345? 🗼 東京", add_special_tokens=False).ids
    assert 100e6 < held < MOST
