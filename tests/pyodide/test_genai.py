"""Text from models in Pyodide: the tokens of onnxruntime-genai, by tokenizers and templates of JavaScript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from sardonyx import genai
from sardonyx.genai import gguf, gguf_tokenizer
from tests.genai import smollm2
from tests.genai.sides import ours, theirs, written
from tests.genai.tiny import Tiny
from tests.models.chat import ANSWER, PROMPT
from tests.support import require, run_in_pyodide
from tests.support.npm import package

pytestmark = pytest.mark.slow
TEXTS = [
    "What is the capital of France? 🗼 東京",
    "<|im_start|>user\nDon't , well  .  12345 e\u0301 ½ ٣४ <|im_end|>",
    " \t\n\n x = {'a': [1, 2]} ; I 'm he 'll",
    "\x00\ufffd\u200d👩\u200d👩\u200d👧 ﷽",
    "",
]
MESSAGES = [
    {"role": "user", "content": "What is the capital of France? 🗼"},
    {"role": "assistant", "content": "It's “Paris” \\ é"},
    {"role": "user", "content": "Why?"},
]
TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m.role | upper }}: {{ m.content | trim }}{{ '\n' }}{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}>{% endif %}"
)

SCRIPT = """
import json
import sardonyx.compat
from sardonyx import genai
from sardonyx.genai import javascript

sardonyx.compat.install()
import onnxruntime_genai as og

def said(attempt):
    try:
        attempt()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

asked = json.load(open("asked.json"))
model = og.Model(og.Config("."))
told = {"missing": said(lambda: og.Tokenizer(model)), "template": said(lambda: genai.chat_template.render("a", {}))}
try:
    await javascript.load(tokenizers="file:///nowhere.mjs")
except Exception as error:
    told["nowhere"] = f"{type(error).__name__}: {error}"
await javascript.load(tokenizers=asked["tokenizers"], jinja=asked["jinja"])
tokenizer = og.Tokenizer(model)
told["encoded"] = [tokenizer.encode(text).tolist() for text in asked["texts"]]
told["decoded"] = [tokenizer.decode(tokens) for tokens in told["encoded"]]
tokenizer.update_options(skip_special_tokens=False)
told["whole"] = [tokenizer.decode(tokens) for tokens in told["encoded"]]
told["numbers"] = [tokenizer.to_token_id("<|im_end|>"), tokenizer.to_token_id("no such")]
if asked["messages"]:
    told["chat"] = tokenizer.apply_chat_template(asked["messages"], tools=[{"name": "add"}])
    told["broken"] = said(lambda: tokenizer.apply_chat_template([], template_str="{{ raise_exception('no!') }}"))
params = og.GeneratorParams(model)
params.set_search_options(max_length=asked["length"])
generator = og.Generator(model, params)
generator.append_tokens(asked["prompt"])
stream, words = tokenizer.create_stream(), ""
while not generator.is_done():
    generator.generate_next_token()
    words += stream.decode(generator.get_next_tokens()[0])
told |= {"tokens": generator.get_sequence(0).tolist(), "words": words}
params.set_guidance("regex", "[0-9]+")
told["guided"] = said(lambda: og.Generator(model, params))
print(json.dumps(told))
"""


def in_pyodide(folder: Path, **asked: Any) -> dict[str, Any]:
    require("pyodide")
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    places = {
        "tokenizers": (package("@huggingface/tokenizers") / "dist" / "tokenizers.min.mjs").as_uri(),
        "jinja": (package("@huggingface/jinja") / "dist" / "index.js").as_uri(),
    }
    files["asked.json"] = json.dumps({**places, "texts": [], "messages": [], **asked}).encode()
    told: dict[str, Any] = json.loads(run_in_pyodide(SCRIPT, files, timeout=900))
    return told


def test_a_tiny_decoder(tmp_path: Path) -> None:
    folder = Tiny(vocabulary=49152).save(tmp_path / "tiny")
    metadata = gguf.read(smollm2.gguf_file())
    text = json.dumps(gguf_tokenizer.tokenizer(metadata))
    (folder / "tokenizer.json").write_text(text)
    settings = {"chat_template": TEMPLATE, "bos_token": "<|im_start|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    prompt = [1, 4093, 198, 28120]
    told = in_pyodide(folder, texts=TEXTS, messages=MESSAGES, prompt=prompt, length=40)

    reference = Tokenizer.from_str(text)
    assert told["encoded"] == [reference.encode(each, add_special_tokens=False).ids for each in TEXTS]
    assert told["decoded"] == [reference.decode(each) for each in told["encoded"]]
    assert told["whole"] == TEXTS
    assert told["numbers"] == [2, -1]
    assert told["chat"] == genai.Tokenizer(folder).apply_chat_template(MESSAGES, tools=[{"name": "add"}])
    assert [told["tokens"]] == written(theirs(folder), prompt, max_length=40)
    assert told["words"] == reference.decode(told["tokens"][len(prompt) :])

    remedy = "await sardonyx.genai.javascript.load() has JavaScript's in its place"
    assert told["missing"] == f"NotImplemented: tokenizers is not installed; {remedy}"
    assert told["template"] == f"NotImplemented: jinja2 is not installed; {remedy}"
    assert told["broken"] == "InvalidValue: the chat template: no!"
    assert told["nowhere"].startswith("Fail: file:///nowhere.mjs cannot be imported (")
    assert "name it in the page's import map, or give its address" in told["nowhere"]
    assert "llguidance, which Pyodide does not have; generate without set_guidance" in told["guided"]


@pytest.mark.nightly
def test_smollm2(tmp_path: Path) -> None:
    """The decoder of 4 bits, on WebAssembly in Node, chooses what it does natively."""
    folder = smollm2.folder(tmp_path)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    told = in_pyodide(folder, messages=chat, prompt=PROMPT, length=len(PROMPT) + 24)
    assert [told["tokens"]] == written(ours(folder, "WasmExecutionProvider"), PROMPT, max_length=len(PROMPT) + 24)
    assert told["tokens"][len(PROMPT) :][: len(ANSWER)] == ANSWER
    assert told["words"].startswith("The capital of France is Paris")
