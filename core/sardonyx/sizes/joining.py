"""Indices whose parts were divided, and are put together again."""

from __future__ import annotations

from .polynomial import ZERO, Atom, Poly, call


def joined(value: Poly) -> Poly:
    """The polynomial with `n * (x // n) + x % n` as x."""
    for monomial, _ in value.terms:
        for atom in monomial:
            if isinstance(atom, str) or atom.name != "mod":
                continue
            factor = _factor(value, atom)
            whole = atom.a - Poly((((atom,), 1),))
            other = value + factor * (whole - call("floordiv", atom.a, atom.b) * atom.b)
            if len(other.terms) < len(value.terms) or _calls(other) < _calls(value):
                return joined(other)
    return value


def _calls(value: Poly) -> int:
    return sum(not isinstance(atom, str) for monomial, _ in value.terms for atom in monomial)


def _factor(value: Poly, atom: Atom) -> Poly:
    coefficient = ZERO
    for monomial, factor in value.terms:
        if atom in monomial:
            rest = list(monomial)
            rest.remove(atom)
            coefficient = coefficient + Poly(((tuple(rest), factor),))
    return coefficient
