"""Integer polynomials in a normal form: what sizes and indices are, and how plans write them down.

Their data form is an expression (`sardonyx.sizes.expression`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from sardonyx.sizes.expression import to_text

Atom: TypeAlias = "str | Operation"
Monomial: TypeAlias = tuple[Atom, ...]


class Ranges(dict["Atom", "tuple[Poly, Poly]"]):
    """Inclusive lower and upper bounds of index variables, and of functions of them where more is known than can be
    seen; every other symbol is a size, at least 0.

    `followed` are bounds of functions that follow from them: quotients of quotients are asked for again and again.
    `least` is what sizes are at least, where an axis that is walked has an element.
    """

    def __init__(self, known: Any = (), least: Mapping[Atom, int] | None = None) -> None:
        super().__init__(known)
        self.least = dict(least or {})
        self.followed: dict[Operation, tuple[Poly | None, Poly | None]] = {}

    def __setitem__(self, atom: Atom, limits: tuple[Poly, Poly]) -> None:
        super().__setitem__(atom, limits)
        self.followed.clear()

    def __ior__(self, others: Any) -> Ranges:  # type: ignore[override, misc]
        self.update(others)
        self.followed.clear()
        return self

    def walk(self, extent: Poly) -> None:
        """Note that an axis has an element: `n - 2` is at least 1, so n is at least 3."""
        match [term for term in extent.terms if term[0]]:
            case [((atom,), factor)] if factor > 0:
                below = sum(number for monomial, number in extent.terms if not monomial)
                self.least[atom] = max(self.least.get(atom, 0), -((below - 1) // factor))
                self.followed.clear()


NO_RANGES = Ranges()


class Operation:
    """`floordiv`, `mod`, `min` or `max` of two polynomials; equal ones are one object, made by `call`.

    `order` sorts it among atoms, behind all symbols; `symbols` are those in its operands.
    """

    __slots__ = ("__weakref__", "a", "b", "json", "name", "order", "symbols")

    def __init__(self, name: str, a: Poly, b: Poly) -> None:
        self.name, self.a, self.b = name, a, b
        self.json: Any = [name, a.json(), b.json()]
        self.order = f"~{to_text(self.json)}"
        self.symbols = a.symbols() | b.symbols()

    def __repr__(self) -> str:
        return to_text(self.json)


_CALLS: WeakValueDictionary[tuple[str, Poly, Poly], Operation] = WeakValueDictionary()


def call(name: str, a: Poly, b: Poly) -> Poly:
    """A function of two polynomials as a polynomial, not simplified."""
    atom = _CALLS.get((name, a, b))
    if atom is None:
        atom = _CALLS.setdefault((name, a, b), Operation(name, a, b))
    return Poly((((atom,), 1),))


class Poly:
    """A polynomial with integer coefficients over symbols and over `floordiv`, `mod`, `min`, `max` of polynomials."""

    __slots__ = ("_hash", "_json", "_nonnegative", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._nonnegative: bool | None = None
        self._json: Any = None
        self._text: str | None = None

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

    def multiple_of(self, most: int) -> int:
        """The largest divisor of `most` that divides this whatever the symbols are.

        >>> (symbol("n").scaled(8) + constant(6)).multiple_of(4)
        2
        """
        return gcd(most, *(factor for _, factor in self.terms))

    def symbols(self) -> frozenset[str]:
        names: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    names.add(atom)
                else:
                    names |= atom.symbols
        return frozenset(names)

    def __add__(self, other: Poly) -> Poly:
        if not other.terms:
            return self
        return _sum(self, other) if self.terms else other

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scaled(-1)

    def __mul__(self, other: Poly) -> Poly:
        if (number := self.constant) is not None:
            return other.scaled(number)
        if (number := other.constant) is not None:
            return self.scaled(number)
        return _product(self, other)

    def scaled(self, number: int) -> Poly:
        if number == 1:
            return self
        return Poly(tuple((monomial, factor * number) for monomial, factor in self.terms)) if number else ZERO

    def floordiv(self, divisor: Poly, ranges: Ranges = NO_RANGES) -> Poly:
        """The quotient rounded down; what divides evenly, or is provably smaller than the divisor, leaves no trace."""
        if self.constant is not None and divisor.constant:
            return constant(self.constant // divisor.constant)
        quotient, rest = self._divide(divisor, ranges)
        if not rest.terms or within(rest, divisor, ranges):
            return quotient
        if (parts := rest._in_parts(divisor, ranges)) is not None:
            return quotient + parts[0].floordiv(parts[1], ranges)
        return quotient + call("floordiv", rest, divisor)

    def quotient(self, divisor: Poly) -> Poly:
        """`floordiv` of sizes: a quotient of a quotient is one, so that two convolutions make what exporters write."""
        number = divisor.constant
        if number is None or number < 1:
            return self.floordiv(divisor)
        whole, rest = self._divide(divisor, NO_RANGES)
        flat = _flattened(rest, number)
        return self.floordiv(divisor) if flat is None else whole + flat[0].quotient(flat[1])

    def mod(self, divisor: Poly, ranges: Ranges = NO_RANGES) -> Poly:
        """The remainder of `floordiv`."""
        if self.constant is not None and divisor.constant:
            return constant(self.constant % divisor.constant)
        _, rest = self._divide(divisor, ranges)
        if not rest.terms or within(rest, divisor, ranges):
            return rest
        if (parts := rest._in_parts(divisor, ranges)) is not None:
            whole, count, part, below = parts
            return whole.mod(count, ranges) * part + below
        return call("mod", rest, divisor)

    def _in_parts(self, divisor: Poly, ranges: Ranges) -> tuple[Poly, Poly, Poly, Poly] | None:
        """`whole`, `count`, `part`, `below`: this is `whole * part + below`, `divisor` is `count * part`, and `below`
        provably less than `part`, so that `(c*h*w + y*w + x) // (8*h*w)` is `c // 8`. None if there are no such."""
        if not ranges or len(divisor.terms) != 1:
            return None
        ((atoms, number),) = divisor.terms
        for count in sorted({number // gcd(factor, number) for _, factor in self.terms}):
            if count == 1 or (count == number and not atoms):
                continue
            part = Poly(((atoms, number // count),))
            whole, below = self._divide(part, ranges)
            if whole.terms and (not below.terms or within(below, part, ranges)):
                return whole, constant(count), part, below
        return None

    def _by_lead(self, divisor: Poly, ranges: Ranges) -> tuple[Poly, Poly] | None:
        """Quotient and rest, which is provably less than the divisor, by one of the terms of a sum; None if there are
        no such: `(i*(2*n - 3) + j + n - 1) // (2*n - 2)` is `i` where rows of positions are shifted."""
        for atoms, number in divisor.terms if ranges and len(divisor.terms) > 1 else ():
            quotient = self._split(Poly(((atoms, number),)))[0] if atoms else ZERO
            rest = self - quotient * divisor
            if quotient.terms and within(rest, divisor, ranges):
                return quotient, rest
        return None

    def _divide(self, divisor: Poly, ranges: Ranges) -> tuple[Poly, Poly]:
        """Quotient and rest; with `ranges` the rest is provably at least 0, as after a flip, or the quotient is 0."""
        quotient, rest = self._split(divisor)
        if (led := rest._by_lead(divisor, ranges)) is not None:
            return quotient + led[0], led[1]
        if not ranges or not rest.terms or rest.is_nonnegative(ranges):
            return quotient, rest
        above = rest + divisor
        if within(above, divisor, ranges):
            return quotient - ONE, above
        quotient, rest = self._multiples(divisor)
        return (quotient, rest) if rest.is_nonnegative(ranges) else (ZERO, self)

    def _split(self, divisor: Poly) -> tuple[Poly, Poly]:
        if len(divisor.terms) != 1:
            return self._split_exactly(divisor)
        ((atoms, number),) = divisor.terms
        quotient: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            remaining = list(monomial)
            for atom in atoms:
                if atom not in remaining:
                    break
                remaining.remove(atom)
            else:
                whole = factor // number
                if whole:
                    quotient[tuple(remaining)] = whole
                if factor - whole * number:
                    rest[monomial] = factor - whole * number
                continue
            rest[monomial] = factor
        return _normal(quotient), _normal(rest)

    def _split_exactly(self, divisor: Poly) -> tuple[Poly, Poly]:
        """`_split` by a sum: takes out the multiples of it of which all terms are there."""
        if not divisor.terms or len(self.terms) < 2:
            return ZERO, self
        quotient, rest = self._multiples(divisor)
        if len(divisor.terms) > len(rest.terms):
            return quotient, rest
        lead = Poly(divisor.terms[:1])
        for term in rest.terms:
            multiple, remainder = Poly((term,))._split(lead)
            below = rest - multiple * divisor
            if not remainder.terms and len(below.terms) + len(divisor.terms) <= len(rest.terms):
                quotient, rest = quotient + multiple, below
        return quotient, rest

    def _multiples(self, divisor: Poly) -> tuple[Poly, Poly]:
        """The quotients of what divides evenly, of terms that differ in atoms of the divisor alone, and the others."""
        atoms = {atom for monomial, _ in divisor.terms for atom in monomial}
        groups: dict[Monomial, dict[Monomial, int]] = defaultdict(dict)
        for monomial, factor in self.terms:
            groups[tuple(atom for atom in monomial if atom not in atoms)][monomial] = factor
        quotient, rest = ZERO, self
        for terms in groups.values():
            if (multiple := _normal(terms)._over(divisor)) is not None:
                quotient, rest = quotient + multiple, rest - multiple * divisor
        return quotient, rest

    def _over(self, divisor: Poly) -> Poly | None:
        """What times the divisor is this, by long division; None if there is no such polynomial."""
        quotient, rest = ZERO, self
        lead = Poly(divisor.terms[-1:])
        while rest.terms:
            multiple, remainder = Poly(rest.terms[-1:])._split(lead)
            if remainder.terms or not multiple.terms:
                return None
            quotient, rest = quotient + multiple, rest - multiple * divisor
        return quotient

    def bound(self, upper: bool, ranges: Ranges = NO_RANGES) -> Poly | None:
        """A provable bound over sizes alone, with no index variable in it, or None."""
        parts = []
        for factor, atoms in self._by_index(ranges):
            grows = _all_positive(factor, ranges)
            part = factor
            for atom in atoms:
                low, high = _atom_range(atom, ranges)
                if low is None or not _all_positive(low, ranges):
                    return None
                side = high if grows == upper else low
                if side is None:
                    return None
                part = part * side
            parts.append(part)
        return total(parts)

    def _by_index(self, ranges: Ranges) -> Iterator[tuple[Poly, Monomial]]:
        """Factors, and what they multiply. A factor is a sum of products of sizes where its sign can be proved, so that
        `2*n*i - 3*i` is between 0 and `(2*n - 3)` times what i is at most; else it is a number."""
        if not ranges or len({number > 0 for _, number in self.terms}) < 2:
            yield from ((constant(number), monomial) for monomial, number in self.terms)
            return
        groups: dict[Monomial, dict[Monomial, int]] = defaultdict(dict)
        for monomial, number in self.terms:
            indices = tuple([atom for atom in monomial if _is_index(atom, ranges)])
            groups[indices][tuple([atom for atom in monomial if atom not in indices])] = number
        for indices, terms in groups.items():
            factor = _normal(terms)
            has_sign = indices and len(terms) > 1 and all(_atom_range(each, ranges)[0] for key in terms for each in key)
            if has_sign and (_all_positive(factor, ranges) or _all_positive(factor.scaled(-1), ranges)):
                yield factor, indices
            else:
                for monomial, number in terms.items():
                    yield constant(number), (*indices, *monomial)

    def is_nonnegative(self, ranges: Ranges = NO_RANGES) -> bool:
        """Whether this is provably at least 0 for all sizes."""
        if ranges:
            low = self.bound(False, ranges)
            return low is not None and _all_positive(low, ranges)
        if self._nonnegative is None:
            low = self.bound(False)
            self._nonnegative = low is not None and _all_positive(low, NO_RANGES)
        return self._nonnegative

    def json(self) -> Any:
        """Nested lists over `+ * floordiv mod min max`, symbols as strings; they are shared, not to be changed.

        >>> (symbol("s") * symbol("s") + constant(3)).json()
        ['+', 3, ['*', 's', 's']]
        """
        if self._json is None:
            parts = []
            for monomial, factor in self.terms:
                atoms = [atom if isinstance(atom, str) else atom.json for atom in monomial]
                if factor != 1 or not atoms:
                    atoms.insert(0, factor)
                parts.append(atoms[0] if len(atoms) == 1 else ["*", *atoms])
            self._json = 0 if not parts else parts[0] if len(parts) == 1 else ["+", *parts]
        return self._json

    def __str__(self) -> str:
        if self._text is None:
            self._text = to_text(self.json())
        return self._text

    __repr__ = __str__


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else atom.order


@lru_cache(1 << 14)
def _rank(monomial: Monomial) -> tuple[int, list[str]]:
    return len(monomial), [_order(atom) for atom in monomial]


def _normal(terms: dict[Monomial, int]) -> Poly:
    nonzero = [term for term in terms.items() if term[1]]
    if len(nonzero) > 1:
        nonzero.sort(key=lambda term: _rank(term[0]))
    return Poly(tuple(nonzero))


@lru_cache(1 << 14)
def _sum(a: Poly, b: Poly) -> Poly:
    sums = dict(a.terms)
    for monomial, factor in b.terms:
        sums[monomial] = sums.get(monomial, 0) + factor
    return _normal(sums)


@lru_cache(1 << 14)
def _product(a: Poly, b: Poly) -> Poly:
    products: dict[Monomial, int] = {}
    for left, a_factor in a.terms:
        for right, b_factor in b.terms:
            key = left + right if not left or not right else tuple(sorted(left + right, key=_order))
            products[key] = products.get(key, 0) + a_factor * b_factor
    return _normal(products)


def total(parts: Iterable[Poly]) -> Poly:
    """The sum of polynomials."""
    parts = [part for part in parts if part.terms]
    if len(parts) == 1:
        return parts[0]
    sums: dict[Monomial, int] = {}
    for part in parts:
        for monomial, factor in part.terms:
            sums[monomial] = sums.get(monomial, 0) + factor
    return _normal(sums)


def _quotient(high: Poly, divisor: Poly) -> Poly | None:
    """What a quotient is at most; None where that is a quotient of sizes itself."""
    if divisor.constant:
        return high.floordiv(divisor)
    quotient, rest = high._split(divisor)
    return None if rest.terms else quotient


def _is_index(atom: Atom, ranges: Ranges) -> bool:
    return atom in ranges or not (isinstance(atom, str) or ranges.keys().isdisjoint(atom.symbols))


def _all_positive(polynomial: Poly, ranges: Ranges) -> bool:
    """Whether no term can be negative; the atoms of a bound are sizes, here by how much they are above the least."""
    if all(factor >= 0 for _, factor in polynomial.terms):
        return True
    if ranges.least.keys().isdisjoint(atom for monomial, _ in polynomial.terms for atom in monomial):
        return False
    above = ZERO
    for monomial, factor in polynomial.terms:
        part = constant(factor)
        for atom in monomial:
            part = part * (Poly((((atom,), 1),)) + constant(ranges.least.get(atom, 0)))
        above = above + part
    return all(factor >= 0 for _, factor in above.terms)


def _atom_range(atom: Atom, ranges: Ranges) -> tuple[Poly | None, Poly | None]:
    if atom in ranges:
        return ranges[atom]
    if isinstance(atom, str) and atom.startswith("?"):
        return None, None
    itself = Poly((((atom,), 1),))
    if isinstance(atom, str):
        return itself, itself
    name, a, b = atom.name, atom.a, atom.b
    if not ranges or ranges.keys().isdisjoint(atom.symbols):
        low_a, low_b = a.is_nonnegative(), b.is_nonnegative()
        return (itself, itself) if _is_nonnegative(name, low_a, low_b) else (None, None)
    if (known := ranges.followed.get(atom)) is not None:
        return known
    low_a, low_b = a.is_nonnegative(ranges), b.is_nonnegative(ranges)
    high_a, high_b = a.bound(True, ranges), b.bound(True, ranges)
    high: Poly | None
    if name == "mod":
        high = high_b and high_b - ONE
    elif name == "floordiv":
        high = _quotient(high_a, b) if high_a is not None else None
    elif name == "min":
        high = high_a or high_b
    else:
        high = high_a + high_b if high_a is not None and high_b is not None and low_a and low_b else None
    ranges.followed[atom] = (ZERO if _is_nonnegative(name, low_a, low_b) else None), high
    return ranges.followed[atom]


def _is_nonnegative(name: str, a: bool, b: bool) -> bool:
    """Whether a function of two operands is at least 0, from whether they are."""
    return a or b if name == "max" else (b if name == "mod" else a and b)


def within(index: Poly, size: Poly, ranges: Ranges = NO_RANGES) -> bool:
    """Whether 0 <= index < size for all values that the ranges allow."""
    if not index.is_nonnegative(ranges):
        return False
    high = index.bound(True, ranges)
    return high is not None and (size - ONE - high).is_nonnegative(ranges)


def _flattened(value: Poly, number: int) -> tuple[Poly, Poly] | None:
    """Dividend and divisor in one of `(r + x // m) // n`, which is `(m * r + x) // (m * n)`, or None."""
    for monomial, factor in value.terms:
        if factor != 1 or len(monomial) != 1:
            continue
        atom = monomial[0]
        if isinstance(atom, str) or atom.name != "floordiv" or (inner := atom.b.constant) is None or inner < 1:
            continue
        rest = value - Poly(((monomial, 1),))
        return rest.scaled(inner) + atom.a, constant(number * inner)
    return None


def constant(number: int) -> Poly:
    return _CONSTANTS[number] if 0 <= number < len(_CONSTANTS) else Poly((((), number),))


def symbol(name: str) -> Poly:
    """A symbol; one that starts with `?` may be negative."""
    return Poly((((name,), 1),))


ZERO = Poly(())
_CONSTANTS = [ZERO, *(Poly((((), number),)) for number in range(1, 65))]
ONE = constant(1)
