"""Hashes, tokens, words and alignments, as onnxruntime has them."""

from __future__ import annotations

import numpy as np
import pytest

from sardonyx.errors import SardonyxError

from .microsoft import ON_ALL, Call, check

RNG = np.random.default_rng(0)
NGRAM = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 9}


def noise(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def small(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


IDS = RNG.integers(-9, 12, (2, 7))
FACTORS, TABLES = whole(3 << 61, 5 << 60, 7), whole(11, 13, 17, 19)
PAST = whole(1, 8, 8, 2).reshape(2, 2)
PARTS = np.array([[0, 0, 1, 1, 2, 2, 2], [5, 5, 5, 5, 5, 4, 5]], np.int32)
END = np.array(8)
LINE, ENDS = whole(4, 8, 11, 3, 5, 6, 8, 2), small(0, 3, 4, 8)
LINE_PARTS, BEFORE_PARTS = small(0, 0, 1, 1, 1, 2, 2, 2), small(0, 0, 1, 1, 2, 1).reshape(3, 2)
BEFORE = np.arange(6).reshape(3, 2)
SOURCE = whole(3, 1, 2, 7, 8, 1, 2, 9)
TEXTS = np.array([["", "a", "ab"], ["abc", "abcd", "d\u00e9j\u00e0 vu"]], object)


def hashed(*inputs: np.ndarray | None, outputs: tuple[str, ...] = ("y0", "y1"), **attributes: int) -> Call:
    return Call("NGramHashMapping", list(inputs), {**NGRAM, **attributes}, outputs)


def packed(*inputs: np.ndarray | None, outputs: tuple[str, ...] = ("y0", "y1"), **attributes: int) -> Call:
    return Call("VarlenNGramHashMapping", list(inputs), {**NGRAM, **attributes}, outputs)


def bifurcation(source: np.ndarray, current: np.ndarray, *others: np.ndarray, **attributes: int) -> Call:
    inputs = [source, current, *(others or (whole(0),))]
    return Call("BifurcationDetector", list(inputs), attributes, ("y0", "y1"))


CASES = {
    "murmur": Call("MurmurHash3", [RNG.integers(-(1 << 31), 1 << 31, (3, 4)).astype(np.int32)], {"seed": 42}),
    "murmur, unsigned": Call("MurmurHash3", [RNG.integers(0, 1 << 32, 5).astype(np.uint32)], {"positive": 0}),
    "murmur, long": Call("MurmurHash3", [RNG.integers(0, 1 << 62, (2, 3)).astype(np.uint64)], {"positive": 0}),
    "murmur, texts": Call("MurmurHash3", [TEXTS], {"positive": 0, "seed": 1}),
    "murmur, seeds": Call("MurmurHash3", [TEXTS], {"seed": -3}),
    "murmur, nothing": Call("MurmurHash3", [np.zeros((0, 2))]),
    "hash": hashed(IDS, FACTORS, TABLES),
    "hash, 32 bits": hashed(*(x.astype(np.int32) for x in (IDS, FACTORS, TABLES)), PAST.astype(np.int32)),
    "hash, offsets": hashed(IDS, FACTORS, TABLES, PAST, whole(100, 200, 300, 400)),
    "hash, end": hashed(IDS, FACTORS, TABLES, None, None, END, reset_on_eos=1),
    "hash, end before": hashed(IDS % 3 + 7, FACTORS, TABLES, PAST, None, END, reset_on_eos=1),
    "hash, end that parts nothing": hashed(IDS, FACTORS, TABLES, None, None, END),
    "hash, parts": hashed(IDS, FACTORS, TABLES, PAST, None, None, PARTS),
    "hash, all": hashed(IDS % 3 + 7, FACTORS, TABLES, PAST, whole(1, 2, 3, 4), END, PARTS, reset_on_eos=1),
    "hash, pairs": hashed(IDS, FACTORS[:2], TABLES[:1], max_ngram_size=2, n_head_per_ngram=1, outputs=("y0",)),
    "hash of one": hashed(IDS[:, :1], FACTORS, TABLES),
    "hash of none": hashed(IDS[:, :0], FACTORS, TABLES, PAST),
    "packed": packed(LINE, FACTORS, TABLES, ENDS),
    "packed, past": packed(LINE, FACTORS, TABLES, ENDS, BEFORE, whole(1, 2, 3, 4)),
    "packed, end": packed(LINE, FACTORS, TABLES, ENDS, None, None, END, reset_on_eos=1),
    "packed, parts": packed(*(LINE, FACTORS, TABLES, ENDS, BEFORE, None, None, LINE_PARTS), outputs=("y0", "y1", "y2")),
    "packed, parts before": packed(
        *(LINE, FACTORS, TABLES, ENDS, BEFORE, None, END, LINE_PARTS, BEFORE_PARTS),
        outputs=("y0", "y1", "y2"),
        reset_on_eos=1,
    ),
    "packed, captured": packed(
        *(LINE, FACTORS, TABLES, ENDS, BEFORE, None, None, None, None, small(2, 3, -1)),
        outputs=("y0", "y1", "", "y3"),
        state_update_capacity=3,
    ),
    "packed, captured with an end": packed(
        *(LINE, FACTORS, TABLES, ENDS, None, None, END, LINE_PARTS, None, small(2, 0, 9)),
        outputs=("y0", "y1", "y2", "y3"),
        state_update_capacity=4,
        reset_on_eos=1,
    ),
    "repeats": Call("NGramRepeatBlock", [RNG.integers(0, 3, (3, 12)), noise(3, 4)], {"ngram_size": 2}),
    "repeats, infinite scores": Call(
        "NGramRepeatBlock", [whole(1, 1).reshape(1, 2), np.full((1, 3), np.inf, np.float32)], {"ngram_size": 1}
    ),
    "bifurcation": bifurcation(SOURCE, whole(4), whole(1), whole(1, 2, 7, 0, 1, 2, 9, 5)),
    "bifurcation, all agree": bifurcation(SOURCE, whole(4, 5), whole(5), whole(1, 2, 9, 6)),
    "bifurcation, end of the source": bifurcation(SOURCE, whole(4, 5), whole(8), whole(6)),
    "bifurcation, none": bifurcation(SOURCE, whole(0, 1, 2)),
    "bifurcation, three": bifurcation(SOURCE, whole(3, 1, 2)),
    "bifurcation, several": bifurcation(SOURCE, whole(1, 2)),
    "bifurcation, limited": bifurcation(SOURCE, whole(3, 1, 2), max_ngram_size=2),
    "bifurcation, too short": bifurcation(SOURCE, whole(9), min_ngram_size=2),
    "bifurcation, source of one": bifurcation(whole(9), whole(8, 9)),
    "warping": Call("DynamicTimeWarping", [RNG.integers(0, 3, (9, 6)).astype(np.float32)]),
    "warping, negative": Call("DynamicTimeWarping", [-np.abs(noise(1, 4, 8))]),
    "warping, NaN": Call("DynamicTimeWarping", [np.full((2, 3), np.nan, np.float32)]),
    "warping, column": Call("DynamicTimeWarping", [noise(6, 1)]),
    "words": Call(
        "WordConvEmbedding", [RNG.integers(1, 9, (4, 6)).astype(np.int32), noise(5, 1, 3, 4), noise(5), noise(9, 4)]
    ),
    "words, whole": Call("WordConvEmbedding", [small(2, 1, 1).reshape(1, 3), noise(2, 1, 3, 1), noise(2), noise(3, 1)]),
}


@ON_ALL
@pytest.mark.parametrize("name", CASES)
def test_like_onnxruntime(name: str, provider: str) -> None:
    check(CASES[name], provider)


def test_words_without_characters() -> None:
    """They are zeros; onnxruntime does not write them."""
    call = Call("WordConvEmbedding", [small(0, 1, 2).reshape(1, 3), noise(2, 1, 2, 3), noise(2), noise(3, 3)])
    assert call.run("eager")[0].tolist() == [[0, 0]]


REFUSED = {
    "ngram": (Call("NGramRepeatBlock", [IDS, noise(2, 3)], {"ngram_size": 0}), "not positive"),
    "ngrams": (hashed(IDS, FACTORS, TABLES, max_ngram_size=1), "below 2"),
    "axes": (hashed(LINE, FACTORS, TABLES), r"is not \[batch, length\]"),
    "axes, packed": (packed(IDS, FACTORS, TABLES, ENDS), r"is not \[total\]"),
    "parts": (packed(LINE, FACTORS, TABLES, ENDS, None, None, None, None, BEFORE_PARTS), "give both"),
    "bounds": (bifurcation(SOURCE, whole(1), min_ngram_size=4), "not from 1 to 3"),
    "costs": (Call("DynamicTimeWarping", [noise(3)]), r"neither \[M, N\]"),
    "words": (Call("WordConvEmbedding", [small(1), noise(2, 1, 2, 3), noise(2), noise(3, 3)]), "no matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, words = REFUSED[name]
    with pytest.raises(SardonyxError, match=words):
        call.run("eager")
