"""Functions of polynomials by their names, simplified, and polynomials in place of symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .polynomial import NO_RANGES, Atom, Operation, Poly, Ranges, call, total


def _extreme(name: str) -> Callable[[Poly, Poly, Ranges], Poly]:
    def choose(a: Poly, b: Poly, ranges: Ranges) -> Poly:
        for x, y in ((a, b), (b, a)):
            if (y - x).is_nonnegative(ranges):
                return x if name == "min" else y
        return call(name, *sorted((a, b), key=str))

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


def substitute(
    value: Poly, values: Mapping[str, Poly], ranges: Ranges = NO_RANGES, done: dict[Operation, Poly] | None = None
) -> Poly:
    """The polynomial with symbols replaced, simplified anew.

    `done` are functions that were replaced before, by the same values and ranges; more are added.
    """
    done = {} if done is None else done
    if values.keys().isdisjoint(value.symbols()):
        return value
    parts = []
    for monomial, factor in value.terms:
        unchanged: list[Atom] = []
        changed: list[Poly] = []
        for atom in monomial:
            if isinstance(atom, str):
                if atom in values:
                    changed.append(values[atom])
                else:
                    unchanged.append(atom)
            elif values.keys().isdisjoint(atom.symbols):
                unchanged.append(atom)
            else:
                if atom not in done:
                    a, b = (substitute(operand, values, ranges, done) for operand in (atom.a, atom.b))
                    done[atom] = apply(atom.name, a, b, ranges)
                changed.append(done[atom])
        part = Poly(((tuple(unchanged), factor),))
        for item in changed:
            part = part * item
        parts.append(part)
    return total(parts)
