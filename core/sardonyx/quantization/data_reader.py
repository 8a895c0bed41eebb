"""What calibration reads: the samples that a caller gives, one after the other."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any


class CalibrationDataReader(metaclass=abc.ABCMeta):
    """Samples of what goes into a model, one after the other.

    >>> import numpy as np
    >>> class Noise(CalibrationDataReader):
    ...     def __init__(self, count):
    ...         self.left = count
    ...     def get_next(self):
    ...         self.left -= 1
    ...         return {"x": np.zeros(3, np.float32)} if self.left >= 0 else None
    >>> [sample["x"].shape for sample in Noise(2)]
    [(3,), (3,)]
    """

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        return callable(getattr(subclass, "get_next", None)) or NotImplemented

    @abc.abstractmethod
    def get_next(self) -> dict[str, Any] | None:
        """The next sample, arrays by the names of inputs; None where there is none left."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        result = self.get_next()
        if result is None:
            raise StopIteration
        return result

    def __len__(self) -> int:
        raise NotImplementedError("this reader does not tell how many samples it has; CalibStridedMinMax asks for it")

    def set_range(self, start_index: int, end_index: int) -> None:
        """Give the samples from the first number up to the second one next."""
        raise NotImplementedError("this reader cannot give a part of its samples; CalibStridedMinMax asks for it")
