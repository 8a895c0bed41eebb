"""Relations between symbols: an equation of sizes, solved for one of them.

>>> p, s, t = map(symbol, "pst")
>>> solved(p + s - t, ["s", "t", "p"])
('t', p + s)
>>> solved((p + s) * s - t * s, ["s", "t", "p"])
('t', p + s)
>>> solved(s * s - t, ["t"])
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd

from sardonyx.sizes.polynomial import Atom, Monomial, Poly, symbol


def solved(equation: Poly, symbols: Sequence[str], numbers: bool = False) -> tuple[str, Poly] | None:
    """The last of the symbols that a polynomial, which is 0, tells by the others, and what it tells; None if none.

    What could be negative is no relation, nor is a number, unless `numbers` says so. What all terms have in common is
    taken as no 0.
    """
    equation = _reduced(equation)
    for name in reversed(symbols):
        alone = [factor for monomial, factor in equation.terms if monomial == (name,)]
        if len(alone) != 1 or abs(alone[0]) != 1:
            continue
        rest = (equation - symbol(name).scaled(alone[0])).scaled(-alone[0])
        others = rest.symbols()
        if (others or numbers) and name not in others and others <= {*symbols} and rest.is_nonnegative():
            return name, rest
    return None


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
