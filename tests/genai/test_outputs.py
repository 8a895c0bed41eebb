"""What a decoder gave in its last run, all of it, as onnxruntime-genai gives it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx import genai
from tests.genai.conftest import KINDS
from tests.genai.sides import generator, ours, theirs
from tests.genai.tiny import PAD, WIDTH, Tiny

Pair = Callable[..., tuple[genai.Model, Any]]
PROMPTS: dict[str, Any] = {"one": [5, 6, 7, 8, 9], "rows": [[5, 6, 7, 8], [11, 3, 0, 0], [40, 41, 42, 0]]}


def near(one: Any, other: Any, name: str, prompt: Any = ()) -> None:
    """Compare an output of both, of a prompt where it has tokens."""
    mine, its = one.get_output(name), other.get_output(name)
    assert mine.shape == its.shape
    if len(prompt):
        mine, its = (array[np.atleast_2d(prompt) != PAD] for array in (mine, its))
    np.testing.assert_allclose(mine, its, rtol=0, atol=1e-3 * np.abs(its).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_logits_of_a_whole_prompt(prompt: Any, kind: str, pair: Pair) -> None:
    options: dict[str, Any] = {"max_length": 20, "batch_size": len(np.atleast_2d(prompt))}
    one, other = (generator(model, prompt, **options) for model in pair(kind))
    for steps in range(3):
        near(one, other, "logits", () if steps else prompt)
        for made in (one, other):
            made.generate_next_token()
            made.get_logits()
    assert one.get_sequence(0).tolist() == other.get_sequence(0).tolist()


def test_tokens_that_are_appended_later(pair: Pair) -> None:
    one, other = (generator(model, [5, 6, 7], max_length=20) for model in pair())
    for made in (one, other):
        made.append_tokens(np.array([20, 21, 22, 23], np.int32))
    near(one, other, "logits")
    assert one.get_output("logits").shape[1] == 4


def test_beams_have_a_row_each(pair: Pair) -> None:
    one, other = (generator(model, [5, 6, 7], max_length=20, num_beams=3) for model in pair())
    for made in (one, other):
        made.get_logits()
    near(one, other, "logits")


def test_other_outputs(tmp_path: Path) -> None:
    folder = Tiny(grouped=True, positions=False).save(tmp_path / "model")
    model = onnx.load(folder / "model.onnx")
    hidden = model.graph.node[-1].input[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(hidden, 1, ["B", "S", WIDTH]))
    onnx.save(model, folder / "model.onnx")
    one, other = (generator(side(folder), [5, 6, 7], max_length=20) for side in (ours, theirs))
    for _ in range(3):
        near(one, other, hidden)
        one.generate_next_token()
        other.generate_next_token()
    assert one.get_sequence(0).tolist() == other.get_sequence(0).tolist()


def test_how_many_logits_are_kept(tmp_path: Path) -> None:
    """Exports of Phi-3 call that input by a number. What a caller feeds has the last word."""
    for name in ("onnx::Neg_67", "num_logits_to_keep"):
        folder = Tiny(grouped=True, positions=False).save(tmp_path / name.replace(":", "_"))
        model = onnx.load(folder / "model.onnx")
        model.graph.node[-1].output[0] = "scores"
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, 7, []))
        model.graph.node.append(onnx.helper.make_node("Cast", [name], ["kept"], to=1))
        model.graph.node.append(onnx.helper.make_node("Add", ["scores", "kept"], ["logits"]))
        onnx.save(model, folder / "model.onnx")
        sides = [generator(side(folder), None, max_length=20) for side in (ours, theirs)]
        for made in sides:
            made.set_model_input(name, np.array(40))
            made.append_tokens(np.array([5, 6, 7], np.int32))
        one, other = sides
        np.testing.assert_allclose(one.get_logits(), other.get_logits(), atol=1e-3)
