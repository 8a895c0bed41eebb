"""Strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, draws


def strings(d: Draw, shape: Any, words: Any) -> np.ndarray:
    found = np.empty(tuple(shape), object)
    found.flat = [words[k] for k in d.rng.integers(len(words), size=found.size)]
    return found


@draws("StringConcat")
def string_concat(d: Draw) -> dict[str, Any]:
    return {"inputs": [d.values(shape, object) for shape in d.broadcast(2)]}


@draws("StringSplit")
def string_split(d: Draw) -> dict[str, Any]:
    x = strings(d, d.shape(0, 2), ["a b", "a,b,c", ",", " x  y ", "", "ab", "a, b"])
    attributes = d.attributes(delimiter=(",", "", ", ", "b"), maxsplit=(1, 2, 9))
    return {"inputs": [x], "attributes": attributes, "outputs": 2}


@draws("StringNormalizer")
def normalizer(d: Draw) -> dict[str, Any]:
    shape = d.of((3,), (1, 3), (1,), (5,))
    x = strings(d, shape, ["monday", "Tuesday", "WED", "a", "A"])
    attributes = d.attributes(
        case_change_action=("NONE", "LOWER", "UPPER"), is_case_sensitive=(0, 1), stopwords=(["monday"], ["A", "WED"])
    )
    return {"inputs": [x], "attributes": attributes}


@draws("RegexFullMatch")
def regex(d: Draw) -> dict[str, Any]:
    x = strings(d, d.shape(0, 2), ["ab", "a", "", "abab", "a1", "x.y@z"])
    patterns = (r"(ab)+", r".*", r"[a-z]\d?", r"a|b", r"\w+\.\w+@\w+", r"^a$", "")
    return {"inputs": [x], "attributes": {"pattern": d.of(*patterns)}}


@draws("TfIdfVectorizer")
def tfidf(d: Draw) -> dict[str, Any]:
    length = d.of(2, 1, 3)
    words = d.flag()
    pool = [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]
    ends = [0, 3, 7][:length]
    pool = pool[: [3, 7, 10][length - 1]]
    starts = ends
    count = len(pool[:3]) + (2 if length > 1 else 0) + (1 if length > 2 else 0)
    attributes: dict[str, Any] = {
        "mode": d.of("TF", "IDF", "TFIDF"),
        "min_gram_length": d.between(1, length),
        "max_gram_length": length,
        "max_skip_count": d.of(0, 1, 3),
        "ngram_counts": starts,
        "ngram_indexes": [d.rng.permutation(count).tolist()][0],
    }
    if words:
        attributes["pool_strings"] = [str(k) for k in pool]
    else:
        attributes["pool_int64s"] = pool
    if d.flag():
        attributes["weights"] = [0.5 + k for k in range(count)]
    shape = d.of((4,), (2, 3), (1,), (3, 1), (7,))
    x = d.rng.integers(0, 4, size=shape)
    given = strings(d, shape, ["0", "1", "2", "9"]) if words else x.astype(d.of(np.int64, np.int32))
    return {"inputs": [given], "attributes": attributes}
