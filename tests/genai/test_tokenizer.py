"""Tokenizers give what the library and onnxruntime-genai give; streams give whole characters; chats become text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime_genai
import pytest
import tokenizers

from sardonyx import genai
from sardonyx.errors import InvalidValue, NoSuchFile, NotImplemented
from sardonyx.genai import gguf, gguf_tokenizer
from tests.genai.smollm2 import gguf_file
from tests.genai.tiny import Tiny

pytestmark = pytest.mark.slow
PIECES = [
    *("Hello", "world", "naïve café", "don't", "I'LL", "1234567", "3.14", "x=1;", "\n\n", "\t\t", "  ", "   three"),
    *("日本語の文章", "한국어", "中文字符，。", "ไทย", "עברית", "العربية", "Ελληνικά", "русский", "हिन्दी"),
    *("😀", "👩‍👩‍👧‍👦", "🇫🇷", "é", "e\u0301", "ﬃ", "\u200b", "\u00a0", "𝔘𝔫𝔦", "\x00", "\x7f", "�"),
    *(
        "def f(x):\n    return x ** 2\n",
        '{"a": [1, null]}',
        "<div class='x'>&amp;</div>",
        "SELECT * FROM t;",
        "#include <x>",
    ),
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_", "<repo_name>", "aaaaaaaaaaaaaaaa", "\r\n", "…—“”"),
]
CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "日本 & <b>?"},
]


def texts(count: int = 500) -> list[str]:
    """Seeded mixtures of `PIECES`, and each of them alone."""
    draw = np.random.default_rng(8)
    mixed = [
        draw.choice(["", " ", "\n"]).join(draw.choice(PIECES, draw.integers(1, 7))) for _ in range(count - len(PIECES))
    ]
    return [*PIECES, *mixed]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that both sides read: a tiny model with SmolLM2's tokenizer as JSON."""
    folder = Tiny().save(tmp_path_factory.mktemp("tokenizer") / "model")
    told = gguf.read(gguf_file())
    (folder / "tokenizer.json").write_text(json.dumps(gguf_tokenizer.tokenizer(told)))
    (folder / "tokenizer_config.json").write_text(json.dumps(gguf_tokenizer.settings(told)))
    return folder


@pytest.fixture(scope="module")
def ours(place: Path) -> genai.Tokenizer:
    return genai.Tokenizer(place)


@pytest.fixture(scope="module")
def theirs(place: Path) -> Any:
    return onnxruntime_genai.Tokenizer(onnxruntime_genai.Model(str(place)))


def test_texts_there_and_back(ours: genai.Tokenizer, theirs: Any, place: Path) -> None:
    """onnxruntime-genai's own tokenizer differs on few, and there the library decides."""
    library = tokenizers.Tokenizer.from_file(str(place / "tokenizer.json"))
    different = []
    for text in texts():
        tokens = ours.encode(text)
        assert tokens.dtype == np.int32
        assert tokens.tolist() == library.encode(text, add_special_tokens=False).ids
        assert ours.decode(tokens) == library.decode(tokens.tolist(), skip_special_tokens=True)
        if not any(token in text for token in ("<|", "<repo")):
            assert ours.decode(tokens) == text
        if theirs.encode(text).tolist() != tokens.tolist():
            different.append(text)
    assert len(different) <= 5, different


def test_the_tokenizer_of_the_gguf_is_llama_cpps(ours: genai.Tokenizer) -> None:
    """Known tokens of the model's authors: digits stand alone, spaces belong to the word behind."""
    assert ours.encode("The capital of France is Paris").tolist() == [504, 3575, 282, 4649, 314, 7042]
    assert ours.decode(ours.encode("2024")) == "2024"
    assert len(ours.encode("2024")) == 4
    assert ours.encode("<|im_start|>user\n").tolist() == [1, 4093, 198]


def test_batches(ours: genai.Tokenizer, theirs: Any) -> None:
    rows = ["Hello", "a longer text here", ""]
    one, other = ours.encode_batch(rows), theirs.encode_batch(rows)
    assert one.as_numpy().tolist() == other.as_numpy().tolist()
    assert ours.decode_batch(one)[:2] == rows[:2]
    assert ours.decode_batch([[19556], [81, 2848]]) == ["Hello", "a longer"]


