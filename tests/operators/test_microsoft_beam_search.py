"""Generation of the best sequences by beams, as onnxruntime has it.

onnxruntime looks at scores of other prompts to find out whether one is done: it is asked for each alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sardonyx import errors
from tests.engine.providers import NUMPY, WASM, WEBGPU

from .generators import HIDDEN, VOCABULARY, Search, decoder, pair
from .microsoft import ON_ALL
from .test_microsoft_generation import END, PAD, PROMPTS, ints, one, without

RNG = np.random.default_rng(0)
MASK = ints([1, 0, 1], [1, 1, 0], [1, 1, 1])
PREFIX = np.stack([without(k, k + 3) for k in range(3)])
ORDER = (
    *("length_penalty", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask", "decoder_input_ids"),
    *("logits_processor", "cross_qk_layer_head", "extra_decoding_ids", "temperature"),
)
SCORED = ("sequences", "sequences_scores")
FEATURES = RNG.normal(size=(3, HIDDEN, 5)).astype(np.float32)
WORDS = {"decoder_start_token_id": 2, "translate_token_id": 3, "transcribe_token_id": 3, "start_of_lm_token_id": 4}
WORDS |= {"no_timestamps_token_id": 4, "beginning_timestamp_token_id": 5, "no_speech_token_id": 3}


def beams(
    width: int = 3,
    returned: int = 2,
    least: int = 0,
    most: int = 10,
    prompts: np.ndarray = PROMPTS,
    outputs: tuple[str, ...] = SCORED,
    op_type: str = "BeamSearch",
    inputs: dict[str, np.ndarray] | None = None,
    **attributes: Any,
) -> Search:
    numbers = {"min_length": least, "num_beams": width, "num_return_sequences": returned}
    given: dict[str, np.ndarray | None] = {"input_ids": prompts, "max_length": ints(most)}
    given |= {name: ints(number) for name, number in numbers.items()}
    others = {"length_penalty": one(1.0), "repetition_penalty": one(1.0), **(inputs or {})}
    given |= {name: others.get(name) for name in ORDER}
    if op_type == "BeamSearch":
        given = {name: x for name, x in given.items() if name not in ORDER[-3:]}
    attributes = {"eos_token_id": END, "pad_token_id": PAD, **attributes}
    return Search(op_type, given, {"decoder": decoder(18)} | attributes, outputs)


def encoded(most: int = 9, kind: dict[str, Any] | None = None, **more: Any) -> Search:
    given = {"model_type": 1, "decoder_start_token_id": 2, "early_stopping": 1, **pair(**(kind or {})), **more}
    return beams(most=most, **given)


def spoken(times: int, kind: dict[str, Any] | None = None, **more: Any) -> Search:
    inputs = {
        "logits_processor": ints(times),
        "decoder_input_ids": np.tile(ints(2, 3), (3, 1)),
        **more.pop("inputs", {}),
    }
    given = {"early_stopping": 1, **WORDS, **pair(speech=True, **(kind or {})), **more}
    return beams(op_type="WhisperBeamSearch", prompts=FEATURES, most=14, inputs=inputs, **given)


def heard(words: np.ndarray | None, kind: dict[str, Any] | None = None) -> Search:
    """BeamSearch in its form for speech."""
    given = {"model_type": 2, "decoder_start_token_id": 2, "early_stopping": 1, **pair(speech=True, **(kind or {}))}
    return beams(prompts=FEATURES, most=14, inputs={} if words is None else {"decoder_input_ids": words}, **given)


CASES = {
    "beams": beams(),
    "one beam": beams(1, 1),
    "as many as there are": beams(4, 4, inputs={"length_penalty": one(0.5)}),
    "early": beams(early_stopping=1, inputs={"length_penalty": one(2.0)}),
    "least length": beams(least=8),
    "penalty, no pairs": beams(inputs={"repetition_penalty": one(1.7)}, no_repeat_ngram_size=2),
    "masks": beams(inputs={"vocab_mask": without(2, 9), "prefix_vocab_mask": PREFIX, "attention_mask": MASK}),
    "encoder": encoded(),
    "encoder, what is hidden": encoded(kind={"seed": 1, "layers": 2, "hidden": True}, inputs={"attention_mask": MASK}),
    "encoder, all words": encoded(kind={"whole": True}),
    "encoder alone": encoded(kind={"starts": False}),
    "encoder, what is given": encoded(kind={"seed": 6, "given": True, "hidden": True}),
    "BeamSearch of speech": heard(np.tile(ints(2, 3, 5), (3, 1))),
    "speech": spoken(0, inputs={"temperature": one(2.5)}),
    "speech, times": spoken(1, kind={"seed": 3}),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    made = CASES[name]
    wanted = [np.concatenate(parts) for parts in zip(*(single.expected() for single in made.each(3)), strict=True)]
    found = made.run(provider)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4, atol=1e-4)


FORMS = {
    "what is given": encoded(kind={"given": True, "seed": 5}),
    "what is given, layers": encoded(kind={"given": True, "hidden": True, "layers": 2, "seed": 6}),
    "what is given, all words": encoded(kind={"given": True, "hidden": True, "whole": True, "seed": 7}),
    "what is given, encoder alone": encoded(kind={"given": True, "starts": False, "seed": 8}),
    "speech, the first word": heard(None),
    "speech, all words": heard(np.tile(ints(2, 3), (3, 1)), {"whole": True, "layers": 2, "seed": 4}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_decoders(name: str) -> None:
    found = FORMS[name].run("eager")
    for k, single in enumerate(FORMS[name].each(3)):
        sequences, scores = single.expected()
        np.testing.assert_array_equal(found[0][k : k + 1], sequences)
        np.testing.assert_allclose(found[1][k : k + 1], scores, rtol=1e-4, atol=1e-4)


ROOMY = {
    "decoder": (beams(), [beams(decoder=decoder(18, room=room)) for room in (1, 3)]),
    "one beam": (beams(1, 1), [beams(1, 1, decoder=decoder(18, room=room)) for room in (1, 3)]),
    "first call": (beams(), [beams(decoder=decoder(18, room=3), init_decoder=decoder(18, room=1))]),
    **{
        name: (make(kind), [make({**kind, "room": room}) for room in (1, 3)])
        for name, make, kind in [
            ("encoder", lambda kind: encoded(kind=kind), {"seed": 5}),
            ("encoder, all words", lambda kind: encoded(kind=kind), {"whole": True, "given": True, "layers": 2}),
            ("encoder alone", lambda kind: encoded(kind=kind), {"starts": False, "seed": 2}),
            ("speech", lambda kind: spoken(0, kind=kind), {"layers": 2}),
        ]
    },
}
"""Searches by decoders whose caches grow, and by the same ones whose caches have room: for onnxruntime's GPUs alone."""


