"""Which sizes the listed models can have, and sizes drawn among them.

Sizes of 0 that are missing below, and say so, end onnxruntime's whole process (SIGFPE, SIGSEGV or `terminate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Sizes = dict[str, int]
CORNERS = {0: 0.08, 1: 0.2, -1: 0.1}
"""How often a size is 0, 1 or the largest, more than by chance."""
FEWEST = 5
"""Of how many sizes there is a choice in the smallest part of them."""


@dataclass(frozen=True)
class Open:
    """The sizes of a model by name, that of axis 1 of an input `x` being `x.shape[1]` where it has none.

    `free` are those that can be told alone, as what they can be, and `sums` those that the others tell. One of the
    `forms`, as often as another, has some sizes of its own. A `cosine` is asked for instead of what the list asks for.
    In a model that `rounds`, float32 with each result rounded to float16 is as good a judge as onnxruntime's float16.
    """

    free: Mapping[str, Sequence[int]]
    sums: Mapping[str, Sequence[str]] = field(default_factory=dict)
    forms: Sequence[Mapping[str, int]] = ({},)
    cosine: float | None = None
    rounds: bool = False


def to(last: int, first: int = 0) -> range:
    """The sizes from `first` to `last`."""
    return range(first, last + 1)


def chat(batch: range, tokens: range, several: Mapping[str, int] | None = None, **judged: Any) -> Open:
    """A language model for B sequences of S tokens after P past ones: the prompt, one token more, and `several`."""
    forms = ({"P": 0}, {"S": 1}, several or {})
    return Open({"B": batch, "S": tokens, "P": to(60)}, {"T": ["P", "S"]}, forms, **judged)


def picture(name: str, heights: Sequence[int], widths: Sequence[int]) -> Open:
    """A network for pictures whose sizes have PaddlePaddle's names; `name` is that of the height."""
    batch, width = "p2o.DynamicDimension.0", "p2o.DynamicDimension.1"
    if name == width:
        width = "p2o.DynamicDimension.2"
    return Open({batch: to(3), name: heights, width: widths})


def rows(name: str, last: int, first: int = 0) -> Open:
    """A model of one size."""
    return Open({name: to(last, first)})


SIDES = (1, 32, 33, 64, 96, 128, 160, 320)
"""Of pictures: a network that halves them five times and puts them together again takes multiples of 32."""
AUDIO = Open({"batch_size": to(3), "N": to(40_000)})
MINILM = Open({"batch_size": to(4), "sequence_length": to(512)})
OPEN: dict[str, Open] = {
    "ppocr4-det": picture("p2o.DynamicDimension.1", SIDES, SIDES),
    "ppocr4-rec": picture("x.shape[2]", (48, 32, 80), to(640)),
    "ppocr2-cls": Open({"x.shape[0]": to(4), "x.shape[2]": to(100), "x.shape[3]": to(300)}),
    "ppocr5-cls": rows("d0", 4),
    "ppocr5-cls-qdq-int8": rows("d0", 4),
    "ppocr5-cls-qop-int8": rows("d0", 4, first=1),  # QLinearConv of 0 pictures ends onnxruntime
    "opennsfw-resnet": rows("unk__653", 3),
    # Windows for both rates, and one between them that is for none. LSTM of 0 rows ends onnxruntime.
    "silero-vad": Open(
        {"input.shape[0]": to(4, 1), "input.shape[1]": (288, 512, 576)}, {"state.shape[1]": ["input.shape[0]"]}
    ),
    "silero-vad-seq": rows("sequence_length", 40),
    "basic-pitch": rows("unk__749", 3),
    "asr-feat-nemo80": AUDIO,
    "asr-feat-kaldi": AUDIO,
    "asr-feat-wespeaker": Open({"batch_size": to(3), "N": to(40_000, 400)}),  # Scan of 0 frames ends onnxruntime
    "magika": rows("unk__214", 4),
    "minilm-l3": MINILM,
    "minilm-l3-fp16": MINILM,
    "minilm-l6-int8": Open({"batch": to(4), "sequence": to(512)}),
    "tashkeel-bilstm-int8": Open({"batch": to(4, 1), "seq_len": to(80)}),  # LSTM of 0 rows ends onnxruntime
    # GRU of 0 rows or steps ends onnxruntime.
    "pyfrspell-int8": Open({"batch": to(4, 1), "src_seq": to(30, 1), "tgt_seq": to(30, 1)}),
    "slovorez-fp16": Open({"unk__190": to(4), "unk__191": to(50)}),
    "romanizer-enc": Open({"batch": to(4, 1), "src_len": to(30, 1)}),  # GRU of 0 rows or steps ends onnxruntime
    "romanizer-dec": Open({"batch": to(4), "tgt_len": to(30), "src_len": to(20)}),
    "eeg-seizure-lstm": Open({"batch": to(3, 1), "time": to(400)}),  # LSTM of 0 rows ends onnxruntime
    "eeg-spindle-unet": rows("batch_size", 3),
    "caustic-painn": Open({"num_atoms": to(80), "num_edges": to(300), "num_residues": to(12)}),
    "lgbm-decode-te5": rows("X.shape[0]", 40),
    "skl-gbr-mlp": rows("input.shape[0]", 40),
    "skl-rf-validity": rows("input.shape[0]", 40),
    "skl-logreg-digits": rows("X.shape[0]", 40),
    "skl-svc-iris": rows("X.shape[0]", 40),
    "skl-rf-digits": rows("X.shape[0]", 40),
    "skl-knn-wine": rows("X.shape[0]", 40),
    "skl-columns-strings": Open({"colour.shape[0]": to(40)}, {"size.shape[0]": ["colour.shape[0]"]}),
    "smollm2-int4-std-prefill": chat(to(3), to(40)),
    "smollm2-int4-contrib-prefill": chat(to(3, 1), to(40), {"B": 1}),  # GroupQueryAttention of 0 rows ends onnxruntime
    # A few tokens magnify roundings to half precision: onnxruntime's own, to 0.03 of the largest value of float32. It
    # rounds less than the model says. In one draw of 40 its float32 with each result rounded has a cosine of 0.98 with
    # its float16, and of 0.9998 with ours (`test_half.py` says more).
    "smollm2-fp16-op23-prefill": chat(to(3), to(40), cosine=0.995, rounds=True),
}
"""Not here are `skl-tfidf-text`, which needs Python, and models for decoding, which are those for prefill."""


def draw(id: str, rng: np.random.Generator, part: float = 1) -> Sizes:
    """Sizes for a model, often with 0, 1 and the largest among them; only `part` of those that it can have is used."""
    model = OPEN[id]
    sizes = {
        name: _one(choices[: max(round(len(choices) * part), FEWEST)], rng) for name, choices in model.free.items()
    }
    sizes |= model.forms[int(rng.integers(len(model.forms)))]
    return sizes | {name: sum(sizes[part] for part in parts) for name, parts in model.sums.items()}


def _one(choices: Sequence[int], rng: np.random.Generator) -> int:
    chance = rng.random()
    for corner, often in CORNERS.items():
        chance -= often
        if chance < 0 and (corner in choices or corner < 0):
            return choices[-1] if corner < 0 else corner
    return int(rng.choice(choices))
