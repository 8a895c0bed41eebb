"""Blocks that add a node, or a few, to the model; a loss is composed of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx.errors import InvalidArgument
from sardonyx.training.draft import Draft
from sardonyx.training.onnxblock import model_accessor


class Block(ABC):
    """What adds nodes to the model that `onnxblock.base` holds. `build` takes and gives names of tensors.

    Blocks of one's own are composed of others, or add nodes by `self.base.add(op_type, inputs)`.
    """

    base: Draft

    @abstractmethod
    def build(self, *names: Any, **options: Any) -> Any:
        """Add the nodes and give the name of what they make."""

    def __call__(self, *names: Any, **options: Any) -> Any:
        self.base = model_accessor.draft()
        return self.build(*names, **options)


class _Operator(Block):
    """One node of an operator of ONNX."""

    op_type: str

    def build(self, *names: str) -> str:
        return self.base.add(self.op_type, names)


class Add(_Operator):
    """a + b."""

    op_type = "Add"


class Sub(_Operator):
    """a - b."""

    op_type = "Sub"


class Mul(_Operator):
    """a * b."""

    op_type = "Mul"


class Div(_Operator):
    """a / b."""

    op_type = "Div"


class Sigmoid(_Operator):
    """1 / (1 + exp(-x))."""

    op_type = "Sigmoid"


class Log(_Operator):
    """The natural logarithm."""

    op_type = "Log"


class Neg(_Operator):
    """-x."""

    op_type = "Neg"


class Abs(_Operator):
    """|x|."""

    op_type = "Abs"


class Pow(Block):
    """x to a power that does not change."""

    def __init__(self, exponent: float) -> None:
        self._exponent = exponent

    def build(self, name: str) -> str:
        return self.base.add("Pow", [name, _scalar(self.base, self._exponent, name, "exponent")])


class _Reduce(Block):
    """A reduction over all axes."""

    op_type: str

    def __init__(self, keepdims: bool = True) -> None:
        self._keepdims = keepdims

    def build(self, name: str) -> str:
        return self.base.add(self.op_type, [name], attributes={"keepdims": int(self._keepdims)})


class ReduceMean(_Reduce):
    """The mean of all elements."""

    op_type = "ReduceMean"


class ReduceSum(_Reduce):
    """The sum of all elements."""

    op_type = "ReduceSum"


class Constant(Block):
    """A float that does not change, of shape [1]."""

    def __init__(self, value_float: float) -> None:
        self._value = value_float

    def build(self) -> str:
        return self.base.constant(np.array([self._value], np.float32), "constant")


class Clip(Block):
    """x between two bounds, each of which may be absent."""

    def __init__(self, clip_min: float | None = None, clip_max: float | None = None) -> None:
        self._bounds = clip_min, clip_max

    def build(self, name: str) -> str:
        bounds = ["" if each is None else _scalar(self.base, each, name, "bound") for each in self._bounds]
        return self.base.add("Clip", [name, *bounds])


class Cast(Block):
    """x in another type, by ONNX's number of it."""

    def __init__(self, to: int) -> None:
        self._to = to

    def build(self, name: str) -> str:
        return self.base.add("Cast", [name], attributes={"to": self._to})


class PassThrough(Block):
    """What is given, as it is."""

    def __init__(self, keepdims: bool = True) -> None:
        self._keepdims = keepdims

    def build(self, *names: str) -> Any:
        return names[0] if len(names) == 1 else names


class InputLike(Block):
    """A new input of the model, of the type and shape of a tensor."""

    def __init__(self, like: str) -> None:
        self._like = like

    def build(self, input_name: str | None = None) -> str:
        return self.base.input(input_name or "input", self.base.type_of(self._like))


class LabelEncoder(Block):
    """`LabelEncoder` of ai.onnx.ml: other values in place of values."""

    def __init__(
        self,
        default_float: float = 0.0,
        default_int64: int = -1,
        default_string: str = "_Unused",
        keys_floats: Sequence[float] | None = None,
        keys_int64s: Sequence[int] | None = None,
        keys_strings: Sequence[str] | None = None,
        values_floats: Sequence[float] | None = None,
        values_int64s: Sequence[int] | None = None,
        values_strings: Sequence[str] | None = None,
    ) -> None:
        self._attributes: dict[str, Any] = {
            "default_float": default_float,
            "default_int64": default_int64,
            "default_string": default_string,
            "keys_floats": keys_floats,
            "keys_int64s": keys_int64s,
            "keys_strings": keys_strings,
            "values_floats": values_floats,
            "values_int64s": values_int64s,
            "values_strings": values_strings,
        }

    def build(self, name: str) -> str:
        self.base.model.opset_imports.setdefault("ai.onnx.ml", 3)
        return self.base.add("LabelEncoder", [name], attributes=self._attributes, domain="ai.onnx.ml")


class Linear(Block):
    """x w + b, with normally distributed parameters named `linear.weight` and `linear.bias`."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, alpha: float = 1.0, beta: float = 1.0
    ) -> None:
        if in_features < 1 or out_features < 1:
            raise InvalidArgument(f"Linear({in_features}, {out_features}): both numbers of features are at least 1")
        self._sizes, self._bias = (in_features, out_features), bias
        self._factors = {"alpha": float(alpha), "beta": float(beta)}

    def build(self, name: str) -> str:
        random = np.random.default_rng()
        names = [name, self.base.constant(random.standard_normal(self._sizes).astype(np.float32), "linear.weight")]
        if self._bias:
            names.append(self.base.constant(random.standard_normal(self._sizes[1]).astype(np.float32), "linear.bias"))
        return self.base.add("Gemm", names, "linear.output", self._factors)


def _scalar(base: Draft, number: float, like: str, name: str) -> str:
    """A constant of the element type of a tensor."""
    dtype = base.type_of(like).dtype
    assert dtype is not None
    return base.constant(np.array(number, dtype.storage), name)
