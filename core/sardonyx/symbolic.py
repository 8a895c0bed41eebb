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

import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Atom: TypeAlias = "str | tuple[str, Poly, Poly]"
Monomial: TypeAlias = tuple[Atom, ...]
Ranges: TypeAlias = Mapping[str, "tuple[Poly, Poly]"]
"""Inclusive lower and upper bounds of index variables; every other symbol is a size, at least 0."""

NO_RANGES: Ranges = {}


class Poly:
    """A polynomial with integer coefficients over symbols and over `floordiv`, `mod`, `min`, `max` of polynomials."""

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Poly) and self._hash == other._hash and self.terms == other.terms)

    @property
    def constant(self) -> int | None:
        """The number this is, if it has no symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def symbols(self) -> set[str]:
        found: set[str] = set()
        stack = [self]
        while stack:
            for monomial, _ in stack.pop().terms:
                for atom in monomial:
                    if isinstance(atom, str):
                        found.add(atom)
                    else:
                        stack += atom[1:]
        return found

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        sums = dict(self.terms)
        for monomial, factor in other.terms:
            sums[monomial] = sums.get(monomial, 0) + factor
        return _normal(sums)

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scaled(-1)

    def __mul__(self, other: Poly) -> Poly:
        for a, b in ((self, other), (other, self)):
            if (number := a.constant) is not None:
                return b.scaled(number)
        products: dict[Monomial, int] = {}
        for left, a_factor in self.terms:
            for right, b_factor in other.terms:
                key = tuple(sorted(left + right, key=_order))
                products[key] = products.get(key, 0) + a_factor * b_factor
        return _normal(products)

    def scaled(self, number: int) -> Poly:
        if number == 1:
            return self
        return Poly(tuple((monomial, factor * number) for monomial, factor in self.terms)) if number else ZERO

    def floordiv(self, divisor: Poly, ranges: Ranges = NO_RANGES) -> Poly:
        """The quotient rounded down; what divides evenly, or is provably smaller than the divisor, leaves no trace."""
        if self.constant is not None and divisor.constant:
            return constant(self.constant // divisor.constant)
        quotient, rest = self._divide(divisor)
        if within(rest, divisor, ranges):
            return quotient
        return quotient + Poly((((("floordiv", rest, divisor),), 1),))

    def mod(self, divisor: Poly, ranges: Ranges = NO_RANGES) -> Poly:
        """The remainder of `floordiv`."""
        if self.constant is not None and divisor.constant:
            return constant(self.constant % divisor.constant)
        _, rest = self._divide(divisor)
        if within(rest, divisor, ranges):
            return rest
        return Poly((((("mod", rest, divisor),), 1),))

    def _divide(self, divisor: Poly) -> tuple[Poly, Poly]:
        if len(divisor.terms) != 1:
            return (ONE, ZERO) if self == divisor else (ZERO, self)
        ((atoms, number),) = divisor.terms
        quotient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            left = list(monomial)
            for atom in atoms:
                if atom not in left:
                    break
                left.remove(atom)
            else:
                whole = factor // number
                if whole:
                    quotient[tuple(left)] = whole
                if factor - whole * number:
                    rest[monomial] = factor - whole * number
                continue
            rest[monomial] = factor
        return _normal(quotient), _normal(rest)

    def bound(self, upper: bool, ranges: Ranges = NO_RANGES) -> Poly | None:
        """A provable bound over sizes alone, with no index variable in it, or None."""
        total = ZERO
        for monomial, factor in self.terms:
            part = constant(factor)
            for atom in monomial:
                low, high = _atom_range(atom, ranges)
                if low is None or not _all_positive(low):
                    return None
                side = high if (factor > 0) == upper else low
                if side is None:
                    return None
                part = part * side
            total = total + part
        return total

    def is_nonnegative(self, ranges: Ranges = NO_RANGES) -> bool:
        """Whether this is provably at least 0 for all sizes."""
        low = self.bound(False, ranges)
        return low is not None and _all_positive(low)

    def substitute(self, values: Mapping[str, Poly], ranges: Ranges = NO_RANGES) -> Poly:
        """The polynomial with symbols replaced, simplified anew."""
        if values.keys().isdisjoint(self.symbols()):
            return self
        total = ZERO
        for monomial, factor in self.terms:
            part = constant(factor)
            for atom in monomial:
                if isinstance(atom, str):
                    part = part * values.get(atom, symbol(atom))
                else:
                    name, a, b = atom
                    part = part * apply(name, a.substitute(values, ranges), b.substitute(values, ranges), ranges)
            total = total + part
        return total

    def json(self) -> Any:
        """Nested lists over `+ * floordiv mod min max`, symbols as strings.

        >>> (symbol("s") * symbol("s") + constant(3)).json()
        ['+', 3, ['*', 's', 's']]
        """
        parts = []
        for monomial, factor in self.terms:
            atoms: list[Any] = [a if isinstance(a, str) else [a[0], a[1].json(), a[2].json()] for a in monomial]
            if factor != 1 or not atoms:
                atoms.insert(0, factor)
            parts.append(atoms[0] if len(atoms) == 1 else ["*", *atoms])
        if not parts:
            return 0
        return parts[0] if len(parts) == 1 else ["+", *parts]

    def __str__(self) -> str:
        return to_text(self.json())

    __repr__ = __str__


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"~{atom}"


def _normal(terms: dict[Monomial, int]) -> Poly:
    kept = [(monomial, factor) for monomial, factor in terms.items() if factor]
    kept.sort(key=lambda term: (len(term[0]), [_order(atom) for atom in term[0]]))
    return Poly(tuple(kept))


def _all_positive(polynomial: Poly) -> bool:
    """Whether no term can be negative; the atoms of a bound are sizes."""
    return all(factor >= 0 for _, factor in polynomial.terms)


def _atom_range(atom: Atom, ranges: Ranges) -> tuple[Poly | None, Poly | None]:
    itself = Poly((((atom,), 1),))
    if isinstance(atom, str):
        if atom.startswith("?"):
            return None, None
        return ranges.get(atom) or (itself, itself)
    name, a, b = atom
    low_a, low_b = a.is_nonnegative(ranges), b.is_nonnegative(ranges)
    positive = low_a or low_b if name == "max" else (low_b if name == "mod" else low_a and low_b)
    if not ranges or ranges.keys().isdisjoint(itself.symbols()):
        return (itself, itself) if positive else (None, None)
    high_a, high_b = a.bound(True, ranges), b.bound(True, ranges)
    high: Poly | None
    if name == "mod":
        high = high_b and high_b - ONE
    elif name == "floordiv":
        high = high_a.floordiv(b) if high_a is not None and b.constant else None
    elif name == "min":
        high = high_a or high_b
    else:
        high = high_a + high_b if high_a is not None and high_b is not None and low_a and low_b else None
    return (ZERO if positive else None), high


def within(index: Poly, size: Poly, ranges: Ranges = NO_RANGES) -> bool:
    """Whether 0 <= index < size for all values that the ranges allow."""
    if not index.is_nonnegative(ranges):
        return False
    high = index.bound(True, ranges)
    return high is not None and (size - ONE - high).is_nonnegative(ranges)


def constant(number: int) -> Poly:
    return Poly((((), number),)) if number else ZERO


def symbol(name: str) -> Poly:
    """A symbol; one that starts with `?` may be negative."""
    return Poly((((name,), 1),))


ZERO = Poly(())
ONE = constant(1)


def _extreme(name: str) -> Callable[[Poly, Poly, Ranges], Poly]:
    def choose(a: Poly, b: Poly, ranges: Ranges) -> Poly:
        for x, y in ((a, b), (b, a)):
            if (y - x).is_nonnegative(ranges):
                return x if name == "min" else y
        return Poly(((((name, *sorted((a, b), key=str)),), 1),))  # type: ignore[arg-type]

    return choose


_APPLY: dict[str, Callable[[Poly, Poly, Ranges], Poly]] = {
    "floordiv": lambda a, b, ranges: a.floordiv(b, ranges),
    "mod": lambda a, b, ranges: a.mod(b, ranges),
    "min": _extreme("min"),
    "max": _extreme("max"),
}


def apply(name: str, a: Poly, b: Poly, ranges: Ranges = NO_RANGES) -> Poly:
    """`floordiv`, `mod`, `min` or `max` of two polynomials, simplified."""
    return _APPLY[name](a, b, ranges)


# ---- expressions as nested lists: what plans store, Python compiles and pages interpret


_TEXT = {"+": " + ", "*": "*", "floordiv": "//", "mod": "%"}


def to_text(expression: Any, inner: bool = False) -> str:
    """Python source of an expression; `min` and `max` are Python's own.

    >>> to_text(["+", 3, ["floordiv", "s", 2]])
    '3 + (s//2)'
    """
    if not isinstance(expression, list):
        return str(expression)
    name, *arguments = expression
    if name in ("min", "max"):
        return f"{name}({', '.join(map(to_text, arguments))})"
    text = _TEXT[name].join(to_text(argument, True) for argument in arguments)
    return f"({text})" if inner and name != "*" else text


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


def evaluate(expression: Any, symbols: Mapping[str, int]) -> int:
    """The value of an expression.

    >>> evaluate(["+", 1, ["*", 2, "s"]], {"s": 3})
    7
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return symbols[expression]
    name, first, *rest = expression
    result = evaluate(first, symbols)
    for item in rest:
        result = _OPERATORS[name](result, evaluate(item, symbols))
    return result


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
        return size(self.poly.floordiv(poly(other)))

    def __rfloordiv__(self, other: Size) -> Size:
        return size(poly(other).floordiv(self.poly))

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

    def __repr__(self) -> str:
        return str(self.poly)


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


