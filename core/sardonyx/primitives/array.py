"""What operator expansions compute with: an Array, known or traced, and the primitives that make Arrays of Arrays.

An expansion is written once against `Array`. If all that it is given is known, its primitives are evaluated with NumPy
on the spot: that is constant folding and eager execution. Otherwise they are recorded as equations of the active
`Trace`: that is the compiler's input. Three states, one class:

* `value`: a NumPy array: a constant, a weight, the result of folding (of strings the ids, see
  `sardonyx.common.strings`);
* `sizes`: a small object array of integers and symbolic sizes: what `Shape` gives, and arithmetic on it;
* `equation`: the output of a recorded primitive, or (None) an input of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from sardonyx.common.dtypes import DType
from sardonyx.common.record import record
from sardonyx.sizes.symbolic import Dim, Size, product

Shape: TypeAlias = tuple[Size, ...]
Scalar: TypeAlias = int | float | bool


@record(eq=False, slots=True)
class Array:
    """A tensor of one element type whose sizes may be symbolic."""

    dtype: DType
    shape: Shape
    value: np.ndarray | None = None
    sizes: np.ndarray | None = None
    equation: Equation | None = None
    name: str = ""

    arithmetic: ClassVar[Callable[..., Array]]
    """Applies a scalar function, by its name, to operands: the operators of Python call it. `elementwise` is it."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product(self.shape)

    def __repr__(self) -> str:
        state = "value" if self.value is not None else "sizes" if self.sizes is not None else "traced"
        return f"<Array {self.dtype}[{','.join(f'{size}' for size in self.shape)}] {state}>"

    def __bool__(self) -> bool:
        raise TypeError("an Array has no truth value while a model is compiled; use primitives.where")

    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Array:
        return Array.arithmetic("add", self, other)

    def __radd__(self, other: Operand) -> Array:
        return Array.arithmetic("add", other, self)

    def __sub__(self, other: Operand) -> Array:
        return Array.arithmetic("sub", self, other)

    def __rsub__(self, other: Operand) -> Array:
        return Array.arithmetic("sub", other, self)

    def __mul__(self, other: Operand) -> Array:
        return Array.arithmetic("mul", self, other)

    def __rmul__(self, other: Operand) -> Array:
        return Array.arithmetic("mul", other, self)

    def __truediv__(self, other: Operand) -> Array:
        return Array.arithmetic("div", self, other)

    def __rtruediv__(self, other: Operand) -> Array:
        return Array.arithmetic("div", other, self)

    def __mod__(self, other: Operand) -> Array:
        return Array.arithmetic("rem", self, other)

    def __pow__(self, other: Operand) -> Array:
        return Array.arithmetic("pow", self, other)

    def __neg__(self) -> Array:
        return Array.arithmetic("neg", self)

    def __invert__(self) -> Array:
        return Array.arithmetic("not", self)

    def __and__(self, other: Operand) -> Array:
        return Array.arithmetic("and", self, other)

    def __or__(self, other: Operand) -> Array:
        return Array.arithmetic("or", self, other)

    def __xor__(self, other: Operand) -> Array:
        return Array.arithmetic("xor", self, other)

    def __lt__(self, other: Operand) -> Array:
        return Array.arithmetic("lt", self, other)

    def __le__(self, other: Operand) -> Array:
        return Array.arithmetic("le", self, other)

    def __gt__(self, other: Operand) -> Array:
        return Array.arithmetic("gt", self, other)

    def __ge__(self, other: Operand) -> Array:
        return Array.arithmetic("ge", self, other)


Operand: TypeAlias = Array | Scalar | Dim


@record(eq=False, slots=True)
class Equation:
    """One recorded primitive. `origin` is the position of the ONNX node whose expansion recorded it."""

    primitive: Primitive
    inputs: tuple[Array, ...]
    params: dict[str, Any]
    outputs: tuple[Array, ...]
    origin: int
    bodies: tuple[Any, ...] = ()
    """The traced sub-plans of control flow."""


class Primitive:
    """The contract of a primitive: result types and shapes, and the value by NumPy.

    `pure` primitives with equal inputs and parameters are recorded once. `on_sizes` ones can be evaluated on arrays of
    symbolic sizes, where NumPy's object arrays do the arithmetic. `on_strings` ones do not mind that strings are ids.
    """

    name: str = ""
    pure: bool = True
    on_sizes: bool = False
    on_strings: bool = False

    def takes_sizes(self, params: dict[str, Any]) -> bool:
        """Whether these parameters allow evaluation on symbolic sizes."""
        return self.on_sizes

    infer: Callable[..., Sequence[tuple[DType, Shape]]]
    numpy: Callable[..., Sequence[np.ndarray]]
    expand: Callable[..., Sequence[Array]] | None = None
    """The results in other primitives, for providers that have no routine for this one."""
    room: Callable[..., Size] | None = None
    """The elements that output k may need, of k and the inputs, where its shape tells only what the run finds."""


PRIMITIVES: dict[str, Primitive] = {}


def primitive(cls: type[Primitive]) -> Primitive:
    """Register the one instance of a primitive under its name."""
    PRIMITIVES[cls.name] = instance = cls()
    return instance
