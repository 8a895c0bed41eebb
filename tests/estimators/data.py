"""Small data sets, the same in every run: rows to learn from, and others to be asked about.

All numbers are multiples of 1/16, so halfway between two of them, where trees divide rows, float32 is exact: an
estimator of float64 and its model of float32 send every row the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

FEATURES = 5
WORDS = ["red", "green", "blue", "shiny", "round", "small", "large", "heavy", "cat", "dog", "bird"]
WORDS += ["The", "of", "a", "is", "it's", "über", "7", "42"]


@dataclass(frozen=True)
class Data:
    """`rows` with a `target` to learn from, and `unseen` rows.

    A model has one input X, or, where `columns` names them, one for each column.
    """

    rows: Any
    target: np.ndarray
    unseen: Any
    columns: tuple[str, ...] = ()

    def feeds(self, dtype: str) -> dict[str, np.ndarray]:
        """The unseen rows as inputs of a model, numbers with a fraction as this dtype."""
        if self.columns:
            table = np.asarray(self.unseen, object)
            return {name: _typed(table[:, k : k + 1], dtype) for k, name in enumerate(self.columns)}
        found = np.asarray(self.unseen, object if isinstance(self.unseen, list) else None)
        return {"X": _typed(found if found.ndim == 2 else found.reshape(-1, 1), dtype)}

    def types(self, dtype: str) -> list[tuple[str, Any]]:
        """The inputs as converters want them declared."""
        kinds = {"f4": FloatTensorType, "f8": DoubleTensorType, "i8": Int64TensorType}
        return [
            (name, kinds.get(array.dtype.str[1:], StringTensorType)([None, array.shape[1]]))
            for name, array in self.feeds(dtype).items()
        ]


def _typed(table: np.ndarray, dtype: str) -> np.ndarray:
    if table.dtype.kind == "f" or (table.dtype == object and not isinstance(table[0, 0], str)):
        return table.astype(dtype)
    return table


def _divided(rows: Any, target: np.ndarray, columns: tuple[str, ...] = ()) -> Data:
    """The last quarter is unseen."""
    known = len(rows) * 3 // 4
    return Data(rows[:known], target[:known], rows[known:], columns)


def _noise(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def sixteenths(values: np.ndarray) -> np.ndarray:
    """Values rounded to multiples of 1/16."""
    return np.round(values * 16) / 16


def _rows(count: int = 160) -> np.ndarray:
    return sixteenths(_noise(0, (count, FEATURES)) * [1, 2, 0.5, 1, 3] + [0, 1, 0, -2, 0])


def _score(rows: np.ndarray) -> np.ndarray:
    """What targets are made from: a curved function of the rows, with noise."""
    score: np.ndarray = (
        rows[:, 0] * 2 + rows[:, 1] - rows[:, 2] ** 2 + np.sin(rows[:, 4]) + 0.5 * _noise(1, rows.shape[:1])
    )
    return score


@cache
def two() -> Data:
    """Two classes."""
    rows = _rows()
    return _divided(rows, (_score(rows) > 0.5).astype(np.int64))


@cache
def three() -> Data:
    """Three classes."""
    rows = _rows()
    return _divided(rows, np.digitize(_score(rows), [-0.5, 2.0]).astype(np.int64))


@cache
def names() -> Data:
    """Three classes that are strings."""
    rows = _rows()
    return _divided(rows, np.array(["few", "many", "none"])[np.digitize(_score(rows), [-0.5, 2.0])])


@cache
def two_names() -> Data:
    """Two classes that are strings."""
    rows = _rows()
    return _divided(rows, np.array(["no", "yes"])[(_score(rows) > 0.5).astype(np.int64)])


@cache
def line() -> Data:
    """A number as the target."""
    rows = _rows()
    return _divided(rows, sixteenths(_score(rows)))


@cache
def amounts() -> Data:
    """A positive number as the target."""
    rows = _rows()
    return _divided(rows, sixteenths(np.exp(_score(rows) / 4)) + 0.0625)


@cache
def lines() -> Data:
    """Two numbers as the target."""
    rows = _rows()
    return _divided(rows, np.stack([sixteenths(_score(rows)), sixteenths(_score(rows[::-1]))], 1))


@cache
def answers() -> Data:
    """Two questions of two answers each as the target."""
    rows = _rows()
    return _divided(rows, np.stack([_score(rows) > 0.5, rows[:, 1] > 0], 1).astype(np.int64))


@cache
def gaps() -> Data:
    """Three classes, and a tenth of the numbers missing."""
    rows = _rows()
    target = np.digitize(_score(rows), [-0.5, 2.0]).astype(np.int64)
    holes = np.random.default_rng(3).random(rows.shape) < 0.1
    return _divided(np.where(holes, np.nan, rows), target)


@cache
def line_with_gaps() -> Data:
    """A number as the target, and a tenth of the numbers missing."""
    rows = _rows()
    holes = np.random.default_rng(3).random(rows.shape) < 0.1
    return _divided(np.where(holes, np.nan, rows), sixteenths(_score(rows)))


@cache
def counts() -> Data:
    """Three classes of small counts."""
    target = np.random.default_rng(0).integers(0, 3, 160)
    rows = np.random.default_rng(1).poisson(np.array([[1, 3, 0.3, 2, 1], [3, 1, 1, 0.5, 1], [1, 1, 3, 1, 2]])[target])
    return _divided(rows.astype(np.float64), target)


@cache
def positive() -> Data:
    """Numbers above 0."""
    data = counts()
    return Data(data.rows + 0.0625, data.target, data.unseen + 0.0625)


@cache
def codes() -> Data:
    """Three classes of categories that are small integers."""
    data = counts()
    return Data(np.minimum(data.rows, 3).astype(np.int64), data.target, np.minimum(data.unseen, 3).astype(np.int64))


@cache
def categories() -> Data:
    """Two classes of three columns of strings; the unseen rows have one more string."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.choice(WORDS[:3], 160), rng.choice(WORDS[3:7], 160), rng.choice(["a", "b"], 160)], 1)
    data = _divided(rows.astype(object), (rows[:, 0] == "red").astype(np.int64) ^ (rng.random(160) < 0.2))
    data.unseen[::7, 1] = "never seen"
    return data


