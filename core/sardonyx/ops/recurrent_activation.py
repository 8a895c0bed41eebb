"""The activations of recurrent layers as models name them: one for each place in the equations of each direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sardonyx.code.activations import Activation

ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
    "Tanh": (None, None),
    "Elu": (1.0, None),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, None),
    "Relu": (None, None),
    "Sigmoid": (None, None),
    "Softplus": (None, None),
    "Softsign": (None, None),
    "ThresholdedRelu": (1.0, None),
}
"""The defaults of alpha and beta, those of the operators of these names; None where there is no such."""
_NAMES = {name.lower(): name for name in ACTIVATIONS}  # Models write them in any case.


def activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], count: int, directions: int
) -> tuple[tuple[Activation, ...], ...]:
    """`count` activations for each direction. Those of one direction come before those of the other one.

    Each takes the next alpha and the next beta, if it has such, or its default if none is left.

    >>> activations(["Relu", "Affine"], [2.0], [], 1, 2)
    ((('relu', 0.0, 0.0),), (('affine', 2.0, 0.0),))
    """
    if len(names) < count * directions:
        raise ValueError(f"there are {len(names)} activations; {count * directions} are needed")
    each_alpha, each_beta = iter(alphas), iter(betas)
    parsed = [_activation(name, each_alpha, each_beta) for name in names[: count * directions]]
    return tuple(tuple(parsed[k * count : (k + 1) * count]) for k in range(directions))


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    canonical = _NAMES.get(name.lower())
    if canonical is None:
        raise ValueError(f"activation {name!r} is unknown; use {', '.join(ACTIVATIONS)}")
    alpha, beta = ACTIVATIONS[canonical]
    return (
        canonical.lower(),
        0.0 if alpha is None else float(next(alphas, alpha)),
        0.0 if beta is None else float(next(betas, beta)),
    )
