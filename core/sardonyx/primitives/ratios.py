"""Sizes that went through floats, as exporters write `int(n * 0.5)`, `ceil(n / 4)` and `int(n ** 0.5)`.

Such an element is a `Ratio`: a size over a positive integer. Up to 2^24, from where on float32 itself rounds sizes, it
is what floats make of it, so its floor is a size again, and nothing has to know the number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sardonyx.common.record import record
from sardonyx.primitives.array import Array
from sardonyx.primitives.evaluation import of_sizes
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.polynomial import Atom, Poly
from sardonyx.sizes.symbolic import Dim, Size, poly, size

MOVES = {"broadcast", "concat", "reshape", "slice", "transpose"}
"""Primitives that give what they take, elsewhere."""
MOST, DEPTH = 64, 16
"""How many elements such an Array has at most, and how many equations are between it and the sizes."""
FINEST, LONGEST = 1 << 6, 1 << 8
"""The largest divisor, and the largest factor, with which a product or a sum of floats is exact for usual sizes."""
Elements = np.ndarray[Any, np.dtype[np.object_]]


class NoRatioError(Exception):
    """What floats make of sizes is no ratio, or need not be the exact one."""


@record
class Ratio:
    """`number / divisor`, which floats hold exactly, or, unless `is_exact`, rounded once."""

    number: Size
    divisor: int = 1
    is_exact: bool = True

    def plus(self, other: Ratio) -> Ratio:
        _need(self.is_exact and other.is_exact)
        return _exact(self.number * other.divisor + other.number * self.divisor, self.divisor * other.divisor)

    def times(self, other: Ratio) -> Ratio:
        _need(self.is_exact and other.is_exact)
        return _exact(self.number * other.number, self.divisor * other.divisor)

    def over(self, other: Ratio) -> Ratio:
        """The quotient by a positive number; one that floats round has the floor of the exact one all the same."""
        number, divisor = other.number, other.divisor
        _need(self.is_exact and other.is_exact and isinstance(number, int) and number > 0)
        divided = Ratio(self.number * divisor, self.divisor * int(number))
        is_binary = divided.divisor & (divided.divisor - 1) == 0
        return Ratio(divided.number, divided.divisor, is_binary and divided.divisor <= FINEST)

    def floor(self) -> Ratio:
        return Ratio(self.number // self.divisor)

    def ceil(self) -> Ratio:
        return Ratio((self.number + self.divisor - 1) // self.divisor)

    def cut(self) -> Ratio:
        """What a conversion to integers makes of it, which rounds towards 0."""
        _need(poly(self.number).is_nonnegative())
        return self.floor()

    def root(self) -> Ratio:
        _need(self.divisor == 1 and self.is_exact)
        return Ratio(_root(self.number))


def _need(holds: bool) -> None:
    if not holds:
        raise NoRatioError


def _exact(number: Size, divisor: int) -> Ratio:
    """A ratio in lowest terms, of which floats have few enough bits."""
    terms = poly(number)
    shared = terms.multiple_of(divisor)
    _need(divisor // shared <= FINEST and all(abs(factor) // shared <= LONGEST for _, factor in terms.terms))
    return Ratio(number // shared, divisor // shared)


def _root(number: Size) -> Size:
    """The square root of a square, such as that of the patches of an image that is as high as it is wide.

    Whether it is as high as it is wide is asked, which leaves a guard, or a relation.
    """
    terms = poly(number).terms
    _need(len(terms) == 1)
    ((atoms, factor),) = terms
    whole = round(factor**0.5)
    _need(whole * whole == factor and len(atoms) % 2 == 0)
    found: Size = whole
    left = list(atoms)
    while left:
        atom = left.pop()
        if atom not in left:
            twin = next((other for other in left if _are_alike(atom, other)), None)
            if twin is None:
                raise NoRatioError
            left.remove(twin)
        else:
            left.remove(atom)
        found = found * size(_of(atom))
    return found


def _are_alike(a: Atom, b: Atom) -> bool:
    """Whether two atoms are the same function of one symbol each, and these are equal."""
    one, other = _of(a), _of(b)
    if len(one.symbols()) != 1 or len(other.symbols()) != 1:
        return False
    (x,), (y,) = one.symbols(), other.symbols()
    x_size, y_size = Poly((((x,), 1),)), Poly((((y,), 1),))
    return substitute(other, {y: x_size}) == one and size(x_size) == size(y_size)


def _of(atom: Atom) -> Poly:
    return Poly((((atom,), 1),))


_FUNCTIONS: dict[str, Callable[..., Ratio]] = {
    "add": Ratio.plus,
    "sub": lambda a, b: a.plus(b.times(Ratio(-1))),
    "mul": Ratio.times,
    "div": Ratio.over,
    "neg": lambda a: a.times(Ratio(-1)),
    "floor": Ratio.floor,
    "ceil": Ratio.ceil,
    "trunc": Ratio.cut,
    "sqrt": Ratio.root,
    "pow": lambda a, b: _power(a, b),
}


def _power(a: Ratio, b: Ratio) -> Ratio:
    _need(b.number == 1 and b.divisor == 2)
    return a.root()


def through_floats(array: Array) -> Array | None:
    """An Array of integers that floats make of sizes, with its elements as sizes; None where they are not that."""
    if array.equation is None or not _is_of_sizes(array):
        return None
    try:
        found = _ratios(array, DEPTH)
    except NoRatioError:
        return None
    elements = np.empty(found.shape, object)
    elements.reshape(-1)[:] = [ratio.number for ratio in found.reshape(-1).tolist()]
    return of_sizes(elements, array.dtype, array.shape)


def _is_of_sizes(array: Array, depth: int = DEPTH) -> bool:
    """Whether sizes are among what an Array is made of, and nothing that only the run tells."""
    equation = array.equation
    if equation is None or equation.primitive.name == "sizes":
        return equation is not None
    made = [x for x in equation.inputs if x.value is None]
    return depth > 0 and bool(made) and all(_is_of_sizes(x, depth - 1) for x in made)


def _ratios(array: Array, depth: int) -> Elements:
    """The elements of an Array, as ratios. Raises NoRatioError where they are none."""
    _need(depth > 0 and all(isinstance(each, int) for each in array.shape) and int(array.size) <= MOST)
    if array.value is not None:
        return _each(_of_number, array.value.astype(object))
    equation = array.equation
    if equation is None:
        raise NoRatioError
    name, params = equation.primitive.name, equation.params
    if name == "sizes":
        elements = np.empty(len(params["sizes"]), object)
        elements[:] = [Ratio(each) for each in params["sizes"]]
        return elements.reshape([int(each) for each in array.shape])
    inputs = [_ratios(x, depth - 1) for x in equation.inputs]
    if name == "cast":
        is_cut = array.dtype.is_int and not equation.inputs[0].dtype.is_int
        return _each(Ratio.cut, inputs[0]) if is_cut else inputs[0]
    if name in MOVES:
        (result,) = equation.primitive.numpy(*inputs, **params)
        return np.asarray(result, object)
    _need(name == "elementwise" and params["function"] in _FUNCTIONS)
    _need(params["function"] != "div" or array.dtype.is_float)
    return _each(_FUNCTIONS[params["function"]], *inputs)


def _each(function: Callable[..., Ratio], *inputs: Elements) -> Elements:
    result: Elements = np.frompyfunc(function, len(inputs), 1)(*inputs)
    if isinstance(result, np.ndarray):
        return result
    scalar = np.empty((), object)
    scalar[()] = result
    return scalar


def _of_number(number: Any) -> Ratio:
    _need(not isinstance(number, (bool, Dim)) and number == number and abs(number) < 1 << 31)
    top, divisor = float(number).as_integer_ratio()
    _need(divisor <= FINEST)
    return Ratio(top, divisor)
