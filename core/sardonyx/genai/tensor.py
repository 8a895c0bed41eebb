"""Arrays under the names by which onnxruntime-genai passes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from sardonyx.errors import InvalidValue, NotImplemented


class Tensor:
    """An array.

    >>> Tensor(np.zeros((2, 3), np.int32)).shape()
    [2, 3]
    """

    def __init__(self, array: Any) -> None:
        self._array = np.ascontiguousarray(array)
        if self._array.dtype.kind not in "biufV":
            raise InvalidValue(f"a tensor has numbers for elements, not {self._array.dtype}")

    def as_numpy(self) -> np.ndarray:
        """The array itself."""
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def type(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._array.dtype

    def data(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplemented("there is no capsule with the address of a tensor; as_numpy gives the array")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._array if dtype is None else self._array.astype(dtype)


class NamedTensors:
    """Tensors by their names."""

    def __init__(self) -> None:
        self._tensors: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._tensors:
            raise InvalidValue(f"there is no tensor {name!r}, but {', '.join(self._tensors) or 'none at all'}")
        return self._tensors[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._tensors[name] = value if isinstance(value, Tensor) else Tensor(value)

    def __delitem__(self, name: str) -> None:
        self._tensors.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def keys(self) -> list[str]:
        return list(self._tensors)
