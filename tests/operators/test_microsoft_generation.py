"""Generation of one sequence for each prompt, as onnxruntime has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from sardonyx import InferenceSession, SessionOptions, errors
from tests.engine.providers import NUMPY

from .generators import VOCABULARY, Search, decoder
from .microsoft import ON_ALL

RNG = np.random.default_rng(0)
END, PAD = 1, 0
PROMPTS = np.array([[3, 5, 2], [0, 0, 7], [4, 4, 1]], np.int32)
ORDER = (
    "min_length",
    "repetition_penalty",
    "vocab_mask",
    "prefix_vocab_mask",
    "attention_mask",
    "presence_mask",
    "seed",
)


def ints(*items: Any) -> np.ndarray:
    return np.array(items, np.int32)


def one(number: float) -> np.ndarray:
    return np.array([number], np.float32)


def without(*words: int) -> np.ndarray:
    mask = np.ones(VOCABULARY, np.int32)
    mask[list(words)] = 0
    return mask


def search(
    op_type: str = "GreedySearch",
    seed: int = 3,
    prompts: np.ndarray = PROMPTS,
    most: int = 12,
    inputs: dict[str, np.ndarray] | None = None,
    outputs: tuple[str, ...] = ("sequences",),
    **attributes: Any,
) -> Search:
    given = {"input_ids": prompts, "max_length": ints(most)}
    given |= {name: (inputs or {}).get(name) for name in ORDER}
    attributes = {"decoder": decoder(seed), "eos_token_id": END, "pad_token_id": PAD, **attributes}
    return Search(op_type, given, attributes, outputs)


def endless(made: Search) -> Search:
    """The same without an end: onnxruntime leaves what is behind the end of all sequences to chance."""
    return Search(made.op_type, made.inputs, made.attributes | {"eos_token_id": 10**6}, made.outputs)


def cut(sequences: np.ndarray, prompt: int) -> np.ndarray:
    """Sequences with padding from the first end behind the prompt on."""
    ended = np.cumsum(sequences == END, 1) - np.cumsum(sequences[:, :prompt] == END, 1)[:, -1:] > 0
    ended[:, :prompt] = False
    return np.where(ended, PAD, sequences)


GREEDY = {
    "greedy": search(),
    "one layer": search(decoder=decoder(5, 1)),
    "all end": search(seed=4),
    "one word more": search(most=4),
    "penalty": search(inputs={"repetition_penalty": one(1.7)}),
    "reward": search(inputs={"repetition_penalty": one(0.8)}, no_repeat_ngram_size=3),
    "pairs": search(no_repeat_ngram_size=2),
    "single words": search(no_repeat_ngram_size=1, most=9),
    "masks": search(
        inputs={
            "vocab_mask": without(2, 9),
            "prefix_vocab_mask": np.stack([without(k, k + 3) for k in range(3)]),
            "attention_mask": ints([1, 0, 1], [1, 1, 0], [1, 1, 1]),
        }
    ),
}


@ON_ALL
@pytest.mark.parametrize("name", GREEDY)
def test_greedy_search(name: str, provider: str) -> None:
    made = GREEDY[name]
    (wanted,) = endless(made).expected()
    np.testing.assert_array_equal(made.run(provider)[0], cut(wanted, 3))


def test_least_length() -> None:
    made = search(seed=4, prompts=PROMPTS[:1], inputs={"min_length": ints(9)})
    (wanted,) = made.expected()
    (found,) = made.run("eager")
    np.testing.assert_array_equal(found[:, :10], wanted[:, :10])
    assert END not in found[:, 3:9]


def test_part_of_the_logits_is_the_vocabulary() -> None:
    (wanted,) = endless(search(inputs={"vocab_mask": without(9, 10)})).expected()
    (found,) = search(vocab_size=9).run("eager")
    np.testing.assert_array_equal(found, cut(wanted, 3))


def test_first_call_by_a_graph_of_its_own() -> None:
    (whole,) = search().run("eager")
    (found,) = search(init_decoder=decoder(3)).run("eager")
    np.testing.assert_array_equal(found, whole)


def test_further_prompts_need_no_new_plan() -> None:
    made = search()
    session = InferenceSession(made.model().SerializeToString(), providers=[NUMPY])
    compiled = []
    for length in (3, 5, 6, 9):
        feeds = made.feeds | {"input_ids": RNG.integers(2, VOCABULARY, (2, length)).astype(np.int32)}
        (wanted,) = endless(made.with_inputs(**feeds)).expected()
        np.testing.assert_array_equal(session.run(None, feeds)[0], cut(wanted, length))
        compiled.append(session.compiled)
    assert compiled[0] == compiled[-1]


def test_weights_of_the_graph_around() -> None:
    """Exporters put weights that several graphs share into the model's own one."""
    made = search()
    (wanted,) = made.run("eager")
    model = made.model()
    (graph,) = (attribute.g for attribute in model.graph.node[0].attribute if attribute.name == "decoder")
    model.graph.initializer.extend(graph.initializer)
    del graph.initializer[:]
    session = InferenceSession(model.SerializeToString(), providers=[NUMPY])
    np.testing.assert_array_equal(session.run(None, made.feeds)[0], wanted)


