"""Guards, a size's relation to 0 that holds or does not, for a person to read."""

from __future__ import annotations

from typing import Any

from sardonyx.sizes.expression import to_text

_SIGNS = {("==", True): "==", ("==", False): "!=", (">=", True): ">=", (">=", False): "<"}
_FLIPPED = {"==": "==", "!=": "!=", ">=": "<=", "<": ">"}


def guard_text(expression: Any, relation: str, truth: bool) -> str:
    """A guard for a person to read: what is subtracted stands on the other side.

    >>> guard_text(["+", -1, "s"], ">=", True), guard_text(["+", 512, ["*", -1, "s"]], ">=", True)
    ('s >= 1', 's <= 512')
    """
    sides = sides_of(expression)
    left, right = (to_text(["+", *side]) if len(side) > 1 else to_text(side[0]) if side else "0" for side in sides)
    sign = _SIGNS[relation, truth]
    return (
        f"{right} {_FLIPPED[sign]} {left}"
        if all(isinstance(term, int) for term in sides[0])
        else f"{left} {sign} {right}"
    )


def sides_of(expression: Any) -> tuple[list[Any], list[Any]]:
    """The terms that an expression adds, and those that it subtracts."""
    sides: tuple[list[Any], list[Any]] = ([], [])
    for term in expression[1:] if isinstance(expression, list) and expression[0] == "+" else [expression]:
        factor = term[1] if isinstance(term, list) and term[0] == "*" and isinstance(term[1], int) else term
        if not (isinstance(factor, int) and factor < 0):
            sides[0].append(term)
        elif isinstance(term, int):
            sides[1].append(-term)
        else:
            rest = term[2:] if factor == -1 else [-factor, *term[2:]]
            sides[1].append(rest[0] if len(rest) == 1 else ["*", *rest])
    return sides
