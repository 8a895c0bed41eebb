"""Training: gradients, and steps of gradient descent for each of n tensors.

The operands of steps come kind by kind: R, T, X1.., G1.., V1.., H1.. R is the learning rate, T the number of the step,
X what is optimised, G its gradient, V and H what is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient import gradient
from sardonyx.ops.operator import Operator
from sardonyx.primitives.array import Array

DOMAIN = "ai.onnx.preview.training"


class _Step(Operator, domain=DOMAIN, abstract=True):
    """A step for all tensors by `step` for one of them."""

    norm_coefficient: float = 0.0

    def expand(self, rate: Array, number: Array, *tensors: Array) -> Sequence[Array]:
        kinds = self.kinds_of_tensors
        if not tensors or len(tensors) % kinds:
            raise ValueError(f"after R and T come {kinds} tensors for each one that is optimised, not {len(tensors)}")
        count = len(tensors) // kinds
        rate, number = p.reshape(rate, ()), p.reshape(number, ())
        results = []
        for k in range(count):
            x, gradient, *others = tensors[k::count]
            regular = gradient + x * self.norm_coefficient if self.norm_coefficient else gradient
            results.append(self.step(p.cast(rate, x.dtype), number, x, regular, *others))
        return [result for kind in zip(*results, strict=True) for result in kind]

    kinds_of_tensors = 3

    def step(self, rate: Array, number: Array, x: Array, gradient: Array, *remembered: Array) -> Sequence[Array]:
        """The new value of x, and what is remembered of it."""
        raise NotImplementedError


class Adagrad(_Step, domain=DOMAIN):
    """x - R / (1 + T decay_factor) * g / (sqrt(h + g^2) + epsilon) (Duchi et al., 2011)."""

    decay_factor: float = 0.0
    epsilon: float = 1e-6

    def step(self, rate: Array, number: Array, x: Array, gradient: Array, *remembered: Array) -> Sequence[Array]:
        squares = remembered[0] + gradient * gradient
        rate = rate / (p.cast(number, x.dtype) * self.decay_factor + 1)
        return x - rate * gradient / (p.sqrt(squares) + self.epsilon), squares


class Adam(_Step, domain=DOMAIN):
    """x - R * v / (sqrt(h) + epsilon), with running means v of gradients and h of squares (Kingma and Ba, 2014)."""

    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 1e-6
    norm_coefficient_post: float = 0.0

    kinds_of_tensors = 4

    def step(self, rate: Array, number: Array, x: Array, gradient: Array, *remembered: Array) -> Sequence[Array]:
        means, squares = remembered
        means = means * self.alpha + gradient * (1 - self.alpha)
        squares = squares * self.beta + gradient * gradient * (1 - self.beta)
        count = p.cast(number, x.dtype)
        unbiased = rate * p.sqrt(1 - p.literal(self.beta, x.dtype) ** count)
        unbiased = unbiased / (1 - p.literal(self.alpha, x.dtype) ** count)
        x = x - p.where(number > 0, unbiased, rate) * means / (p.sqrt(squares) + self.epsilon)
        return x * (1 - self.norm_coefficient_post), means, squares


class Momentum(_Step, domain=DOMAIN):
    """x - R * v with v = alpha v + beta g, or x - R * (g + alpha v) for Nesterov's momentum; beta is 1 in step 0."""

    alpha: float
    beta: float
    mode: str
    norm_coefficient: float

    def step(self, rate: Array, number: Array, x: Array, gradient: Array, *remembered: Array) -> Sequence[Array]:
        if self.mode not in ("standard", "nesterov"):
            raise ValueError(f"mode {self.mode!r} is neither 'standard' nor 'nesterov'")
        speed = remembered[0] * self.alpha + gradient * p.where(number > 0, p.literal(self.beta, x.dtype), 1)
        direction = speed if self.mode == "standard" else gradient + speed * self.alpha
        return x - rate * direction, speed


class Gradient(Operator, domain=DOMAIN):
    """The derivatives of the sum of the tensor `y` by the tensors `xs`; those in `zs` are constants of it.

    What `y` names is the last operand.
    """

    xs: tuple[str, ...]
    y: str
    zs: tuple[str, ...] = ()

    def expand(self, *operands: Array) -> Sequence[Array]:
        *inputs, y = operands
        if len(inputs) != len(self.xs) + len(self.zs):
            raise ValueError(f"xs and zs name {len(self.xs) + len(self.zs)} tensors, the inputs are {len(inputs)}")
        return gradient(y, inputs[: len(self.xs)], inputs[len(self.xs) :])