def test_onnxruntime_takes_what_is_saved(tmp_path: Path) -> None:
    """It knows the inputs of the decoder by their names, and asks for their declared sizes."""
    made = search()
    options = SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    (found,) = InferenceSession(made.model().SerializeToString(), options, providers=[NUMPY]).run(None, made.feeds)
    saved = onnxruntime.InferenceSession(options.optimized_model_filepath, providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(saved.run(None, made.feeds)[0], found)


def half(graph: onnx.GraphProto) -> onnx.GraphProto:
    """The same in float16."""
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            narrow = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(narrow, tensor.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.name == "to" and attribute.i == TensorProto.FLOAT:
            attribute.i = TensorProto.FLOAT16
    return graph


@ON_ALL
def test_half(provider: str) -> None:
    """onnxruntime's CPU provider lacks it."""
    (wanted,) = search().run("eager")
    np.testing.assert_array_equal(search(decoder=half(decoder(3))).run(provider)[0], wanted)


def test_no_prompts() -> None:
    assert search(prompts=PROMPTS[:0]).run(NUMPY)[0].shape == (0, 12)


def sampling(count: int = 1, most: int = 4, seed: int = 5, **attributes: Any) -> Search:
    prompts = np.repeat(PROMPTS[:1], count, 0)
    made = search("Sampling", prompts=prompts, most=most, decoder=decoder(0, 1), **attributes)
    needed = {"min_length": ints(0), "repetition_penalty": one(1.0), "seed": ints(seed)}
    return made.with_inputs(**needed | {name: x for name, x in made.feeds.items() if name not in needed})


ALMOST_GREEDY = {
    "the best": sampling(3, 9, top_p=0.0, min_tokens_to_keep=1),
    "the first": sampling(3, 9, top_p=1e-6, custom=1),
    "cold": sampling(3, 9, top_p=1.0, temperature=1e-3),
}


@ON_ALL
@pytest.mark.parametrize("name", ALMOST_GREEDY)
def test_sampling_of_the_likeliest(name: str, provider: str) -> None:
    made = ALMOST_GREEDY[name]
    (wanted,) = endless(search(prompts=made.feeds["input_ids"], most=9, decoder=decoder(0, 1))).expected()
    np.testing.assert_array_equal(made.run(provider)[0], cut(wanted, 3))


CHANCES: list[dict[str, Any]] = [
    {"top_p": 1.0},
    {"top_p": 0.6},
    {"top_p": 0.6, "min_tokens_to_keep": 5},
    {"top_p": 0.8, "custom": 1},
    {"top_p": 0.3, "custom": 1, "filter_value": -5.0},
]


@pytest.mark.parametrize("attributes", CHANCES)
def test_chances(attributes: dict[str, Any]) -> None:
    """onnxruntime draws other words, just as often."""
    made = sampling(4000, temperature=3.0, **attributes)
    found, wanted = (
        np.bincount(sequences[:, 3], minlength=VOCABULARY) / 4000
        for (sequences,) in (made.run("eager"), made.expected())
    )
    np.testing.assert_allclose(found, wanted, atol=0.03)
    assert not found[wanted == 0].sum() > 0.005


@ON_ALL
def test_seeds(provider: str) -> None:
    """The same on every provider; other seeds, other places and other lines draw other words."""
    made = sampling(20, 8, temperature=20.0, top_p=1.0)
    (wanted,) = made.run("eager")
    (found,) = made.run(provider)
    np.testing.assert_array_equal(found, wanted)
    assert len({tuple(line) for line in found.tolist()}) > 10
    (other,) = made.with_inputs(seed=ints(6)).run("eager")
    assert (other[:, 3:] != found[:, 3:]).any()


def test_seed_is_zero_if_there_is_none() -> None:
    made = sampling(5, 8, temperature=20.0, top_p=1.0)
    found, wanted = made.with_inputs(seed=None).run("eager"), made.with_inputs(seed=ints(0)).run("eager")
    np.testing.assert_array_equal(found[0], wanted[0])


def test_presence_and_scores() -> None:
    """The scores that were drawn from are those of the last word; words that are present have lower ones."""
    made = sampling(2, outputs=("sequences", "filtered_logits"), temperature=2.0, top_p=1.0, presence_penalty=1.5)
    mask = RNG.integers(0, 2, (2, VOCABULARY)).astype(np.int32)
    _, plain = made.run("eager")
    _, found = made.with_inputs(presence_mask=mask).run("eager")
    np.testing.assert_allclose(found, plain - 1.5 * mask, atol=1e-5)
    _, best = sampling(2, outputs=("sequences", "filtered_logits"), top_p=0.0, min_tokens_to_keep=1).run("eager")
    kept = best > -1e19
    assert kept.sum(1).tolist() == [1, 1]
    np.testing.assert_allclose(best[kept], 2 * plain.max(1), atol=1e-4)


def undeclared() -> Search:
    made = search()
    for value in made.attributes["decoder"].input:
        if value.name == "past_0":
            value.type.tensor_type.shape.dim[4].dim_param = "size"
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (search(most=3), "max_length is 3, but the prompt alone has 3 tokens; use a larger one"),
        (search(model_type=1), "model_type 1 is not supported; use 0, with a decoder alone"),
        (undeclared(), "the decoder's input 'past_0' must declare its type, its heads and their size"),
    ],
)
def test_errors(made: Search, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        made.run("eager")
