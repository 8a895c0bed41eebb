"""Linear models: weights times features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.ml.rows import matrix
from sardonyx.ops.ml.scores import column, floats, label, labels, pair, probit, transformed
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant

ML = "ai.onnx.ml"
WEIGHTS = np.linspace(-1.5, 2.0, 12).tolist()
WHOLE = np.array([[1, 2, -3, 0], [4, -1, 0, 2]], np.int64)


def product(x: Array, coefficients: Sequence[float], intercepts: Sequence[float], columns: int) -> Array:
    """x [rows, features] times coefficients [columns, features], plus intercepts, if there are any.

    Further coefficients are ignored, as in onnxruntime, whose own example has some.
    """
    flat = weights = floats(coefficients)
    if columns and (flat.size % columns or x.shape[1] != flat.size // columns):
        weights = flat[: columns * int(x.shape[1])]
    if not columns or weights.size % columns or x.shape[1] != weights.size // columns:
        raise ValueError(f"{flat.size} coefficients do not fit {x.shape[1]} features and {columns} results")
    result = p.matmul(x, constant(np.ascontiguousarray(weights.reshape(columns, -1).T)))
    return result + constant(floats(intercepts)) if len(intercepts) else result


class LinearRegressor(Operator, domain=ML):
    """A linear combination of the features for each target."""

    coefficients: Sequence[float] = ()
    intercepts: Sequence[float] = ()
    targets: int = 1
    post_transform: str = "NONE"

    def expand(self, x: Array) -> Array:
        intercepts = self.intercepts if len(self.intercepts) == self.targets else ()
        scores = product(matrix(x), self.coefficients, intercepts, self.targets)
        if self.targets == 1:  # there the others mean nothing
            return probit(scores) if self.post_transform == "PROBIT" else scores
        return transformed(scores, self.post_transform)

    samples = [
        sample((5, 4), coefficients=WEIGHTS[:4], targets=1),
        sample((5, 4), coefficients=WEIGHTS, intercepts=[1.0, -1.0, 0.5], targets=3),
        sample((4,), coefficients=WEIGHTS, targets=3),
        sample((5, 4), coefficients=WEIGHTS, targets=3, post_transform="SOFTMAX"),
        sample((5, 4), coefficients=WEIGHTS, targets=3, post_transform="LOGISTIC"),
    ]


class LinearClassifier(Operator, domain=ML):
    """The class with the highest linear score, and the scores; one column of weights makes a binary classifier."""

    coefficients: Sequence[float]
    intercepts: Sequence[float] = ()
    classlabels_ints: Sequence[int] = ()
    classlabels_strings: Sequence[str] = ()
    multi_class: int = 0
    post_transform: str = "NONE"

    def expand(self, x: Array) -> tuple[Array, Array]:
        names = labels(self.classlabels_strings, self.classlabels_ints)
        count = len(self.intercepts) or int(names.shape[0])
        scores = product(matrix(x), self.coefficients, self.intercepts, count)
        if names.shape[0] < max(2, count):
            raise ValueError(f"{names.shape[0]} labels are too few for {max(2, count)} classes")
        if count > 1:
            return label(names, p.arg(scores, "argmax", 1)), transformed(scores, self.post_transform)
        return label(names, column(scores, 0) > 0), pair(scores, self.post_transform, positive=True)

    samples = [
        sample((5, 4), coefficients=WEIGHTS, intercepts=[0.1, 0.2, 0.3], classlabels_ints=[7, 8, 9], outputs=2),
        sample((5, 4), coefficients=WEIGHTS[:4], intercepts=[0.1], classlabels_ints=[5, 6], outputs=2),
        sample(
            (5, 4),
            coefficients=WEIGHTS[:4],
            intercepts=[0.1],
            classlabels_ints=[5, 6],
            post_transform="LOGISTIC",
            outputs=2,
        ),
        sample(WHOLE, coefficients=WEIGHTS[:8], intercepts=[0.1, 0.2], classlabels_ints=[5, 6], outputs=2),
        *(
            sample(
                (5, 4),
                coefficients=WEIGHTS,
                intercepts=[0.0] * 3,
                classlabels_ints=[0, 1, 2],
                post_transform=name,
                outputs=2,
            )
            for name in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
        ),
    ]
