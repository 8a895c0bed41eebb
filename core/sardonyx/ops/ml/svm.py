"""Support vector machines, as libsvm and liblinear train them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from sardonyx import primitives as p
from sardonyx.ops.ml.coupling import coupled
from sardonyx.ops.ml.rows import matrix
from sardonyx.ops.ml.scores import floats, label, labels, logistic, pair, transformed
from sardonyx.ops.operator import Operator, sample
from sardonyx.primitives.array import Array
from sardonyx.primitives.binding import constant
from sardonyx.primitives.rows import by_rows

ML = "ai.onnx.ml"
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
ALMOST = 1e-7
"""How near to 0 and 1 the probability of one class against another may come."""
VECTORS = np.linspace(-1, 2, 24).tolist()


class Machine(Operator, domain=ML, abstract=True):
    """What both operators share: the kernel of features with support vectors."""

    kernel_params: Sequence[float] = ()
    kernel_type: str = "LINEAR"
    support_vectors: Sequence[float] = ()
    coefficients: Sequence[float]
    rho: Sequence[float]
    post_transform: str = "NONE"

    def kernel(self, x: Array, vectors: np.ndarray) -> Array:
        """The kernel of x [rows, features] with vectors [count, features]: [rows, count]."""
        if not x.shape[1] == vectors.shape[1]:
            raise ValueError(f"support vectors have {vectors.shape[1]} features, and x {p.show(x.shape)}")
        if self.kernel_type not in KERNELS:
            raise ValueError(f"kernel_type {self.kernel_type!r} is not one of {', '.join(KERNELS)}")
        gamma, offset, degree = map(float, self.kernel_params or (0.0, 0.0, 0.0))
        if self.kernel_type == "RBF":  # not by products: they would cancel
            return by_rows(x, vectors.size, lambda block: radial(block, vectors, gamma))
        products = p.matmul(x, constant(np.ascontiguousarray(vectors.T)))
        if self.kernel_type == "LINEAR":
            return products
        products = gamma * products + offset
        return p.tanh(products) if self.kernel_type == "SIGMOID" else power(products, degree)

    def vectors(self, count: int) -> np.ndarray:
        """The support vectors [count, features]."""
        if len(self.support_vectors) % count:
            raise ValueError(f"{len(self.support_vectors)} numbers make no {count} support vectors of one length")
        return floats(self.support_vectors).reshape(count, -1)


def radial(x: Array, vectors: np.ndarray, gamma: float) -> Array:
    """exp(-gamma * |x - vector|^2): [rows, count]; vectors lie side by side, so that lanes may take one each."""
    apart = p.unsqueeze(x, [2]) - constant(np.ascontiguousarray(vectors.T))
    return p.exp(-gamma * p.sum_(apart * apart, [1]))


def power(x: Array, degree: float) -> Array:
    """x to a power; the small integer ones that are common by multiplication."""
    if degree not in (1.0, 2.0, 3.0, 4.0):
        return x**degree
    result = x
    for _ in range(int(degree) - 1):
        result = result * x
    return result


class SVMRegressor(Machine, domain=ML):
    """The distance from a hyperplane in the kernel's space; one class: 1 inside, -1 outside."""

    n_supports: int = 0
    one_class: int = 0

    def expand(self, x: Array) -> Array:
        x, weights = matrix(x), floats(self.coefficients)
        if self.n_supports:
            if weights.size != self.n_supports:
                raise ValueError(f"{weights.size} coefficients do not fit {self.n_supports} support vectors")
            x = self.kernel(x, self.vectors(self.n_supports))
        elif x.shape[1] != weights.size:
            raise ValueError(f"{weights.size} coefficients do not fit x {p.show(x.shape)}")
        scores = p.matmul(x, constant(weights.reshape(-1, 1))) + float(self.rho[0])
        return 2.0 * p.cast(scores > 0, scores.dtype) - 1.0 if self.one_class else scores

    samples = [
        *(
            sample(
                (5, 4),
                kernel_type=kernel,
                kernel_params=[0.5, 0.25, degree],
                support_vectors=VECTORS[:12],
                coefficients=[1.0, -2.0, 0.5],
                rho=[0.25],
                n_supports=3,
            )
            for kernel, degree in [("LINEAR", 3.0), ("POLY", 3.0), ("POLY", 5.0), ("RBF", 3.0), ("SIGMOID", 3.0)]
        ),
        sample((5, 4), kernel_params=[0.0, 0.0, 3.0], coefficients=[1.0, -2.0, 0.5, 1.0], rho=[0.25]),
        sample((5, 4), kernel_params=[], coefficients=[1.0, -2.0, 0.5, 1.0], rho=[0.25], one_class=1),
    ]


