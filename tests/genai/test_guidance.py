"""Texts that follow a grammar: valid by another package's judgement, whatever the model would rather write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from sardonyx import genai
from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.genai import gguf, gguf_tokenizer
from tests.genai.sides import ours
from tests.genai.smollm2 import gguf_file
from tests.genai.tiny import Tiny

pytestmark = pytest.mark.slow
NAME = {"type": "string", "pattern": "^[A-Z][a-z]{2,8}$"}
POINT = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["x"]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "enum": {"enum": ["red", "green", {"blue": [1]}]},
    "constant": {"const": {"a": [1, "é"]}},
    "boolean": {"type": "boolean"},
    "bounds": {"type": "integer", "minimum": -5, "maximum": 17},
    "exclusive": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "multiple": {"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 100},
    "pattern": NAME,
    "length": {"type": "string", "minLength": 3, "maxLength": 6},
    "date": {"type": "string", "format": "date"},
    "object": {
        "type": "object",
        "properties": {"name": NAME, "age": {"type": "integer", "minimum": 1, "maximum": 120}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "optional": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}},
        "additionalProperties": False,
    },
    "array": {"type": "array", "items": {"type": "integer", "maximum": 9, "minimum": 0}, "minItems": 2, "maxItems": 4},
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "boolean"}, {"enum": ["x", "y"]}],
        "items": False,
        "minItems": 2,
    },
    "any-of": {"anyOf": [{"type": "boolean"}, NAME, POINT | {"additionalProperties": False}]},
    "one-of": {"oneOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 9}]},
    "types": {"type": ["boolean", "null"]},
    "reference": {
        "$defs": {"point": POINT | {"additionalProperties": False}},
        "type": "array",
        "items": {"$ref": "#/$defs/point"},
        "minItems": 1,
        "maxItems": 2,
    },
    "recursive": {
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "v": {"type": "boolean"},
                    "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/tree"}]},
                },
                "required": ["v", "next"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/tree",
    },
    "all-of": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 12}]},
    "nested": {
        "type": "object",
        "properties": {
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
            "at": POINT | {"additionalProperties": False},
        },
        "required": ["tags", "at"],
        "additionalProperties": False,
    },
}
COMPACT = {"x-guidance": {"whitespace_flexible": False}}
"""Else a model whose taste is random writes spaces without end, as JSON lets it."""
FEW = ["object", "reference", "any-of", "pattern"]
SEEDS = 8


class Writer:
    """A tiny decoder with SmolLM2's vocabulary: its taste is random, so that a grammar has everything to say."""

    def __init__(self, folder: Path) -> None:
        Tiny(vocabulary=49152).save(folder)
        told = gguf.read(gguf_file())
        (folder / "tokenizer.json").write_text(json.dumps(gguf_tokenizer.tokenizer(told)))
        self.model = ours(folder)
        self.tokenizer = genai.Tokenizer(self.model)

    def write(self, kind: str, data: str, *, forced: bool = False, most: int = 100, **options: Any) -> tuple[str, int]:
        """A text of this grammar, and how many times a token was chosen."""
        params = genai.GeneratorParams(self.model)
        params.set_search_options(max_length=most, **options)
        params.set_guidance(kind, data, forced)
        made = genai.Generator(self.model, params)
        made.append_tokens([520, 9531, 198])
        steps = 0
        while not made.is_done():
            made.generate_next_token()
            steps += 1
        return self.tokenizer.decode(made.get_sequence(0)[3:]), steps


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    return Writer(tmp_path_factory.mktemp("guidance"))


@pytest.mark.parametrize("name", FEW)
def test_a_few_schemas(name: str, writer: Writer) -> None:
    check(name, writer, range(2))


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(name: str, writer: Writer) -> None:
    check(name, writer, range(SEEDS))


