"""Maps made of tensors and tensors made of maps; the keys are known when the plan is made, so that places are, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.common import dtypes
from sardonyx.model.structure import Map
from sardonyx.ops.ml.rows import matrix
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

ML = "ai.onnx.ml"
CASTS = {"TO_FLOAT": dtypes.float32, "TO_INT64": dtypes.int64, "TO_STRING": dtypes.string}


class MapOperator(Operator, abstract=True):
    """An operator that takes or gives maps."""

    structured = True


def _labels(numbers: Sequence[int], words: Sequence[str], kind: str) -> tuple[int | str, ...]:
    """The one of two attributes that is there."""
    if bool(len(numbers)) == bool(len(words)):
        raise ValueError(f"wants {kind} as integers or as strings, one of them")
    return (*map(int, numbers), *words)


class ZipMap(MapOperator, domain=ML):
    """For each row of scores a map from the labels to them."""

    classlabels_int64s: Sequence[int] = ()
    classlabels_strings: Sequence[str] = ()

    def expand(self, x: Array) -> list[Map[Array]]:
        keys = _labels(self.classlabels_int64s, self.classlabels_strings, "classlabels")
        rows = p.unsqueeze(x, [0]) if x.rank == 1 else x
        if rows.rank != 2 or rows.shape[1] != len(keys):
            raise ValueError(f"has {len(keys)} class labels, which {p.show(x.shape)} is no matrix of scores for")
        return [Map(keys, rows)]


class DictVectorizer(MapOperator, domain=ML):
    """[1, word]: what a map has for each word of the vocabulary, else 0 or an empty string."""

    int64_vocabulary: Sequence[int] = ()
    string_vocabulary: Sequence[str] = ()

    def expand(self, x: Map[Array]) -> Array:
        words = _labels(self.int64_vocabulary, self.string_vocabulary, "the vocabulary")
        return _placed(x, words, "" if x.values.dtype is dtypes.string else 0)


class CastMap(MapOperator, domain=ML):
    """[1, n]: the values of a map in the order of its keys; SPARSE has `max_map` places, key k's value at k."""

    cast_to: str = "TO_FLOAT"
    map_form: str = "DENSE"
    max_map: int = 1

    def expand(self, x: Map[Array]) -> Array:
        if self.map_form not in ("DENSE", "SPARSE"):
            raise ValueError(f"map_form {self.map_form!r} is neither DENSE nor SPARSE")
        if self.cast_to not in CASTS:
            raise ValueError(f"cast_to {self.cast_to!r} is not one of {', '.join(CASTS)}")
        keys = sorted(x.keys) if self.map_form == "DENSE" else range(self.max_map)
        target = CASTS[self.cast_to]
        cast = Map(x.keys, _fixed(x.values) if target is dtypes.string else p.cast(x.values, target))
        return _placed(cast, tuple(keys), "0" if target is dtypes.string else 0)


def _fixed(x: Array) -> Array:
    """Strings: floats with six decimal places, as onnxruntime writes them here."""
    return (
        p.host("text.fixed", x, results=[(dtypes.string, x.shape)])[0] if x.dtype.is_float else p.cast(x, dtypes.string)
    )


def _placed(x: Map[Array], keys: Sequence[int | str], absent: int | str) -> Array:
    """The values [1, keys] of a map for these keys; `absent` for those that it lacks."""
    by_key = {key: place for place, key in enumerate(x.keys)}
    places = [by_key.get(key, len(by_key)) for key in keys]
    values = p.concat([x.values, constant(np.array([absent]), x.values.dtype)], 0)
    return p.unsqueeze(p.gather(values, [constant(np.array(places, np.int64))], [0]), [0])


class FeatureVectorizer(Operator, domain=ML):
    """The columns of all inputs side by side, in float32: of each input as many as `inputdimensions` says."""

    inputdimensions: Sequence[int]

    def expand(self, *inputs: Array) -> Array:
        if len(inputs) != len(self.inputdimensions):
            raise ValueError(f"inputdimensions has {len(self.inputdimensions)} numbers for {len(inputs)} inputs")
        return p.concat([_columns(x, count) for x, count in zip(inputs, self.inputdimensions)], 1)

    samples = [
        sample((2, 3), (2, 2), inputdimensions=[3, 2]),
        sample((2, 3), (2, 2), inputdimensions=[2, 4]),
        sample((3,), (1, 2), inputdimensions=[3, 2]),
        sample(np.array([[1, 2]]), np.array([[3]]), inputdimensions=[2, 1]),
    ]


def _columns(x: Array, count: int) -> Array:
    """The first columns of a matrix; those that it lacks are 0."""
    rows = matrix(x)
    have = rows.shape[1]
    if have >= count:
        return p.slice_axis(rows, 1, 0, count)
    return p.pad(rows, [0, 0], [0, count - have])