def test_streams_give_what_all_tokens_mean(ours: genai.Tokenizer) -> None:
    for text in texts(200):
        tokens = ours.encode(text).tolist()
        stream = ours.create_stream()
        parts = [stream.decode(token) for token in tokens]
        whole = ours.decode(tokens)
        assert "".join(parts) == whole[: len("".join(parts))]
        rest = whole[len("".join(parts)) :]
        assert rest == "" or text.endswith("�"), (text, parts)
        if "�" not in text:
            assert all("�" not in part for part in parts)


def test_streams_of_bytes_and_leading_spaces() -> None:
    """As Llama 2's tokenizer has them: tokens of bytes, and a space in front that is dropped from the first word."""
    vocabulary = {
        "<unk>": 0,
        **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)},
        "▁Hello": 257,
        "▁wor": 258,
        "ld": 259,
    }
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    stream = genai.TokenizerStream(lambda tokens: str(made.decode(list(tokens))))
    tokens = [257, 258, 259, *(byte + 1 for byte in "é😀".encode()), 257, 258, 0xFF + 1, 0xFE + 1, 259]
    parts = [stream.decode(token) for token in tokens]
    assert parts[:9] == ["Hello", " wor", "ld", "", "é", "", "", "", "😀"]
    assert "".join(parts) == made.decode(tokens)


def test_a_character_that_never_ends_is_shown(ours: genai.Tokenizer) -> None:
    stream = ours.create_stream()
    first = ours.encode("日").tolist()[0]
    parts = [stream.decode(first) for _ in range(12)]
    assert any(parts)
    assert len("".join(parts)) >= 8


def test_special_tokens(ours: genai.Tokenizer, theirs: Any) -> None:
    for side in (ours, theirs):
        assert side.decode(np.array([1, 4093, 198, 504, 2], np.int32)) == "user\nThe"
        assert (side.to_token_id("<|im_end|>"), side.to_token_id("no such token")) == (2, -1)
        side.update_options(skip_special_tokens=False)
        assert side.decode(np.array([1, 4093, 2], np.int32)) == "<|im_start|>user<|im_end|>"
        side.update_options(skip_special_tokens="true")
        with pytest.raises(RuntimeError):
            side.update_options(skip=True)
        with pytest.raises(RuntimeError):
            _ = side.eor_token_id
    assert ours.bos_token_id == theirs.bos_token_id
    assert ours.eos_token_ids.tolist() == list(theirs.eos_token_ids)
    assert ours.pad_token_id == theirs.pad_token_id


def test_a_token_of_the_beginning(place: Path, tmp_path: Path) -> None:
    """It is left out unless it is asked for, on both sides."""
    told = {**gguf.read(gguf_file()), "tokenizer.ggml.add_bos_token": True}
    folder = Tiny().save(tmp_path / "model")
    (folder / "tokenizer.json").write_text(json.dumps(gguf_tokenizer.tokenizer(told)))
    (folder / "tokenizer_config.json").write_text(json.dumps(gguf_tokenizer.settings(told)))
    one, other = genai.Tokenizer(folder), onnxruntime_genai.Tokenizer(onnxruntime_genai.Model(str(folder)))
    assert one.encode("Hello").tolist() == other.encode("Hello").tolist() == [19556]
    for side in (one, other):
        side.update_options(add_special_tokens=True)
    assert one.encode("Hello").tolist() == [1, 19556]


def test_chats(ours: genai.Tokenizer, theirs: Any) -> None:
    for chat in (CHAT, CHAT[1:]):
        for more in (True, False):
            wanted = theirs.apply_chat_template(json.dumps(chat), add_generation_prompt=more)
            assert ours.apply_chat_template(chat, add_generation_prompt=more) == wanted
            assert ours.apply_chat_template(json.dumps(chat), add_generation_prompt=more) == wanted


