"""The constants and strings that all plans of a session share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np

from sardonyx.common.strings import StringTable


class WeightTable:
    """Names for constants, and ids for strings; the same array has the same name in every plan of a session.

    `known` are constants of plans that were read, by name. Arrays with the same elements take their names: `identify`
    tells by what elements are known.
    """

    def __init__(
        self,
        strings: StringTable | None = None,
        known: Mapping[str, np.ndarray] | None = None,
        identify: Callable[[np.ndarray], Hashable] = id,
    ) -> None:
        self.strings = StringTable() if strings is None else strings
        self.arrays: dict[str, np.ndarray] = dict(known or {})
        self._names = {id(array): name for name, array in self.arrays.items()}
        self._identify = identify
        self._known: dict[Hashable, str] | None = None
        self._same: list[np.ndarray] = []  # keeps their ids
        self._count = max((int(name[1:]) + 1 for name in self.arrays), default=0)

    def name(self, array: np.ndarray) -> str:
        """The name of a constant, a new one if it is new."""
        name = self._names.get(id(array))
        if name is None:
            name = self._find(array)
            self._names[id(array)] = name
        return name

    def _find(self, array: np.ndarray) -> str:
        if self._known is None:
            self._known = {self._identify(known): name for name, known in self.arrays.items()}
        name = self._known.setdefault(self._identify(array), f"w{self._count}")
        if name in self.arrays:
            self._same.append(array)
        else:
            self.arrays[name] = array
            self._count += 1
        return name
