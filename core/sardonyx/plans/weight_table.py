"""The constants and strings that all plans of a session share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from sardonyx.common import memory
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.strings import StringTable

SMALL = 1 << 16
"""Bytes up to which constants of the model's file are compared."""


def identity(array: np.ndarray) -> Hashable:
    """A key of an array, equal for equal elements, but where many of them lie at several places of the model's file.

    Expansions make new arrays for each plan: results of their own, and views of what is in the file.
    """
    if array.dtype.hasobject:
        return id(array)
    if array.nbytes > SMALL and memory.owner(array) is not None:
        return array.dtype.str, array.shape, array.strides, array.__array_interface__["data"][0]
    return array.dtype.str, array.shape, fingerprint(array.tobytes()).digest()


class WeightTable:
    """Names for constants, and ids for strings; the same array has the same name in every plan of a session.

    `constants` are those of plans that were read, by name. An array with the same elements takes the name of the
    constant: `identify` gives a key that is equal for equal elements.
    """

    def __init__(
        self,
        strings: StringTable | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
        identify: Callable[[np.ndarray], Hashable] = identity,
    ) -> None:
        self.strings = StringTable() if strings is None else strings
        self.arrays: dict[str, np.ndarray] = dict(constants or {})
        self._names = {id(array): name for name, array in self.arrays.items()}
        self._identify = identify
        self._by_elements: dict[Hashable, str] | None = None
        self._same: list[np.ndarray] = []  # keeps their ids
        self._count = max((int(name[1:]) + 1 for name in self.arrays), default=0)

    def name(self, array: np.ndarray) -> str:
        """The name of a constant, a new one if it is new."""
        name = self._names.get(id(array))
        if name is None:
            name = self._found(array)
            self._names[id(array)] = name
        return name

    def find(self, array: np.ndarray) -> str | None:
        """The name of a constant with these elements, if there is one."""
        return self._names_by_elements().get(self._identify(array))

    def reserve(self) -> str:
        """A new name that no array of this table has or gets: for a constant whose elements will change."""
        self._count += 1
        return f"w{self._count - 1}"

    def _found(self, array: np.ndarray) -> str:
        name = self._names_by_elements().setdefault(self._identify(array), f"w{self._count}")
        if name in self.arrays:
            self._same.append(array)
        else:
            self.arrays[name] = array
            self._count += 1
        return name

    def _names_by_elements(self) -> dict[Hashable, str]:
        if self._by_elements is None:
            self._by_elements = {self._identify(each): name for name, each in self.arrays.items()}
        return self._by_elements
