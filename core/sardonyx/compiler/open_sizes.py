"""The open sizes of a graph's inputs, by name: where they stand, and blank inputs for numbers of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.memory import TooLargeError
from sardonyx.common.record import field, record
from sardonyx.errors import NotImplemented
from sardonyx.model.ir import TensorType, Value, size_name
from sardonyx.model.structure import TENSOR, Cached, Form, form
from sardonyx.sizes.expression import evaluate
from sardonyx.sizes.functions import substitute
from sardonyx.sizes.polynomial import Poly, symbol


@record
class OpenSizes:
    """The sizes that these inputs, which are tensors, leave open.

    `ranks` are those of inputs whose type tells none. A size is named as the model names it, or else by its place,
    `x.shape[1]`; the compiler's symbols are numbered in the order of `names`.
    """

    inputs: Sequence[Value]
    ranks: Mapping[str, int] = field(default_factory=dict)
    caches: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Inputs that have room, each with the output that adds to it, and the axis along which that is."""

    def __post_init__(self) -> None:
        self.shapes: list[tuple[int | str, ...]] = [self._shape(value) for value in self.inputs]
        """What stands at each axis of each input: a number, or a name; of caches the room behind that."""
        self.names: list[str] = list(
            dict.fromkeys(size for shape in self.shapes for size in shape if isinstance(size, str))
        )
        self.rooms: list[str] = list(
            dict.fromkeys(str(shape[-1]) for value, shape in zip(self.inputs, self.shapes) if value.name in self.caches)
        )
        """The names of the room that caches have, which is enough for all other sizes together."""

    def _shape(self, value: Value) -> tuple[int | str, ...]:
        kind = value.type
        if not isinstance(kind, TensorType):
            raise NotImplemented(f"input {value.name!r} is a {kind}; bundles take tensors")
        declared = kind.shape if kind.shape is not None else (None,) * self.ranks.get(value.name, 0)
        shape = tuple(
            size if isinstance(size, int) else size_name(value.name, axis, size) for axis, size in enumerate(declared)
        )
        return (*shape, f"room of {shape[self.caches[value.name][1]]}") if value.name in self.caches else shape

    @property
    def arguments(self) -> list[Form]:
        """The forms of the inputs."""
        held = {name: form(Cached(*told, None)) for name, told in self.caches.items()}
        return [held.get(value.name, TENSOR) for value in self.inputs]

    @property
    def symbols(self) -> dict[str, str]:
        """The compiler's symbol of each name."""
        return {name: f"s{number}" for number, name in enumerate(self.names)}

    def in_symbols(self, relations: Mapping[str, Poly]) -> dict[str, Poly]:
        """Relations between names as such between symbols."""
        symbols = {name: symbol(symbol_) for name, symbol_ in self.symbols.items()}
        return {self.symbols[name]: substitute(each, symbols) for name, each in relations.items() if name in symbols}

    def in_names(self, relations: Mapping[str, Poly]) -> dict[str, Any]:
        """Relations between symbols as expressions of symbols by name."""
        names = {symbol_: name for name, symbol_ in self.symbols.items()}
        return {names[symbol_]: each.json() for symbol_, each in relations.items()}

    def first(self) -> set[str]:
        """The names of first axes, which batches mostly are."""
        return {shape[0] for shape in self.shapes if len(shape) > 1 and isinstance(shape[0], str)}

    def told(self, numbers: Mapping[str, int], relations: Mapping[str, Poly]) -> dict[str, int]:
        """All numbers by name, those that `relations` of symbols tell by those of the others."""
        symbols = self.symbols
        numbers = {**numbers, **dict.fromkeys(self.rooms, 0)}
        numbers.update(dict.fromkeys(self.rooms, 1 + sum(numbers.values())))
        known = {symbols[name]: number for name, number in numbers.items()}
        return {
            name: evaluate(relations.get(symbol_, symbol(symbol_)).json(), known) for name, symbol_ in symbols.items()
        }

    def sized(self, numbers: Mapping[str, int], values: Mapping[str, np.ndarray]) -> list[tuple[int, ...]]:
        """The shapes of `feeds`."""
        return [
            values[value.name].shape
            if value.name in values
            else tuple(size if isinstance(size, int) else numbers[size] for size in shape)
            for value, shape in zip(self.inputs, self.shapes, strict=True)
        ]

    def feeds(self, numbers: Mapping[str, int], values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Arrays of these sizes, without memory, but for those whose `values` count.

        Raises TooLargeError where there are not as many addresses: in a page they have 32 bits.
        """
        found = []
        for value, shape in zip(self.inputs, self.sized(numbers, values), strict=True):
            storage = (value.dtype or dtypes.float32).storage
            if value.name in values:
                found.append(values[value.name].astype(storage))
                continue
            if (total := prod(shape) * storage.itemsize) > sys.maxsize:
                text = "x".join(map(str, shape))
                raise TooLargeError(f"input {value.name!r} of {text} wants {total:,} bytes, too many for an array")
            found.append(np.broadcast_to(np.zeros((), storage), shape))
        return found