def check(name: str, writer: Writer, seeds: range) -> None:
    """Texts of the likeliest tokens, and of drawn ones, that reached their end are valid; most do."""
    finished = 0
    validator = jsonschema.Draft202012Validator(SCHEMAS[name], format_checker=jsonschema.FormatChecker())
    for seed in seeds:
        options: dict[str, Any] = (
            {"do_sample": True, "random_seed": seed, "top_k": 0, "temperature": 1.5} if seed else {}
        )
        text, steps = writer.write("json_schema", json.dumps(SCHEMAS[name] | COMPACT), **options)
        if steps < 97:
            validator.validate(json.loads(text))
            finished += 1
    assert finished >= len(seeds) / 2


@pytest.mark.parametrize("pattern", ["[0-9]{4}-[0-9]{2}", "(yes|no), sir", "[あ-ん]{3,5}😀?"])
def test_regular_expressions(pattern: str, writer: Writer) -> None:
    for seed in range(3):
        text, _ = writer.write("regex", pattern, do_sample=True, random_seed=seed, temperature=2.0, top_k=0)
        assert re.fullmatch(pattern, text)


def test_a_lark_grammar(writer: Writer) -> None:
    grammar = 'start: sum "="\nsum: NUMBER ("+" NUMBER)*\nNUMBER: /[1-9]/'
    for seed in range(3):
        text, _ = writer.write("lark_grammar", grammar, do_sample=True, random_seed=seed, temperature=2.0, top_k=0)
        assert re.fullmatch("[1-9]([+][1-9])*=", text)


def test_what_must_come_is_appended_at_once(writer: Writer) -> None:
    """The text is the same, in fewer steps."""
    schema = json.dumps(SCHEMAS["object"] | COMPACT)
    slow, many = writer.write("json_schema", schema)
    fast, few = writer.write("json_schema", schema, forced=True)
    jsonschema.validate(json.loads(fast), SCHEMAS["object"])
    assert few < many
    assert json.loads(slow).keys() == json.loads(fast).keys()


def test_each_row_of_a_batch_follows_it_by_itself(writer: Writer) -> None:
    params = genai.GeneratorParams(writer.model)
    params.set_search_options(max_length=100, batch_size=3, do_sample=True, random_seed=3, temperature=3.0, top_k=0)
    params.set_guidance("regex", "(ab|cde|f){2}!")
    made = genai.Generator(writer.model, params)
    made.append_tokens(np.array([[5, 6], [7, 8], [9, 10]]))
    while not made.is_done():
        made.generate_next_token()
    rows = [writer.tokenizer.decode(made.get_sequence(row)[2:]) for row in range(3)]
    assert all(re.fullmatch("(ab|cde|f){2}!", row.replace("<|endoftext|>", "")) for row in rows), rows


def test_a_text_that_is_rewound_begins_anew(writer: Writer) -> None:
    params = genai.GeneratorParams(writer.model)
    params.set_search_options(max_length=60)
    params.set_guidance("regex", "[0-9]{3}")
    made = genai.Generator(writer.model, params)
    made.append_tokens([5, 6])
    for _ in range(2):
        while not made.is_done():
            made.generate_next_token()
        assert re.fullmatch("[0-9]{3}", writer.tokenizer.decode(made.get_sequence(0)[2:]))
        made.rewind_to(2)


def test_grammars_that_cannot_be(writer: Writer) -> None:
    params = genai.GeneratorParams(writer.model)
    with pytest.raises(InvalidValue, match="no guidance 'yaml', but json_schema, regex, lark_grammar"):
        params.set_guidance("yaml", "")
    with pytest.raises(InvalidValue, match="guidance 'regex' has no data"):
        params.set_guidance("regex", "")
    params.set_guidance("", "")
    assert params.guidance is None
    params.set_guidance("json_schema", '{"type": ')
    with pytest.raises(InvalidValue, match="the json_schema cannot be read"):
        genai.Generator(writer.model, params)
    params.set_guidance("regex", "(a")
    with pytest.raises(InvalidValue, match="the regex cannot be read"):
        genai.Generator(writer.model, params)
    params.set_guidance("regex", "a")
    params.set_search_options(num_beams=2)
    with pytest.raises(NotImplemented, match="beams do not follow a grammar"):
        genai.Generator(writer.model, params)
