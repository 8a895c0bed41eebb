"""Sizes as polynomials over a model's symbolic dimensions.

A `Poly` is exact integer algebra in a normal form, so equal sizes are equal objects: `12 * (b * s * 32)` is
`384 * b * s`. A `Dim` is a Poly that Python code may use and compare like a number: what the algebra can prove costs
nothing; anything else is decided by the numbers of the call at hand, which the active `Guards` know, and leaves a guard
there, so that a plan knows for which other sizes it holds.

>>> guards = Guards()
>>> s = guards.symbol("s", 7)
>>> s * 4 // 2, (s * 12) % 4, s + 1 > 0, len(guards)
(2*s, 0, True, 0)
>>> with guards:
...     s == 1
False
>>> print(guards)
s != 1
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.functions import apply
from sardonyx.sizes.guards import guard_text
from sardonyx.sizes.polynomial import ONE, Poly, constant, symbol
from sardonyx.sizes.relations import alike, solved


class Dim:
    """A size that is not the same in every call."""

    __slots__ = ("poly",)

    def __init__(self, poly: Poly) -> None:
        self.poly = poly

    def __add__(self, other: Size) -> Size:
        return size(self.poly + poly(other)) if isinstance(other, (int, Dim)) else NotImplemented

    def __sub__(self, other: Size) -> Size:
        return size(self.poly - poly(other)) if isinstance(other, (int, Dim)) else NotImplemented

    def __rsub__(self, other: Size) -> Size:
        return size(poly(other) - self.poly)

    def __mul__(self, other: Size) -> Size:
        return size(self.poly * poly(other)) if isinstance(other, (int, Dim)) else NotImplemented

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __floordiv__(self, other: Size) -> Size:
        return size(self.poly.quotient(poly(other)))

    def __rfloordiv__(self, other: Size) -> Size:
        return size(poly(other).quotient(self.poly))

    def __mod__(self, other: Size) -> Size:
        return size(self.poly.mod(poly(other)))

    def __rmod__(self, other: Size) -> Size:
        return size(poly(other).mod(self.poly))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, Dim)) and _decide(self - other, "==")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __ge__(self, other: Size) -> bool:
        return _decide(self - other, ">=")

    def __gt__(self, other: Size) -> bool:
        return _decide(self - other - 1, ">=")

    def __le__(self, other: Size) -> bool:
        return _decide(other - self, ">=")

    def __lt__(self, other: Size) -> bool:
        return _decide(other - self - 1, ">=")

    def __hash__(self) -> int:
        raise TypeError("a symbolic size is no dictionary key; use poly(size)")

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        """The number; whoever asks for it ties the plan to it."""
        number = hint(self)
        _decide(self - number, "==")
        return number

    __int__ = __index__

    def __str__(self) -> str:
        return str(self.poly)

    def __repr__(self) -> str:
        """What messages say, in which sizes and lists of them stand: the number in the call at hand, if it is known."""
        try:
            return str(hint(self))
        except (UndecidedSizeError, KeyError):
            return str(self.poly)

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


Size: TypeAlias = int | Dim


def poly(size: Size) -> Poly:
    """The polynomial of a size: what sizes are compared by without leaving a guard."""
    return size.poly if isinstance(size, Dim) else constant(int(size))


def size(polynomial: Poly) -> Size:
    """The size of a polynomial: an integer if it has no symbol."""
    number = polynomial.constant
    return Dim(polynomial) if number is None else number


def hint(size: Size) -> int:
    """The size in the call at hand, as the active guards know it: for estimates, since no guard is left."""
    return active_guards().value(size.poly) if isinstance(size, Dim) else int(size)


def count(shape: Iterable[Size]) -> int:
    """The elements of a shape in the call at hand: `hint(product(shape))`, without a product of polynomials."""
    return prod(map(hint, shape))


def minimum(a: Size, b: Size) -> Size:
    """The smaller size, as an expression: no guard is left."""
    return size(apply("min", poly(a), poly(b)))


def maximum(a: Size, b: Size) -> Size:
    """The larger size, as an expression: no guard is left."""
    return size(apply("max", poly(a), poly(b)))


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the symbols are: no guard is left."""
    if isinstance(a, Dim):
        return isinstance(b, Dim) and a.poly == b.poly
    return not isinstance(b, Dim) and int(a) == int(b)


def tied(a: Size, b: Size) -> bool:
    """Whether two sizes that calls tell are equal, and not 1 by chance, which leaves a guard, or a relation.

    Whoever asks it before `== 1` of two sizes that broadcast gets a plan that holds for 1, too.
    """
    guards = active_guards()
    are_open = guards.is_of_call and isinstance(a, Dim) and isinstance(b, Dim)
    return are_open and guards.tied(poly(a), poly(b)) and a == b


