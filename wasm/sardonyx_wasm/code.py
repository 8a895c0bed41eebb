"""What writers of code are given, the module being written, and what they give: a function and its units of work.

The function's parameters are all i32: `begin, end, scratch`, the byte addresses of the buffers (those read, then those
written), then the code's own parameters. It does the units `begin..end - 1`. Units are independent: any split into
ranges, in any order, on any number of threads gives the same bits. `scratch` is memory of the calling thread alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sardonyx.code.approximation import Approximation
from sardonyx.common.record import record

from .assembler import Function, Module, ValueType, i32
from .scalars.halves import HELPERS


class Unit(ABC):
    """A module being written for a host with some `features` and the compiler `target`, with each function once."""

    def __init__(self, features: frozenset[str], target: str) -> None:
        self.module = Module("sardonyx")
        self.features = features
        self.target = target
        self._once: dict[tuple[str, str], Any] = {}

    def once(self, kind: str, name: str, write: Callable[[], Any]) -> Any:
        """What `write` gives, called the first time that this is asked for."""
        key = (kind, name)
        if key not in self._once:
            self._once[key] = write()
        return self._once[key]

    def helper(self, name: str) -> Function:
        """A function of `halves`."""
        return self.once("helper", name, lambda: HELPERS[name](self.module))  # type: ignore[no-any-return]

    @abstractmethod
    def written(self, function: Approximation) -> Function:
        """A transcendental function of scalars."""


@record(frozen=True)
class Code:
    """A function and how many units of work it has: an integer, "p3" for the fourth parameter, or an expression of
    `sardonyx.code.program` over parameters. Ranges begin at multiples of `align`, which is such a size as well;
    `scratch` is in bytes."""

    function: Function
    units: Any = 1
    align: Any = 1
    scratch: int = 0


def signature(buffers: int, params: int) -> dict[str, ValueType]:
    """The parameters of a code's function."""
    names = ["begin", "end", "scratch"]
    names += [f"buffer{k}" for k in range(buffers)]
    names += [f"param{k}" for k in range(params)]
    return dict.fromkeys(names, i32)
