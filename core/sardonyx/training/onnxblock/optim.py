"""Optimizers as models: parameters, gradients and moments in, parameters and moments out.

A step is a function of the model itself, of ONNX's operators, which a node calls for each parameter. The inputs of a
parameter `w` are `w`, `w_grad`, and its moments `w_momentum0` and `w_momentum1`; each but the gradient has an output
with `_next` behind its name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Function, Graph, Tensor, TensorType, Value
from sardonyx.model.ir.build import constant, node
from sardonyx.training.draft import Draft
from sardonyx.training.gradient_model import GRADIENT, NEXT
from sardonyx.training.onnxblock.blocks import Block
from sardonyx.training.onnxblock.onnxblock import ForwardBlock

DOMAIN = "sardonyx.training"
MOMENTS = ("momentum0", "momentum1")
FUNCTIONS = 8
"""The first version of ONNX's format with functions of a model's own."""


class ClipGradNorm(Block):
    """Gradients scaled so that the root of the sum of all their squares is at most `max_norm`."""

    def __init__(self, max_norm: float) -> None:
        self._max_norm = max_norm

    def build(self, *gradients: str) -> list[str]:
        base = self.base
        squares = [base.add("ReduceSumSquare", [name], attributes={"keepdims": 0}) for name in gradients]
        total = base.add("Sqrt", [base.add("Sum", squares)], "norm")
        dtype = base.type_of(gradients[0]).dtype
        assert dtype is not None
        tiny, most, one = (
            base.constant(np.array(each, dtype.storage), name)
            for each, name in ((1e-6, "tiny"), (self._max_norm, "max_norm"), (1, "one"))
        )
        ratio = base.add("Div", [most, base.add("Add", [total, tiny])], "ratio")
        factor = base.add("Min", [ratio, one], "factor")
        return [base.add("Mul", [name, factor], f"{name}_clipped") for name in gradients]


class _Optimizer(ForwardBlock):
    """A model with one call of a function for each parameter."""

    moments: tuple[str, ...] = ()

    def __init__(self, clip_grad: ClipGradNorm | None = None) -> None:
        super().__init__()
        self._clip_grad = clip_grad

    @abstractmethod
    def scalars(self, rate: str, step: str) -> list[str]:
        """The scalars that a step needs, of the learning rate and the number of the step, 1 for the first."""

    @abstractmethod
    def function(self, name: str, dtype: dtypes.DType) -> Function:
        """The step for one parameter, of these scalars, the parameter, its gradient and its moments."""

    def build(self, parameters: tuple[Sequence[Tensor], Sequence[Tensor]]) -> list[str]:
        base, (trained, _) = self.base, parameters
        if not trained:
            raise InvalidArgument("an optimizer needs a parameter that is trained")
        base.model.opset_imports[DOMAIN] = 1
        base.model.ir_version = max(base.model.ir_version, FUNCTIONS)
        rate = base.add("Squeeze", [base.input("learning_rate", TensorType(dtypes.float32, (1,)))], "rate")
        step = base.add("Squeeze", [base.input("step", TensorType(dtypes.int64, (1,)))], "number")
        for suffix in ("", GRADIENT, *(f"_{moment}" for moment in self.moments)):
            for tensor in trained:
                base.input(f"{tensor.name}{suffix}", TensorType(tensor.dtype, tensor.shape))
        scalars = self.scalars(rate, step)
        gradients = [f"{tensor.name}{GRADIENT}" for tensor in trained]
        if self._clip_grad is not None:
            gradients = self._clip_grad(*gradients)
        outputs = []
        for tensor, gradient in zip(trained, gradients, strict=True):
            held = [tensor.name, *(f"{tensor.name}_{moment}" for moment in self.moments)]
            results = [f"{name}{NEXT}" for name in held]
            base.add(self._function(tensor.dtype), [*scalars, held[0], gradient, *held[1:]], results, domain=DOMAIN)
            for name in results:
                base.value(name).type = TensorType(tensor.dtype, tensor.shape)
            outputs.append(results)
        return [results[k] for k in range(1 + len(self.moments)) for results in outputs]

    def _function(self, dtype: dtypes.DType) -> str:
        """The name of the step for parameters of a type."""
        name = type(self).__name__ + ("" if dtype is dtypes.float32 else f"_{dtype.name}")
        functions = self.base.model.functions
        if (DOMAIN, name, "") not in functions:
            functions[DOMAIN, name, ""] = self.function(name, dtype)
        return name


class AdamW(_Optimizer):
    """Adam with weight decay of its own (Loshchilov and Hutter, 2017), from running means m and v of g and g^2.

    With `adam_mode` 1, which is onnxruntime's, epsilon is added before the bias of v is corrected, and weights decay
    after the step; with 0 both are as in PyTorch's AdamW:

        0:  x (1 - R decay) - R m / c1 / (sqrt(v) / sqrt(c2) + epsilon)
        1:  (x - R sqrt(c2) / c1 m / (sqrt(v) + epsilon)) (1 - R decay)

    where c1 = 1 - beta1^T and c2 = 1 - beta2^T in step T; both are 1 without `bias_correction`.
    """

    moments = MOMENTS

    def __init__(
        self,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        clip_grad: ClipGradNorm | None = None,
        *,
        adam_mode: int = 1,
    ) -> None:
        super().__init__(clip_grad)
        if adam_mode not in (0, 1):
            raise InvalidArgument(f"adam_mode is 0, PyTorch's, or 1, onnxruntime's, not {adam_mode}")
        self._corrects, self._betas, self._eps = bias_correction, betas, eps
        self._decay, self._mode = weight_decay, adam_mode

    def scalars(self, rate: str, step: str) -> list[str]:
        base = self.base
        one = base.constant(np.array(1, np.float32), "one")
        if not self._corrects:
            return [rate, one, one]
        number = base.add("Cast", [step], attributes={"to": dtypes.float32.number})
        corrections = []
        for beta, name in zip(self._betas, ("beta1", "beta2"), strict=True):
            power = base.add("Pow", [base.constant(np.array(beta, np.float32), name), number], f"{name}_power")
            corrections.append(base.add("Sub", [one, power], f"{name}_correction"))
        return [rate, corrections[0], base.add("Sqrt", corrections[1:], "root")]

    def function(self, name: str, dtype: dtypes.DType) -> Function:
        beta1, beta2 = self._betas
        body = _Body(["rate", "correction", "root", "x", "g", "m", "v"], dtype)
        rate, correction, root, x, g, m, v = body.inputs
        m = body.add("Add", body.add("Mul", m, beta1), body.add("Mul", g, 1 - beta1))
        v = body.add("Add", body.add("Mul", v, beta2), body.add("Mul", body.add("Mul", g, g), 1 - beta2))
        deviation = body.add("Sqrt", v)
        kept = body.add("Sub", 1.0, body.add("Mul", rate, self._decay)) if self._decay else None
        speed = body.add("Div", rate, correction)
        if self._mode == 0:
            x = x if kept is None else body.add("Mul", x, kept)
            deviation = body.add("Div", deviation, root)
        else:
            speed = body.add("Mul", speed, root)
        x = body.add("Sub", x, body.add("Mul", speed, body.add("Div", m, body.add("Add", deviation, self._eps))))
        if self._mode == 1 and kept is not None:
            x = body.add("Mul", x, kept)
        return body.function(name, [x, m, v], self.base)


class SGD(_Optimizer):
    """x - R g."""

    def scalars(self, rate: str, step: str) -> list[str]:
        return [rate]

    def function(self, name: str, dtype: dtypes.DType) -> Function:
        body = _Body(["rate", "x", "g"], dtype)
        rate, x, g = body.inputs
        return body.function(name, [body.add("Sub", x, body.add("Mul", rate, g))], self.base)


class _Body:
    """The body of a function of numbers and tensors of one type; its scalars are floats, cast where need be."""

    def __init__(self, names: Sequence[str], dtype: dtypes.DType) -> None:
        self.dtype = dtype
        self.graph = Graph([Value(name) for name in names])
        self.inputs: list[Value] = list(self.graph.inputs)
        if dtype is not dtypes.float32:
            scalars = names.index("x")
            cast = [self.node("Cast", [value], to=dtype.number) for value in self.inputs[:scalars]]
            self.inputs[:scalars] = cast

    def node(self, op_type: str, inputs: Sequence[Value], **attributes: Any) -> Value:
        made = node(op_type, list(inputs), [f"t{len(self.graph.nodes)}"], attributes)
        self.graph.nodes.append(made)
        return made.outputs[0]

    def add(self, op_type: str, *operands: Value | float) -> Value:
        return self.node(op_type, [each if isinstance(each, Value) else self.number(each) for each in operands])

    def number(self, value: float) -> Value:
        held = constant(np.array(value, self.dtype.storage)).constant
        return self.node("Constant", [], value=held)

    def function(self, name: str, outputs: Sequence[Value], base: Draft) -> Function:
        self.graph.outputs = list(outputs)
        return Function(DOMAIN, name, self.graph, opset_imports={"": base.opset()})
