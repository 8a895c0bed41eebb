"""Chat in a page, in OpenAI's form: the same tokens as Python's from the same bundle, whole and in parts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sardonyx import genai
from sardonyx.genai import gguf, gguf_tokenizer, page
from tests.genai import smollm2
from tests.genai.sides import finish, generator
from tests.genai.tiny import Tiny
from tests.support.browser import Chromium
from tests.support.npm import package
from tests.web.pages import FOLDERS

pytestmark = pytest.mark.slow
TEMPLATE = "[{{ messages | length }}]{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
QUESTION = [{"role": "user", "content": "What is the capital of France? 🗼 東京"}]
LENGTH = 24


@pytest.fixture(scope="module")
def site_folders() -> Mapping[str, Path]:
    return {
        **FOLDERS,
        "tokenizers": package("@huggingface/tokenizers"),
        "jinja": package("@huggingface/jinja"),
        "xgrammar": package("@mlc-ai/web-xgrammar"),
    }


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder with SmolLM2's tokenizer."""
    made = Tiny(vocabulary=49152).save(tmp_path_factory.mktemp("chat") / "tiny")
    told = gguf.read(smollm2.gguf_file())
    (made / "tokenizer.json").write_text(json.dumps(gguf_tokenizer.tokenizer(told)))
    (made / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return made


def served(chromium: Chromium, folder: Path, place: Path, target: str) -> genai.Model:
    """Serve a model's folder; Python's model of the same bundle."""
    config = genai.Config(folder)
    page.write(config, place, target.split(","))
    chromium.site.data |= {f"chat/{file.name}": file.read_bytes() for file in place.iterdir()}
    config.decoder["filename"] = str(place / page.MODEL)
    return genai.Model(config)


def ask(chromium: Chromium, task: str, *given: Any, limit: float = 120) -> Any:
    opened = chromium.browser.new_page()
    opened.set_default_timeout(1e3 * limit)
    try:
        opened.goto(f"{chromium.site.address}/web/chat/page.html")
        opened.wait_for_function("globalThis.tasks")
        return opened.evaluate("([task, given]) => tasks[task](...given)", [task, given])
    finally:
        opened.close()


SEARCHES = [
    {},
    {"temperature": 0.8, "seed": 42, "top_k": 0, "top_p": 1},
    {"temperature": 1.2, "seed": 2**40 + 7, "top_k": 40, "top_p": 0.9},
    {"temperature": 1, "seed": 3, "top_k": 0, "top_p": 0.7, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
]


def in_python(model: genai.Model, messages: list[dict[str, str]], search: dict[str, Any]) -> tuple[list[int], int]:
    """The tokens of a chat, and how many of them are the prompt's."""
    tokenizer = genai.Tokenizer(model)
    prompt = tokenizer.encode(tokenizer.apply_chat_template(messages))
    names = {"seed": "random_seed"}
    options = {names.get(name, name): value for name, value in search.items()}
    options["do_sample"] = "temperature" in search
    made = finish(generator(model, prompt, max_length=len(prompt) + LENGTH, **options))
    return made.get_sequence(0).tolist(), len(prompt)


def check(chromium: Chromium, model: genai.Model, searches: list[dict[str, Any]], options: dict[str, Any]) -> None:
    requests = [{"messages": QUESTION, "max_tokens": LENGTH, **search} for search in searches]
    tokenizer = genai.Tokenizer(model)
    for search, found in zip(searches, ask(chromium, "complete", requests, options, limit=600), strict=True):
        tokens, prompted = in_python(model, QUESTION, search)
        assert found["tokens"] == tokens
        text = tokenizer.decode(tokens[prompted:])
        whole, (first, *parts, usage) = found["whole"], found["parts"]
        assert whole["object"] == "chat.completion"
        assert whole["choices"][0]["message"]["content"] == text
        assert whole["usage"]["prompt_tokens"] == usage["usage"]["prompt_tokens"] == prompted
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(part["choices"][0]["delta"].get("content", "") for part in parts) == text
        written = len(tokens) - prompted
        assert usage["usage"]["completion_tokens"] == written
        assert whole["choices"][0]["finish_reason"] == ("length" if written == LENGTH else "stop")
        assert [part["choices"][0]["finish_reason"] for part in parts][-1] == whole["choices"][0]["finish_reason"]


@pytest.mark.parametrize("target", ["wasm", "webgpu"])
def test_the_tokens_of_python(chromium: Chromium, tiny: Path, target: str, tmp_path: Path) -> None:
    """On WebGPU Python runs on another adapter, whose last bits differ: the likeliest tokens are compared."""
    model = served(chromium, tiny, tmp_path, f"{target},wasm" if target == "webgpu" else target)
    check(chromium, model, SEARCHES if target == "wasm" else SEARCHES[:1], {"target": target})


@pytest.mark.nightly
def test_smollm2(chromium: Chromium, tmp_path: Path) -> None:
    folder = smollm2.folder(tmp_path)
    model = served(chromium, folder, tmp_path / "page", "wasm")
    check(chromium, model, SEARCHES[:3], {})
    city = {"city": {"type": "string", "maxLength": 20}}
    schema = {"type": "object", "properties": city, "required": ["city"], "additionalProperties": False}
    ((text, reason),) = ask(chromium, "contents", [formatted("json_schema", schema, temperature=0)], limit=600)
    jsonschema.validate(json.loads(text), schema)
    assert reason == "stop"
    told = ask(chromium, "complete", [{"messages": [{"role": "user", "content": "What is the capital of France?"}]}])
    assert "Paris" in told[0]["whole"]["choices"][0]["message"]["content"]


@pytest.mark.nightly
def test_smollm2_on_a_gpu(chromium: Chromium, tmp_path: Path) -> None:
    """The likeliest tokens are those of WebAssembly in the same page, and of Python."""
    model = served(chromium, smollm2.folder(tmp_path), tmp_path / "page", "webgpu,wasm")
    question = [{"role": "user", "content": "What is the capital of France?"}]
    request = {"messages": question, "max_tokens": 8}
    found = {
        target: ask(chromium, "complete", [request], {"target": target}, limit=900) for target in ("webgpu", "wasm")
    }
    (gpu,), (cpu,) = found.values()
    assert gpu["tokens"] == cpu["tokens"] == in_python(model, question, {})[0][: len(cpu["tokens"])]
    assert gpu["whole"]["choices"] == cpu["whole"]["choices"]
    assert "Paris" in gpu["whole"]["choices"][0]["message"]["content"]


def test_what_cannot_be_asked(chromium: Chromium, tiny: Path, tmp_path: Path) -> None:
    served(chromium, tiny, tmp_path, "wasm")
    wanted = {
        "tools is not there; requests take messages, ": {"messages": QUESTION, "tools": []},
        "messages is to be a list of { role, content }": {"messages": []},
        "messages[1] has no role and content that are texts": {"messages": [*QUESTION, {"role": "user"}]},
        "n is 2; there is one choice at a time": {"messages": QUESTION, "n": 2},
        "response_format grammar is not there; it is text, json_object, json_schema or regex": {
            "messages": QUESTION,
            "response_format": {"type": "grammar"},
        },
        "response_format.json_schema has no schema": {
            "messages": QUESTION,
            "response_format": {"type": "json_schema", "json_schema": {"name": "a"}},
        },
        "response_format.pattern is no text": {"messages": QUESTION, "response_format": {"type": "regex"}},
        "the response_format cannot be followed: ": {
            "messages": QUESTION,
            "response_format": {"type": "regex", "pattern": "(("},
        },
        "the messages are ": {"messages": [{"role": "user", "content": "word " * 300}]},
    }
    told = ask(chromium, "refuse", list(wanted.values()))
    *errors, ended = told["errors"]
    assert [text[: len(want)] for text, want in zip(errors, wanted, strict=True)] == list(wanted)
    assert "abort" in ended
    assert told["after"] == "length"
    assert "data/nowhere/" in told["missing"]
    assert "sardonyx chat MODEL --pack makes the folder" in told["missing"]


def formatted(kind: str, given: Any, **options: Any) -> dict[str, Any]:
    """A request for a text of a format."""
    told = {"json_schema": {"name": "it", "schema": given}} if kind == "json_schema" else {"pattern": given}
    return {"messages": QUESTION, "response_format": {"type": kind, **told}, **options}


BOUNDED: list[dict[str, Any]] = [
    {"enum": ["red", "green", 7, None, 'a "word"', "東京 🗼"]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {
        "type": "object",
        "properties": {"kind": {"enum": ["stone", "sand"]}, "wet": {"type": "boolean"}, "parts": {"const": [1, 2]}},
        "required": ["kind", "wet", "parts"],
        "additionalProperties": False,
    },
    {"anyOf": [{"type": "null"}, {"type": "array", "prefixItems": [{"const": "x"}], "items": False, "minItems": 1}]},
]
PATTERNS = ["[a-c]{3,5}", "(19|20)[0-9]{2}-(0[1-9]|1[0-2])", "(é|🗼){1,3}!"]


@pytest.mark.parametrize("target", ["wasm", pytest.param("webgpu", marks=pytest.mark.nightly)])
def test_texts_of_a_format(chromium: Chromium, tiny: Path, target: str, tmp_path: Path) -> None:
    """Drawn from weights that know nothing, so that the grammar alone makes them right."""
    served(chromium, tiny, tmp_path, f"{target},wasm" if target == "webgpu" else target)
    drawn = [{"temperature": 1.5, "seed": seed} for seed in range(2)]
    requests = [formatted("json_schema", schema, **each) for schema in BOUNDED for each in drawn]
    requests += [formatted("regex", pattern, **each) for pattern in PATTERNS for each in drawn]
    requests = [{**request, "max_tokens": 200} for request in requests]
    found = ask(chromium, "contents", requests, {"target": target}, limit=600)
    assert {reason for _, reason in found} == {"stop"}
    texts = [text for text, _ in found]
    for schema, text in zip([schema for schema in BOUNDED for _ in drawn], texts):
        jsonschema.validate(json.loads(text), schema)
    for pattern, text in zip([pattern for pattern in PATTERNS for _ in drawn], texts[len(BOUNDED) * len(drawn) :]):
        assert re.fullmatch(pattern, text)
    assert len(set(texts)) > len(BOUNDED) + len(PATTERNS)
    check_texts(chromium)


def check_texts(chromium: Chromium) -> None:
    """Without the package of grammars, other requests are met; texts are whole token by token, with their spaces."""
    error, reason = ask(chromium, "ungrammatical", formatted("regex", "a"))
    assert "nowhere" in error
    assert reason == "length"
    texts = ["Well , it 's  done . <|im_end|>", "½ ٣४ 12345", "🗼 東京 e\u0301", " do n't ! ? we 'll 've"]
    assert ask(chromium, "streamed", texts) == [text.replace("<|im_end|>", "") for text in texts]


def test_stops(chromium: Chromium, tiny: Path, tmp_path: Path) -> None:
    """A text that ends the answer is not part of it, however tokens divide it."""
    model = served(chromium, tiny, tmp_path, "wasm")
    tokens, prompted = in_python(model, QUESTION, {})
    text = genai.Tokenizer(model).decode(tokens[prompted:])
    middle = len(text) // 2
    stop = text[middle : middle + 3]
    (found,) = ask(chromium, "complete", [{"messages": QUESTION, "max_tokens": LENGTH, "stop": ["never", stop]}], {})
    assert found["whole"]["choices"][0]["message"]["content"] == text[: text.index(stop)]
    parts = [part["choices"][0]["delta"].get("content", "") for part in found["parts"] if part["choices"]]
    assert "".join(parts) == text[: text.index(stop)]
    assert found["whole"]["choices"][0]["finish_reason"] == "stop"
