"""Element-wise primitives, conversions, and Arrays made from nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.code import scalar
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.primitives.array import Array, Operand, Primitive, Scalar, Shape, primitive
from sardonyx.primitives.binding import bind, constant
from sardonyx.primitives.evaluation import of_sizes
from sardonyx.primitives.trace import active_trace
from sardonyx.sizes.symbolic import Dim, Size, same, tied

Types: TypeAlias = Sequence[tuple[DType, Shape]]
Values: TypeAlias = Sequence[np.ndarray]


ON_SIZES = frozenset(
    {"add", "sub", "mul", "div", "rem", "min", "max", "eq", "ne", "lt", "le", "gt", "ge", "where", "neg"}
)
"""Functions that symbolic sizes have; the others make numbers of them when the model runs."""


class Elementwise(Primitive):
    name = "elementwise"
    on_strings = True

    def takes_sizes(self, params: dict[str, Any]) -> bool:
        return params["function"] in ON_SIZES

    def infer(self, *inputs: Array, function: str) -> Types:
        kind = scalar.FUNCTIONS[function]
        dtype = {"bool": dtypes.bool_, "same": inputs[0].dtype, "select": inputs[-1].dtype}[kind.result]
        return [(dtype, broadcast_shapes(*(array.shape for array in inputs)))]

    def numpy(self, *arrays: np.ndarray, function: str) -> Values:
        with np.errstate(all="ignore"):
            return [np.asarray(scalar.FUNCTIONS[function].numpy(*arrays))]


class Cast(Primitive):
    name = "cast"
    on_sizes = True

    def infer(self, x: Array, dtype: DType) -> Types:
        return [(dtype, x.shape)]

    def numpy(self, x: np.ndarray, dtype: DType) -> Values:
        return [x if dtype.is_int and x.dtype == object else scalar.cast(x, dtype.storage)]


class Bitcast(Primitive):
    name = "bitcast"
    on_strings = True

    def infer(self, x: Array, dtype: DType) -> Types:
        return [(dtype, x.shape)]

    def numpy(self, x: np.ndarray, dtype: DType) -> Values:
        return [np.asarray(x, order="C").view(dtype.storage)]


class Sizes(Primitive):
    name = "sizes"

    def infer(self, sizes: Sequence[Size], shape: Shape, dtype: DType) -> Types:
        return [(dtype, shape)]

    def numpy(self, sizes: Sequence[Size], shape: Shape, dtype: DType) -> Values:
        return [np.array([int(size) for size in sizes], dtype.storage).reshape([int(size) for size in shape])]


class Full(Primitive):
    name = "full"

    def infer(self, value: Scalar, shape: Shape, dtype: DType) -> Types:
        return [(dtype, shape)]

    def numpy(self, value: Scalar, shape: Shape, dtype: DType) -> Values:
        return [np.full(concrete(shape), value, dtype.storage)]


class Iota(Primitive):
    name = "iota"

    def infer(self, axis: int, shape: Shape, dtype: DType) -> Types:
        return [(dtype, shape)]

    def numpy(self, axis: int, shape: Shape, dtype: DType) -> Values:
        sizes = concrete(shape)
        line = np.arange(sizes[axis], dtype=dtype.storage)
        return [np.broadcast_to(line.reshape([-1 if k == axis else 1 for k in range(len(sizes))]), sizes)]


Conversion: TypeAlias = Callable[[Array, DType], Array]
_CONVERSIONS: list[tuple[Callable[[DType, DType], bool], Conversion]] = []

ELEMENTWISE = primitive(Elementwise)
CAST = primitive(Cast)
BITCAST = primitive(Bitcast)
SIZES = primitive(Sizes)
FULL = primitive(Full)
IOTA = primitive(Iota)


def elementwise(function: str, *operands: Operand) -> Array:
    """Apply a scalar function to operands that broadcast against one another.

    >>> elementwise("max", constant([1, 5, 3]), 2).value
    array([2, 5, 3])
    """
    signature = scalar.FUNCTIONS[function]
    if len(operands) != signature.arity:
        raise TypeError(f"{function} takes {signature.arity} operands, not {len(operands)}")
    data = operands[1:] if signature.result == "select" else operands
    arrays = _promote(function, data)
    if arrays[0].dtype.kind not in signature.kinds:
        kinds = ", ".join(sorted(signature.kinds))
        raise TypeError(f"{function} takes elements of kind {kinds}, not {arrays[0].dtype}")
    if signature.result == "select":
        condition = operands[0]
        if not isinstance(condition, Array) or condition.dtype is not dtypes.bool_:
            raise TypeError(f"where takes a bool condition, not {getattr(condition, 'dtype', condition)}")
        arrays.insert(0, condition)
    if signature.result == "select":
        return bind(ELEMENTWISE, *arrays, function=function)[0]
    result = bind(ELEMENTWISE, *map(native, arrays), function=function)[0]
    return result if signature.result == "bool" else cast(result, arrays[0].dtype)


Array.arithmetic = staticmethod(elementwise)


def _promote(function: str, operands: Sequence[Operand]) -> list[Array]:
    dtype = next((operand.dtype for operand in operands if isinstance(operand, Array)), None)
    if dtype is None:
        raise TypeError(f"{function} needs an Array among its operands")
    arrays = []
    for operand in operands:
        if not isinstance(operand, Array):
            operand = literal(operand, dtype)
        elif operand.dtype is not dtype:
            raise TypeError(
                f"{function} takes operands of one dtype, not {dtype} and {operand.dtype}; cast one of them"
            )
        arrays.append(operand)
    return arrays


def literal(value: Scalar | Dim, dtype: DType) -> Array:
    """A 0-d Array of this number, which may be a symbolic size."""
    if isinstance(value, Dim):
        trace = active_trace()
        if trace is None:
            return constant(int(value), dtype)
        if dtype.is_int:
            return of_sizes(np.array(value, dtype=object), dtype, ())
        return bind(SIZES, sizes=(value,), shape=(), dtype=dtype)[0]
    if dtype is dtypes.string:
        raise TypeError(f"a tensor of strings does not go together with the number {value}; cast it")
    if not dtype.is_native:
        return cast(constant(np.float32(value)), dtype)
    return Array(dtype, (), np.asarray(value, dtype.storage))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that these broadcast to, as NumPy has it.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    first, *others = shapes = tuple(filter(None, shapes)) or ((),)
    if all(other is first for other in others):
        return first
    rank = max(map(len, shapes))
    result: list[Size] = []
    for axis in range(-rank, 0):
        size: Size = 1
        for shape in shapes:
            if -axis > len(shape):
                continue
            other = shape[axis]
            if same(other, 1) or same(other, size):
                continue
            if same(size, 1):
                size = other
            elif tied(size, other):
                continue
            elif size == 1:
                size = other
            elif not (other == 1 or other == size):
                raise ValueError(f"shapes {' and '.join(map(show, shapes))} do not broadcast at axis {axis}")
        result.append(size)
    return tuple(result)


def show(shape: Shape) -> str:
    """A shape as messages say it, in the numbers of the call at hand."""
    return f"[{','.join(f'{size}' for size in shape)}]"


def concrete(shape: Shape) -> tuple[int, ...]:
    """The sizes as numbers, each tied by a guard."""
    return tuple(int(size) for size in shape)


def cast(x: Array, dtype: DType) -> Array:
    """Convert elements: float to integer saturates, NaN gives 0, integers wrap; strings are parsed and written."""
    if x.dtype is dtype:
        return x
    if x.dtype.is_native and dtype.is_native:
        return bind(CAST, x, dtype=dtype)[0]
    convert = next(convert for applies, convert in _CONVERSIONS if applies(x.dtype, dtype))
    return convert(x, dtype)


def conversion(applies: Callable[[DType, DType], bool]) -> Callable[[Conversion], Conversion]:
    """Registers what `cast` does for types to which this applies, of which NumPy lacks one."""

    def register(convert: Conversion) -> Conversion:
        _CONVERSIONS.append((applies, convert))
        return convert

    return register


def native(x: Array) -> Array:
    """The Array itself, or, if its floats are of a type that NumPy lacks, in float32."""
    return cast(x, dtypes.float32) if x.dtype.is_float and not x.dtype.is_native else x


def widen(x: Array) -> Array:
    """Floats of 16 bits or fewer as float32, anything else as it is: what statistics are computed in."""
    return cast(x, dtypes.float32) if x.dtype.is_float and x.dtype.bits <= 16 else x


def bitcast(x: Array, dtype: DType) -> Array:
    """The same bits as another type of the same width."""
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"bitcast from {x.dtype} to {dtype}: the widths differ")
    return x if x.dtype is dtype else bind(BITCAST, x, dtype=dtype)[0]


def full(shape: Sequence[Size], value: Scalar, dtype: DType) -> Array:
    """An Array filled with one number."""
    if not dtype.is_native:
        return cast(full(shape, value, dtypes.float32), dtype)
    return bind(FULL, value=value, shape=tuple(shape), dtype=dtype)[0]


def iota(shape: Sequence[Size], axis: int, dtype: DType = dtypes.int64) -> Array:
    """An Array whose elements are their own index along one axis."""
    if not dtype.is_native:
        return cast(iota(shape, axis, dtypes.float32), dtype)
    return bind(IOTA, axis=axis, shape=tuple(shape), dtype=dtype)[0]


def unary(function: str) -> Callable[[Array], Array]:
    """The scalar function of this name as a function of one Array."""

    def apply(x: Array) -> Array:
        return elementwise(function, x)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"`{function}` of every element."
    return apply


def binary(function: str) -> Callable[[Operand, Operand], Array]:
    """The scalar function of this name as a function of two operands that broadcast."""

    def apply(a: Operand, b: Operand) -> Array:
        return elementwise(function, a, b)

    apply.__name__ = apply.__qualname__ = function
    apply.__doc__ = f"`{function}` of corresponding elements, broadcast."
    return apply


def where(condition: Array, a: Operand, b: Operand) -> Array:
    """`a` where the condition holds, else `b`."""
    return elementwise("where", condition, a, b)


minimum, maximum = binary("min"), binary("max")
equal, not_equal = binary("eq"), binary("ne")
shift_left, shift_right = binary("shl"), binary("shr")
isnan, isinf = unary("isnan"), unary("isinf")
absolute, sign, negative = unary("abs"), unary("sign"), unary("neg")
floor, ceil, trunc, round_even = unary("floor"), unary("ceil"), unary("trunc"), unary("round")
sqrt, exp, log, erf = unary("sqrt"), unary("exp"), unary("log"), unary("erf")
sin, cos, tan = unary("sin"), unary("cos"), unary("tan")
asin, acos, atan = unary("asin"), unary("acos"), unary("atan")
sinh, cosh, tanh, sigmoid = unary("sinh"), unary("cosh"), unary("tanh"), unary("sigmoid")
asinh, acosh, atanh = unary("asinh"), unary("acosh"), unary("atanh")
