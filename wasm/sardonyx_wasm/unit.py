"""What all that writes code is given: the module being written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from sardonyx.code import transcendental

from .assembler import Function, Module
from .halves import HELPERS


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
    def written(self, function: transcendental.Function) -> Function:
        """A transcendental function of scalars."""