TEMPLATES = {
    "tools": "{% if tools %}{{ tools[0].function.name }}: {{ tools | tojson }}{% endif %}|{{ bos_token }}",
    "loops": "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}\n  {{ m.content }}\n{% endfor %}",
    "blocks": "{%- set s = namespace(n=0) %}\n{% for m in messages %}\n  {% set s.n = s.n+1 %}\n{% endfor %}{{ s.n }}",
    "filters": "{{ messages[1].content | upper | trim }} {{ messages | length }} {{ messages[0]['role'].title() }}",
}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_templates(template: str, ours: genai.Tokenizer) -> None:
    """Compared with jinja2 as transformers sets it up."""
    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    other = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    other.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    tools = [{"type": "function", "function": {"name": "sum <é>"}}]
    wanted = other.from_string(template).render(messages=CHAT, tools=tools, bos_token="<|im_start|>")
    assert ours.apply_chat_template(CHAT, template_str=template, tools=json.dumps(tools)) == wanted
    assert ours.apply_chat_template(CHAT, template_str=template, tools=tools) == wanted


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content", "chat template"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ messages[0] + 1 }}", "cannot use these messages"),
    ],
)
def test_templates_that_fail(template: str, reason: str, ours: genai.Tokenizer) -> None:
    with pytest.raises(InvalidValue, match=reason):
        ours.apply_chat_template(CHAT, template_str=template)


def test_what_day_it_is(ours: genai.Tokenizer) -> None:
    from datetime import datetime

    assert ours.apply_chat_template(CHAT, template_str="{{ strftime_now('%Y') }}") == datetime.now().strftime("%Y")


def test_messages_that_are_none(ours: genai.Tokenizer) -> None:
    with pytest.raises(InvalidValue, match="messages are no JSON"):
        ours.apply_chat_template("hello")
    with pytest.raises(InvalidValue, match="messages are a list"):
        ours.apply_chat_template('{"role": "user"}')


def test_templates_of_their_own_files(place: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "genai_config.json"):
        (tmp_path / name).write_bytes((place / name).read_bytes())
    with pytest.raises(InvalidValue, match="no chat template"):
        genai.Tokenizer(tmp_path).apply_chat_template(CHAT)
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "{{ eos_token }}"}]
    settings = {"chat_template": named, "eos_token": {"content": "<end>", "lstrip": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    assert genai.Tokenizer(tmp_path).apply_chat_template(CHAT) == "<end>"
    (tmp_path / "chat_template.jinja").write_text("file {{ eos_token }}")
    assert genai.Tokenizer(tmp_path).apply_chat_template(CHAT) == "file <end>"


def test_a_gguf_beside_the_model(tmp_path: Path, ours: genai.Tokenizer) -> None:
    onnx.save(Tiny().model(), tmp_path / "decoder.onnx")
    with pytest.raises(NoSuchFile, match=r"no tokenizer\.json, and no \.gguf"):
        genai.Tokenizer(tmp_path / "decoder.onnx")
    (tmp_path / "other.gguf").symlink_to(gguf_file())
    config = genai.Config(tmp_path / "decoder.onnx")
    assert (config.eos, config.pad, config.model["bos_token_id"], config.context) == ([2], 2, 1, 8192)
    tokenizer = genai.Tokenizer(config)
    assert tokenizer.encode(PIECES[0]).tolist() == ours.encode(PIECES[0]).tolist()
    assert tokenizer.apply_chat_template(CHAT) == ours.apply_chat_template(CHAT)


def test_metadata_are_those_that_the_gguf_package_reads() -> None:
    from gguf import GGUFReader

    told = gguf.read(gguf_file())
    reader = GGUFReader(gguf_file())
    theirs = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert told == theirs


@pytest.mark.parametrize("change", ["tokenizer.ggml.model", "tokenizer.ggml.pre"])
def test_tokenizers_that_a_gguf_may_have_otherwise(change: str) -> None:
    with pytest.raises(NotImplemented, match=r"'other'.*give tokenizer\.json"):
        gguf_tokenizer.tokenizer({**gguf.read(gguf_file()), change: "other"})


def test_broken_gguf_files(tmp_path: Path) -> None:
    data = gguf_file().read_bytes()[:5000]
    for broken, reason in (
        (data, "ends, or is broken"),
        (b"GGML" + data[4:], "is no GGUF file"),
        (data[:4] + b"\x01" + data[5:], "GGUF of version 1"),
        (data[:24] + b"\xff" * 8 + data[32:], "ends, or is broken"),
        (b"", "ends, or is broken"),
    ):
        (tmp_path / "x.gguf").write_bytes(broken)
        with pytest.raises(InvalidValue, match=reason):
            gguf.read(tmp_path / "x.gguf")