class SVMClassifier(Machine, domain=ML):
    """The class that wins most comparisons with another, and the scores of these, or probabilities.

    Without support vectors there is a linear score for each class. With `prob_a` and `prob_b` each comparison becomes
    a probability (Platt, 1999), and these are coupled (Wu, Lin and Weng, 2004).
    """

    vectors_per_class: Sequence[int] = ()
    prob_a: Sequence[float] = ()
    prob_b: Sequence[float] = ()
    classlabels_ints: Sequence[int] = ()
    classlabels_strings: Sequence[str] = ()

    def expand(self, x: Array) -> tuple[Array, Array]:
        names = labels(self.classlabels_strings, self.classlabels_ints)
        count = int(names.shape[0])
        if sum(self.vectors_per_class):
            return self.by_comparison(matrix(x), names, count)
        weights = floats(self.coefficients)
        if not count or weights.size % count:
            raise ValueError(f"{weights.size} coefficients do not fit {count} classes")
        linear = p.matmul(matrix(x), constant(np.ascontiguousarray(weights.reshape(count, -1).T)))
        scores = linear + float(self.rho[0])
        place = p.arg(scores, "argmax", 1)
        if count == 2 and not len(self.prob_a):
            best = p.max_(scores, [1])
            positive = best >= 0.5 if (weights >= 0).all() else best > 0
            place = p.where(positive, 1, place)
        return label(names, place), transformed(scores, self.post_transform)

    def by_comparison(self, x: Array, names: Array, count: int) -> tuple[Array, Array]:
        """Each class against each other, as libsvm does."""
        pairs = list(combinations(range(count), 2))
        if len(self.vectors_per_class) != count or count < 2 or len(self.rho) < len(pairs):
            raise ValueError(
                f"{count} labels want as many entries of vectors_per_class and {len(pairs)} of rho, "
                f"not {len(self.vectors_per_class)} and {len(self.rho)}"
            )
        kernels = self.kernel(x, self.vectors(sum(self.vectors_per_class)))
        scores = p.matmul(kernels, constant(self.weights(pairs))) + constant(floats(self.rho[: len(pairs)]))
        votes = ballots(pairs, count)
        won = p.cast(scores > 0, scores.dtype)
        place = p.arg(p.matmul(won, constant(votes[0])) + p.matmul(1.0 - won, constant(votes[1])), "argmax", 1)
        if len(self.prob_a):
            slopes, shifts = (constant(floats(v[: len(pairs)])) for v in (self.prob_a, self.prob_b))
            chances = 1.0 - logistic(scores * slopes + shifts)
            chances = p.minimum(p.maximum(chances, ALMOST), 1.0 - ALMOST)
            return label(names, place), transformed(coupled(chances, pairs, count), self.post_transform)
        if count == 2:
            return label(names, place), pair(scores, self.post_transform, self.post_transform != "NONE")
        return label(names, place), transformed(scores, self.post_transform)

    def weights(self, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
        """What each support vector adds to each comparison: [vectors, pairs].

        Row j - 1 of the coefficients holds what vectors of class i say against class j above i, row i what those of
        class j say against i.
        """
        ends = np.cumsum(self.vectors_per_class)
        rows = floats(self.coefficients)[: (len(ends) - 1) * int(ends[-1])].reshape(len(ends) - 1, int(ends[-1]))
        places = [slice(end - size, end) for end, size in zip(ends, self.vectors_per_class, strict=True)]
        result = np.zeros((int(ends[-1]), len(pairs)), np.float32)
        for k, (i, j) in enumerate(pairs):
            result[places[i], k] = rows[j - 1, places[i]]
            result[places[j], k] = rows[i, places[j]]
        return result

    samples = [
        sample(
            (5, 4),
            kernel_type=kernel,
            kernel_params=[0.3, 0.1, 2.0],
            support_vectors=VECTORS,
            vectors_per_class=counts,
            coefficients=np.sin(np.arange(6 * (len(counts) - 1))).tolist(),
            rho=[0.1, -0.2, 0.3],
            classlabels_ints=[3, 5, 7][: len(counts)],
            post_transform=name,
            outputs=2,
        )
        for kernel, counts, name in [
            ("RBF", [2, 3, 1], "NONE"),
            ("POLY", [2, 3, 1], "SOFTMAX"),
            ("LINEAR", [2, 3, 1], "LOGISTIC"),
            ("RBF", [2, 4], "NONE"),
            ("SIGMOID", [2, 4], "LOGISTIC"),
            ("RBF", [2, 4], "SOFTMAX"),
        ]
    ]


def ballots(pairs: Sequence[tuple[int, int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The votes that the winner of each comparison gets: [pairs, classes] where the first wins, where the second."""
    rows = np.arange(len(pairs))
    first, second = (np.zeros((len(pairs), count), np.float32) for _ in range(2))
    first[rows, [i for i, _ in pairs]] = 1
    second[rows, [j for _, j in pairs]] = 1
    return first, second
