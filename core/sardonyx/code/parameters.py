"""Sizes that reach code at run time: polynomials numbered as parameters."""

from __future__ import annotations

from typing import Any

from sardonyx.common.dtypes import DType
from sardonyx.sizes.polynomial import Poly, constant
from sardonyx.sizes.symbolic import Dim

LITERAL = 4
"""Integers up to this one are written into code, larger ones become parameters: kernels that differ only in their
sizes are then one kernel."""


class Parameter(int):
    """An integer among those that a primitive is told, which is a parameter of code, however small.

    >>> Parameter(7) + 1
    8
    """


class SizeTable:
    """Gives each polynomial a parameter, the same to equal ones."""

    def __init__(self, literal: int = LITERAL) -> None:
        self.params: list[Poly] = []
        self._literal = literal
        self._known: dict[tuple[Poly, bool], str] = {}

    def multiples(self, most: int) -> tuple[int, ...]:
        """What each parameter is a multiple of, up to `most`; nothing if that is 1."""
        return tuple(param.multiple_of(most) for param in self.params) if most > 1 else ()

    def parameter(self, value: int) -> str:
        """The name of a parameter of its own."""
        self.params.append(constant(value))
        return f"p{len(self.params) - 1}"

    def size(self, value: Poly, apart: bool = False) -> int | str:
        """The integer, or the parameter's name (`p3`), of which there is another one for sizes that stay `apart`."""
        number = value.constant
        if number is not None and abs(number) <= self._literal:
            return number
        if (value, apart) not in self._known:
            self._known[value, apart] = f"p{len(self.params)}"
            self.params.append(value)
        return self._known[value, apart]


def encode(value: Any, table: SizeTable) -> Any:
    """A primitive's parameters as JSON; `Routine` says how."""
    if isinstance(value, DType):
        return {"dtype": value.lowered.name}
    if isinstance(value, Dim):
        return {"size": table.size(value.poly)}
    if isinstance(value, Parameter):
        return {"size": table.parameter(value)}
    if isinstance(value, dict):
        return {name: encode(item, table) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item, table) for item in value]
    if isinstance(value, float) and value - value != 0:
        return {"float": str(value)}
    return value