def is_short(size: Size) -> bool:
    """Whether a size is negative in this call, which leaves a guard; without a call it is taken not to be."""
    return size < 0 if not isinstance(size, Dim) else active_guards().is_of_call and size < 0


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are equal whatever the symbols are: no guard is left."""
    return len(a) == len(b) and all(map(same, a, b))


def product(sizes: Any) -> Size:
    """The product of sizes: the number of elements of a shape."""
    number = 1
    total: Size | None = None
    for size in sizes:
        if not isinstance(size, Dim):
            number *= size
        else:
            total = size if total is None else total * size
    return number if total is None else total if number == 1 else total * number


# ---- guards


class UndecidedSizeError(Exception):
    """A comparison depends on a symbolic size, and no guards are being recorded."""


class SolvedError(Exception):
    """A decision tells a symbol by others: whoever traces puts `polynomial` in its place, and begins anew."""

    def __init__(self, symbol: str, polynomial: Poly) -> None:
        super().__init__(f"{symbol} = {polynomial}")
        self.symbol = symbol
        self.polynomial = polynomial


_active = threading.local()


class Guards:
    """The numbers that symbols have in one call, and the decisions that a trace took by looking at sizes.

    As a context manager it is the one that this thread's comparisons ask. A decision that two sizes are equal raises
    `SolvedError` where that tells one of the `solvable` symbols.
    """

    solvable: Sequence[str] = ()
    is_of_call = True
    """Whether there are numbers that decide, rather than answers that are assumed."""

    def __init__(self, hints: Mapping[str, int] | None = None) -> None:
        self.hints = dict(hints or {})
        self.facts: dict[tuple[Poly, str], bool] = {}
        self._values: dict[Poly, int] = {}

    def symbol(self, name: str, value: int) -> Dim:
        """A new symbol and its number."""
        self.hints[name] = value
        return Dim(symbol(name))

    def value(self, polynomial: Poly) -> int:
        """The number of a polynomial."""
        value = self._values.get(polynomial)
        if value is None:
            value = self._values[polynomial] = evaluate(polynomial.json(), self.hints)
        return value

    def __enter__(self) -> Guards:
        stack = _active.__dict__.setdefault("stack", [])
        stack.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.stack.pop()

    def __len__(self) -> int:
        return len(self.facts)

    def __iter__(self) -> Iterator[tuple[Poly, str, bool]]:
        return ((polynomial, relation, truth) for (polynomial, relation), truth in self.facts.items())

    def __str__(self) -> str:
        return "\n".join(guard_text(polynomial.json(), relation, truth) for polynomial, relation, truth in self)

    def decide(self, polynomial: Poly, relation: str) -> bool:
        """Whether a polynomial is 0, or at least 0; the answer becomes a guard."""
        known = self.facts.get((polynomial, relation))
        if known is None:
            known = self._implied(polynomial, relation)
        if known is not None:
            return known
        value = self.value(polynomial)
        if relation == "==" and value == 0 and (found := solved(polynomial, self.solvable)):
            raise SolvedError(*found)
        return self.facts.setdefault((polynomial, relation), value == 0 if relation == "==" else value >= 0)

    def _implied(self, polynomial: Poly, relation: str) -> bool | None:
        """What earlier decisions say: a multiple of 0 is 0, and what is at least 0 is not below it."""
        if relation == ">=" and (known := self.facts.get((polynomial.scaled(-1) - ONE, ">="))) is not None:
            return not known
        zeros = (zero for (zero, relation_), truth in self.facts.items() if truth and relation_ == relation == "==")
        return True if any(not polynomial.mod(zero).terms for zero in zeros) else None

    def tied(self, a: Poly, b: Poly) -> bool:
        """Whether two sizes are equal in this call, and not 1; raises SolvedError where 1, too, tells a symbol."""
        number = self.value(a)
        if number != self.value(b):
            return False
        if number == 1 and (found := solved(a - b, self.solvable)):
            raise SolvedError(*found)
        return number != 1

    @property
    def is_empty(self) -> bool:
        """Whether a size is 0 in this call, and that decided."""
        zeros = (polynomial for (polynomial, relation), truth in self.facts.items() if truth and relation == "==")
        return any(all(factor > 0 for _, factor in polynomial.terms) for polynomial in zeros)

    def missing(self, numbers: bool) -> SolvedError | dict[str, int] | None:
        """What would have told a solvable symbol, had the sizes been equal that were last found not to be.

        With `numbers`, that may be a number, or that of several symbols, alike, for which they are.
        """
        for (polynomial, relation), truth in reversed(self.facts.items()):
            if relation != "==" or truth:
                continue
            if found := solved(polynomial, self.solvable, numbers):
                return SolvedError(*found)
            if numbers and (same := alike(polynomial, self.solvable)):
                return same
        return None


class _NoGuards(Guards):
    is_of_call = False

    def decide(self, polynomial: Poly, relation: str) -> bool:
        raise UndecidedSizeError(guard_text(polynomial.json(), relation, True))

    def value(self, polynomial: Poly) -> int:
        raise UndecidedSizeError(f"the number of {polynomial} is not known")


UNDECIDED = _NoGuards()
"""As a context manager: comparisons that the algebra cannot prove raise `UndecidedSizeError`."""


def _decide(difference: Size, relation: str) -> bool:
    if not isinstance(difference, Dim):
        return difference == 0 if relation == "==" else difference >= 0
    polynomial = difference.poly
    if relation == ">=":
        if polynomial.is_nonnegative():
            return True
        if (polynomial.scaled(-1) - ONE).is_nonnegative():
            return False
    elif (polynomial - ONE).is_nonnegative() or (polynomial.scaled(-1) - ONE).is_nonnegative():
        return False
    elif polynomial.terms[-1][1] < 0:
        polynomial = polynomial.scaled(-1)
    return active_guards().decide(polynomial, relation)


def active_guards() -> Guards:
    """The guards that this thread's comparisons ask; `UNDECIDED` where there are none."""
    stack: list[Guards] = _active.__dict__.get("stack") or [UNDECIDED]
    return stack[-1]
