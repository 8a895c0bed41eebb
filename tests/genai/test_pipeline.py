"""Decoders in several files, whose stages are joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper
from onnx.utils import Extractor

from sardonyx.errors import InvalidValue, NotImplemented
from tests.genai.sides import agree, generator, ours, theirs
from tests.genai.tiny import VOCABULARY, WIDTH, Tiny


def configured(folder: Path, **changes: Any) -> None:
    """Change the decoder's part of a configuration; None takes a setting away."""
    config = json.loads((folder / "genai_config.json").read_text())
    config["model"]["type"] = "decoder-pipeline"
    decoder = {**config["model"]["decoder"], **changes}
    config["model"]["decoder"] = {name: value for name, value in decoder.items() if value is not None}
    (folder / "genai_config.json").write_text(json.dumps(config))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A decoder in three files. The last one has names for other things that the second has, too."""
    Tiny().save(tmp_path)
    whole = onnx.load(tmp_path / "model.onnx")
    (tmp_path / "model.onnx").unlink()
    embedded, hidden = whole.graph.node[0].output[0], whole.graph.node[-1].input[0]
    for name in (embedded, hidden):
        whole.graph.value_info.append(helper.make_tensor_value_info(name, 1, ["B", "S", WIDTH]))
    inputs = [each.name for each in whole.graph.input]
    presents = [each.name for each in whole.graph.output if each.name != "logits"]
    parts = {
        "embed": (["input_ids"], [embedded]),
        "body": ([embedded, *inputs], [hidden, *presents]),
        "head": ([hidden], ["logits"]),
    }
    extractor = Extractor(whole)
    stages = {}
    for name, (taken, given) in parts.items():
        part = extractor.extract_model(taken, given)
        if name == "head":
            part.graph.initializer[0].name = part.graph.node[0].input[1] = "q0"
            part.graph.node.insert(0, helper.make_node("Identity", [hidden], [embedded]))
            part.graph.node[1].input[0] = embedded
        onnx.save(part, tmp_path / f"{name}.onnx")
        ends = [[each.name for each in ports] for ports in (part.graph.input, part.graph.output)]
        stages[name] = {"filename": f"{name}.onnx", "inputs": ends[0], "outputs": ends[1]}
    configured(tmp_path, filename=None, pipeline=[stages])
    return tmp_path


def test_stages_write_what_one_model_writes(folder: Path) -> None:
    model = ours(folder)
    assert agree(*(generator(side, [5, 6, 7, 8], max_length=24) for side in (model, theirs(folder)))) == 20
    made = generator(model, [5, 6, 7], max_length=9)
    assert made.get_output("logits").shape == (1, 3, VOCABULARY)
    assert made.get_input("position_ids").tolist() == [[0, 1, 2]]


def test_what_cannot_be_joined(folder: Path) -> None:
    stages = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]["pipeline"][0]
    for setting, text in (
        ({"run_on_prompt": False}, "stage 'head' of the pipeline has run_on_prompt = false"),
        ({"run_on_token_gen": False}, "stage 'head' of the pipeline has run_on_token_gen = false"),
        ({"output_names_forwarder": {"a": "b"}}, "stage 'head' of the pipeline has an output_names_forwarder"),
    ):
        configured(folder, pipeline=[{**stages, "head": {**stages["head"], **setting}}])
        with pytest.raises(NotImplemented, match=text):
            ours(folder)
    configured(folder, pipeline=[{"embed": {}}])
    with pytest.raises(InvalidValue, match="stage 'embed' of the pipeline has no filename"):
        ours(folder)
    configured(folder, pipeline=None)
    with pytest.raises(InvalidValue, match="neither a filename nor a pipeline"):
        ours(folder)
    other = onnx.load(folder / "embed.onnx")
    other.opset_import[0].version = 17
    onnx.save(other, folder / "embed.onnx")
    configured(folder, pipeline=[stages])
    with pytest.raises(NotImplemented, match="stages of the pipeline are of operator sets 17 and 21"):
        ours(folder)
