"""Relations between symbols: an equation of sizes, solved for one of them.

>>> p, s, t = map(symbol, "pst")
>>> solved(p + s - t, ["s", "t", "p"])
('t', p + s)
>>> solved((p + s) * s - t * s, ["s", "t", "p"])
('t', p + s)
>>> solved(s * s - t, ["t"])
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from functools import reduce
from math import gcd
from typing import Any

from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.polynomial import Atom, Monomial, Poly, symbol

LARGEST_ALIKE = 4096
"""The number up to which symbols that are to be alike are tried."""


def solved(equation: Poly, symbols: Sequence[str], numbers: bool = False) -> tuple[str, Poly] | None:
    """The last of the symbols that a polynomial, which is 0, tells by the others, and what it tells; None if none.

    What could be negative is no relation, nor is a number, unless `numbers` says so. What all terms have in common is
    taken as no 0.
    """
    equation = _reduced(equation)
    for name in reversed(symbols):
        told = isolated(equation, name)
        if told is None or not (told.symbols() or numbers):
            continue
        if told.symbols() <= {*symbols} and told.is_nonnegative():
            return name, told
    return None


def alike(equation: Poly, symbols: Sequence[str]) -> dict[str, int]:
    """The least number from 2 on that, were all symbols of a polynomial this number, makes it 0; empty if none does.

    The polynomial is taken to rise with the number, or to fall.

    >>> from sardonyx.sizes.polynomial import constant
    >>> h, w, eight = symbol("h"), symbol("w"), constant(8)
    >>> alike(h.floordiv(eight) * w.floordiv(eight) - eight.scaled(2), ["h", "w"]), alike(h * w, ["h", "w"])
    ({'h': 32, 'w': 32}, {})
    """
    names = sorted(equation.symbols())
    if not {*names} <= {*symbols} or all(factor > 0 for _, factor in equation.terms):
        return {}
    number = crossing(equation.json(), names)
    return dict.fromkeys(names, number) if number is not None else {}


def crossing(expression: Any, names: Collection[str]) -> int | None:
    """The least number from 2 on that, were all of its symbols this number, makes an expression 0; None if none does.

    >>> crossing(["+", ["floordiv", "h", 8], -4], ["h"])
    32
    """

    def value(number: int) -> int:
        return evaluate(expression, dict.fromkeys(names, number))

    sign = 1 if value(LARGEST_ALIKE) > 0 else -1
    number = 2 + bisect_left(range(2, LARGEST_ALIKE), 0, key=lambda each: sign * value(each))
    return number if value(number) == 0 else None


def isolated(equation: Poly, name: str) -> Poly | None:
    """What a polynomial, which is 0, tells of a symbol, whatever the others are; None where it does not stand alone.

    >>> x, y = map(symbol, "xy")
    >>> [isolated(each, "x") for each in (y * y - x, x + y, x * y - x, x.scaled(2) - y)]
    [y*y, -1*y, None, None]
    """
    factor = next((factor for monomial, factor in equation.terms if monomial == (name,)), 0)
    if abs(factor) != 1:
        return None
    rest = (equation - symbol(name).scaled(factor)).scaled(-factor)
    return None if name in rest.symbols() else rest


def _reduced(equation: Poly) -> Poly:
    """The equation without the factors of all of its terms."""
    if not equation.terms:
        return equation
    divisor = gcd(*(factor for _, factor in equation.terms))
    shared = reduce(_common, (monomial for monomial, _ in equation.terms))
    return Poly(tuple((_without(monomial, shared), factor // divisor) for monomial, factor in equation.terms))


def _common(a: Monomial, b: Monomial) -> Monomial:
    left = list(b)
    found: list[Atom] = []
    for atom in a:
        if atom in left:
            left.remove(atom)
            found.append(atom)
    return tuple(found)


def _without(monomial: Monomial, atoms: Monomial) -> Monomial:
    left = list(monomial)
    for atom in atoms:
        left.remove(atom)
    return tuple(left)