def minimum(a: Size, b: Size) -> Size:
    """The smaller size, as an expression: no guard is left."""
    return size(apply("min", poly(a), poly(b)))


def maximum(a: Size, b: Size) -> Size:
    """The larger size, as an expression: no guard is left."""
    return size(apply("max", poly(a), poly(b)))


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the symbols are: no guard is left."""
    return poly(a) == poly(b)


def product(sizes: Any) -> Size:
    """The product of sizes: the number of elements of a shape."""
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


# ---- guards


class UndecidedSizeError(Exception):
    """A comparison depends on a symbolic size, and no guards are being recorded."""


_active = threading.local()


class Guards:
    """The numbers that symbols have in one call, and the decisions that a trace took by looking at sizes.

    As a context manager it is the one that this thread's comparisons ask.
    """

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
        if polynomial not in self._values:
            self._values[polynomial] = evaluate(polynomial.json(), self.hints)
        return self._values[polynomial]

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
        value = self.value(polynomial)
        return self.facts.setdefault((polynomial, relation), value == 0 if relation == "==" else value >= 0)


def guard_text(expression: Any, relation: str, truth: bool) -> str:
    """A guard for a person to read.

    >>> guard_text(["+", -1, "s"], ">=", True)
    's >= 1'
    """
    offset = 0
    if isinstance(expression, list) and expression[0] == "+" and isinstance(expression[1], int):
        offset = -expression[1]
        rest = expression[2:]
        expression = rest[0] if len(rest) == 1 else ["+", *rest]
    sign = {("==", True): "==", ("==", False): "!=", (">=", True): ">=", (">=", False): "<"}[relation, truth]
    return f"{to_text(expression)} {sign} {offset}"


class _NoGuards(Guards):
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