ON_SOME = [(name, "eager") for name in ROOMY]
ON_SOME += [(name, provider) for name in ("one beam", "encoder") for provider in (NUMPY, WASM, WEBGPU)]


@pytest.mark.parametrize(("name", "provider"), ON_SOME)
def test_caches_with_room(name: str, provider: str) -> None:
    """They hold all words from the beginning, and which beam each word is from, or are put in order."""
    plain, roomy = ROOMY[name]
    wanted = [np.concatenate(parts) for parts in zip(*(single.expected() for single in plain.each(3)), strict=True)]
    for made in roomy:
        found = made.run(provider)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_decoders(seed: int) -> None:
    for early in (0, 1):
        for penalty in (0.5, 2.0):
            for width, returned in ((1, 1), (3, 2), (5, 5)):
                inputs = {"length_penalty": one(penalty)}
                made = beams(width, returned, inputs=inputs, early_stopping=early, decoder=decoder(seed))
                found = made.run("eager")
                for k, single in enumerate(made.each(3)):
                    sequences, scores = single.expected()
                    np.testing.assert_array_equal(found[0][k : k + 1], sequences)
                    np.testing.assert_allclose(found[1][k : k + 1], scores, rtol=1e-4, atol=1e-4)
    for times in (0, 1):
        made = spoken(times, kind={"seed": seed})
        found = made.run("eager")
        for k, single in enumerate(made.each(3)):
            np.testing.assert_array_equal(found[0][k : k + 1], single.expected()[0])


def test_scores_of_all_words() -> None:
    """What onnxruntime says of steps that it takes; 0 where no prompt is left."""
    made = beams(prompts=PROMPTS[:1], outputs=(*SCORED, "scores"), early_stopping=1, decoder=decoder(4))
    found, wanted = made.run("eager"), made.expected()
    assert found[2].shape == wanted[2].shape == (7, 1, 3, VOCABULARY)
    taken = [bool(step.any()) for step in found[2]]
    assert taken == sorted(taken, reverse=True)
    assert taken[0]
    np.testing.assert_allclose(found[2][taken], wanted[2][taken], rtol=1e-4, atol=1e-3)


def test_silence() -> None:
    """How likely the word for it is where text begins; onnxruntime's CPU provider does not say."""
    made = spoken(0, outputs=("sequences", "", "scores", "", "silence"))
    _, scores, silence = made.run("eager")
    np.testing.assert_allclose(silence, np.exp(scores[0, :, 0, 3]), rtol=1e-5)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (beams(2, 3), "num_return_sequences is 3, but there are 2 beams; use 1..2"),
        (
            beams(model_type=1),
            "model_type 1, for an encoder and a decoder, needs an encoder and decoder_start_token_id",
        ),
        (beams(model_type=2, prompts=FEATURES), "needs decoder_input_ids or decoder_start_token_id"),
        (
            heard(None).with_inputs(logits_processor=ints(1)),
            "logits_processor is 1, which needs the tokens that WhisperBeamSearch is told",
        ),
        (encoded(decoder=pair(layers=2)["decoder"]), "the encoder has 6 outputs, but the decoder has 2 layers"),
        (spoken(1, beginning_timestamp_token_id=-1), "logits_processor is 1, which needs beginning_timestamp_token_id"),
        (spoken(0, decoder_output_cross_qk=1), "decoder_output_cross_qk is not supported"),
        (spoken(0, outputs=("sequences", "", "", "cross_qk")), "cross_qk is not supported"),
    ],
)
def test_errors(made: Search, message: str) -> None:
    with pytest.raises(errors.SardonyxError, match=message):
        made.run("eager")