@cache
def known_categories() -> Data:
    """As `categories`, without strings that are not known."""
    data = categories()
    return Data(data.rows, data.target, data.rows[::3])


@cache
def labels() -> Data:
    """Labels alone, as encoders of targets take them."""
    found = three().target
    return Data(found, found, found[::4])


@cache
def named_labels() -> Data:
    """Labels alone, which are strings."""
    found = names().target.astype(object)
    return Data(found, found, found[::4])


@cache
def sentences() -> Data:
    """Two classes of sentences; empty ones, punctuation and letters beyond ASCII are among them."""
    rng = np.random.default_rng(0)
    made = [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(80)]
    made[5] = made[70] = ""
    made[6], made[71] = "Red, RED; (red)!", "A green-blue cat's house. Über allem"
    return _divided(made, np.array(["red" in text for text in made], np.int64))


@cache
def plain_sentences() -> Data:
    """Sentences of ASCII alone."""
    data = sentences()
    return Data(
        [text for text in data.rows if text.isascii()],
        np.array([target for text, target in zip(data.rows, data.target) if text.isascii()]),
        [text for text in data.unseen if text.isascii()],
    )


@cache
def goods() -> Data:
    """Two classes of rows with two numbers, a category, and a sentence."""
    rng, texts = np.random.default_rng(0), sentences()
    sizes = sixteenths(rng.normal(size=(80, 2)))
    sizes[60:] += 1 / 64  # halfway between two known sizes, scaled ones could go either way
    colours = rng.choice(["red", "green", "blue"], 80)
    rows = np.empty((80, 4), object)
    rows[:, 0], rows[:, 1], rows[:, 2] = sizes[:, 0], sizes[:, 1], colours
    rows[:, 3] = [*texts.rows, *texts.unseen]
    return _divided(
        rows, ((colours == "red") | (sizes[:, 0] > 0.7)).astype(np.int64), ("size", "weight", "colour", "text")
    )
