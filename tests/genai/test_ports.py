"""Decoders without a configuration: names and shapes say what is what, and errors say what they do not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import sardonyx
from sardonyx import genai
from sardonyx.errors import InvalidValue, NoSuchFile
from sardonyx.genai.config import Config
from tests.genai.sides import generator, written
from tests.genai.tiny import HEAD, HEADS, MOST, VOCABULARY, WIDTH, Tiny

PROMPT = [5, 6, 7, 8, 9]
WAYS = {
    "optimum": Tiny(),
    "underscores": Tiny(past="past_{1}_{0}", present="present_{1}_{0}"),
    "dots": Tiny(past="past.{}.{}", present="present.{}.{}"),
    "both-together": Tiny(past="past_{}", present="present_{}"),
    "suffix": Tiny(past="cache_{}_{}", present="cache_{}_{}_out"),
    "without-positions": Tiny(positions=False),
    "without-mask": Tiny(mask=False),
    "without-either": Tiny(mask=False, positions=False),
    "without-cache": Tiny(cache=False),
    "last": Tiny(last=True),
    "last-without-cache": Tiny(last=True, cache=False),
    "other-name": Tiny(ids="tokens"),
}


@pytest.fixture(scope="module")
def wanted(pair: Callable[..., tuple[Any, Any]]) -> list[list[int]]:
    """What onnxruntime-genai writes, of whose models all of these are rewritings."""
    return written(pair("plain")[1], PROMPT, max_length=25)


@pytest.mark.parametrize("way", WAYS)
def test_a_plain_file(way: str, wanted: list[list[int]], tmp_path: Path) -> None:
    onnx.save(WAYS[way].model(), tmp_path / "decoder.onnx")
    model = genai.Model(tmp_path / "decoder.onnx")
    assert model.vocabulary == VOCABULARY
    assert written(model, PROMPT, max_length=25) == wanted
    made = generator(model, PROMPT, max_length=25)
    made.generate_next_token()
    made.generate_next_token()
    made.rewind_to(6)
    made.generate_next_token()
    assert made.get_sequence(0).tolist() == wanted[0][:7]


def test_a_bundle(wanted: list[list[int]], tmp_path: Path) -> None:
    """One for all sizes, which runs without the compiler."""
    onnx.save(Tiny().model(), tmp_path / "decoder.onnx")
    (tmp_path / "decoder.sdx").write_bytes(sardonyx.compile(tmp_path / "decoder.onnx"))
    (tmp_path / "decoder.onnx").unlink()
    assert written(genai.Model(tmp_path), PROMPT, max_length=25) == wanted


@pytest.mark.parametrize("way", ["last", "last-without-cache", "without-cache", "optimum"])
def test_batches_and_beams(way: str, tmp_path: Path) -> None:
    onnx.save(WAYS[way].model(), tmp_path / "decoder.onnx")
    (tmp_path / "config.json").write_text(json.dumps({"pad_token_id": 0, "eos_token_id": 2}))
    model = genai.Model(tmp_path / "decoder.onnx")
    prompts = [[5, 6, 7, 8], [11, 3, 0, 0], [40, 41, 42, 0]]
    options: dict[str, Any] = {"num_beams": 2, "max_length": 14}
    alone = [written(model, [token for token in prompt if token], **options)[0] for prompt in prompts]
    if way == "last":
        assert model.ports.last_only
    for prompt, one, row in zip(prompts, alone, written(model, prompts, batch_size=3, **options)):
        rest = one[len([token for token in prompt if token]) :]
        count = min(len(rest), 10)
        assert row[4 : 4 + count] == rest[:count]


@pytest.mark.parametrize(
    "tiny", [Tiny(last=True, positions=False), Tiny(positions=False), Tiny(mask=False, positions=False)]
)
def test_models_that_take_padding_for_tokens(tiny: Tiny, tmp_path: Path) -> None:
    onnx.save(tiny.model(), tmp_path / "decoder.onnx")
    model = genai.Model(tmp_path / "decoder.onnx")
    assert len(written(model, [[5, 6], [7, 8]], batch_size=2, max_length=9)) == 2
    with pytest.raises(InvalidValue, match="must have the same length"):
        generator(model, [[5, 6], [7, 0]], batch_size=2, max_length=9)


def test_the_folder_of_an_export(wanted: list[list[int]], tmp_path: Path) -> None:
    """As optimum and transformers.js have it: `config.json`, and models in `onnx/`."""
    (tmp_path / "onnx").mkdir()
    onnx.save(Tiny().model(), tmp_path / "onnx" / "model_q4.onnx")
    told = {
        "model_type": "gpt_neo",
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MOST,
        "eos_token_id": 2,
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
    }
    (tmp_path / "config.json").write_text(json.dumps(told))
    end = wanted[0][15]
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, end]}))
    config = Config(tmp_path)
    assert config.decoder["filename"] == str(Path("onnx") / "model_q4.onnx")
    assert config.decoder["head_size"] == HEAD
    assert config.search_options().max_length == MOST
    model = genai.Model(config)
    assert model.type == "gpt_neo"
    assert written(model, PROMPT) == [wanted[0][: wanted[0].index(end, len(PROMPT))]]
    onnx.save(Tiny(seed=9).model(), tmp_path / "onnx" / "model.onnx")
    assert Config(tmp_path).decoder["filename"] == str(Path("onnx") / "model.onnx")


def test_names_that_only_a_configuration_tells(wanted: list[list[int]], tmp_path: Path) -> None:
    folder = Tiny(past="k.{}.{}", present="kk.{}.{}").save(tmp_path / "model")
    assert written(genai.Model(folder), PROMPT, max_length=25) == wanted
    (folder / "genai_config.json").unlink()
    with pytest.raises(InvalidValue, match=r"nothing tells what input 'k\.0\.key' takes"):
        generator(genai.Model(folder), PROMPT, max_length=25)


def test_sizes_that_only_a_configuration_tells(wanted: list[list[int]], tmp_path: Path) -> None:
    model = Tiny().model()
    for port in model.graph.input:
        if port.name.startswith("past"):
            dims = port.type.tensor_type.shape.dim
            dims[1].dim_param, dims[3].dim_param = "heads", "head"
    folder = Tiny().save(tmp_path / "model")
    onnx.save(model, folder / "model.onnx")
    assert written(genai.Model(folder), PROMPT, max_length=25) == wanted
    (folder / "genai_config.json").unlink()
    with pytest.raises(InvalidValue, match="nor the configuration tells num_key_value_heads"):
        genai.Model(folder)


def test_inputs_of_a_caller(wanted: list[list[int]], tmp_path: Path) -> None:
    model = Tiny().model()
    model.graph.input.append(helper.make_tensor_value_info("shift", TensorProto.FLOAT, [1]))
    node = next(node for node in model.graph.node if node.output[0] == "logits")
    node.output[0] = "before"
    model.graph.node.append(helper.make_node("Add", ["before", "shift"], ["logits"]))
    onnx.save(model, tmp_path / "decoder.onnx")
    loaded = genai.Model(tmp_path / "decoder.onnx")
    with pytest.raises(InvalidValue, match=r"nothing tells what input 'shift' takes; Generator\.set_model_input"):
        generator(loaded, PROMPT, max_length=25)
    made = generator(loaded, None, max_length=25)
    for _ in range(2):
        with pytest.raises(InvalidValue, match="nothing tells"):
            made.append_tokens(PROMPT)
        assert made.token_count() == 0
    inputs = genai.NamedTensors()
    inputs["shift"] = np.array([3.0], np.float32)
    inputs["input_ids"] = np.array([PROMPT], np.int32)
    made.set_inputs(inputs)
    plain = Tiny().save(tmp_path / "plain")
    np.testing.assert_allclose(
        made.get_logits(), generator(genai.Model(plain), PROMPT).get_logits() + 3, rtol=0, atol=1e-4
    )


def test_what_follows_from_the_number_of_tokens(tmp_path: Path) -> None:
    """Counts, flags and places that some exporters ask for are fed in each run."""
    model = Tiny().model()
    extra: dict[str, tuple[int, list[Any]]] = {
        "past_sequence_length": (TensorProto.INT32, [1]),
        "total_sequence_length": (TensorProto.INT32, []),
        "cache_position": (TensorProto.INT64, ["S"]),
        "use_cache_branch": (TensorProto.BOOL, [1]),
        "num_logits_to_keep": (TensorProto.INT64, []),
        "token_type_ids": (TensorProto.INT64, ["B", "S"]),
    }
    for name, (kind, shape) in extra.items():
        model.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    onnx.save(model, tmp_path / "decoder.onnx")
    made = generator(genai.Model(tmp_path / "decoder.onnx"), [5, 6, 7], max_length=25)
    fed = [[made.get_input(name).tolist() for name in extra]]
    made.generate_next_token()
    made.get_logits()
    fed.append([made.get_input(name).tolist() for name in extra])
    assert fed == [[[0], 3, [0, 1, 2], [False], 1, [[0, 0, 0]]], [[3], 4, [3], [True], 1, [[0]]]]


def test_what_cannot_be_told(tmp_path: Path) -> None:
    onnx.save(Tiny(ids="words").model(), tmp_path / "words.onnx")
    with pytest.raises(InvalidValue, match="none of the model's inputs takes tokens: words, attention_mask"):
        genai.Model(tmp_path / "words.onnx")
    onnx.save(Tiny(present="left.{}.{}").model(), tmp_path / "left.onnx")
    with pytest.raises(InvalidValue, match=r"no output is what input 'past_key_values\.0\.key' takes"):
        genai.Model(tmp_path / "left.onnx")
    model = Tiny().model()
    next(node for node in model.graph.node if node.output[0] == "logits").output[0] = "scores"
    model.graph.output[0].name = "scores"
    onnx.save(model, tmp_path / "scores.onnx")
    with pytest.raises(InvalidValue, match="none of the model's outputs is called logits: scores"):
        genai.Model(tmp_path / "scores.onnx")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="does not exist; a model is a folder"):
        genai.Model(tmp_path / "nowhere")
    with pytest.raises(NoSuchFile, match=r"has no model\.onnx, neither there nor in onnx/"):
        genai.Model(tmp_path)
    for name in ("a.onnx", "b.onnx"):
        (tmp_path / name).touch()
    with pytest.raises(NoSuchFile, match=r"has a\.onnx, b\.onnx, and nothing says"):
        genai.Model(tmp_path)
    (tmp_path / "weights.bin").touch()
    with pytest.raises(InvalidValue, match="is no model"):
        genai.Model(tmp_path / "weights.bin")
    (tmp_path / "genai_config.json").write_text("{")
    with pytest.raises(InvalidValue, match="is no JSON"):
        genai.Model(tmp_path)


def test_overlays_providers_and_bytes(tmp_path: Path, wanted: list[list[int]]) -> None:
    folder = Tiny().save(tmp_path / "model")
    config = Config(folder)
    config.overlay('{"search": {"max_length": 25}, "model": {"decoder": {"session_options": {"log_id": "x"}}}}')
    assert config.decoder["head_size"] == HEAD
    with pytest.raises(InvalidValue, match="the overlay is no JSON"):
        config.overlay("{")
    config.append_provider("numpy")
    config.set_provider_option("NumPy", "nothing", "1")
    assert config.providers() == [("numpy", {"nothing": "1"})]
    config.clear_providers()
    config.append_provider("cuda")
    assert config.sessions()[1] == [("CUDAExecutionProvider", {}), ("CPUExecutionProvider", {})]
    config.clear_providers()
    assert config.sessions()[1] is None
    config.add_model_data("model.onnx", (folder / "model.onnx").read_bytes())
    shutil.move(folder / "model.onnx", tmp_path / "away.onnx")
    assert written(genai.Model(config), PROMPT) == wanted
    config.remove_model_data("model.onnx")
    with pytest.raises(NoSuchFile, match=r"model\.onnx does not exist"):
        genai.Model(config)
