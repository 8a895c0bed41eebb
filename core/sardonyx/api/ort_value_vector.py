"""Several OrtValues by number, as onnxruntime's native functions take and give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.api.ort_value import OrtValue
from sardonyx.common import dtypes


class OrtValueVector(list[OrtValue]):
    """A list of OrtValues.

    >>> import numpy as np
    >>> vector = OrtValueVector()
    >>> vector.push_back(np.zeros(2, np.float32).__dlpack__())
    >>> len(vector), vector.element_type_at(0), vector.bool_tensor_indices()
    (1, 1, [])
    """

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Append an OrtValue, or what another library gives by DLPack."""
        self.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def push_back_batch(
        self,
        torch_tensors: Sequence[Any],
        data_ptrs: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[Any],
    ) -> None:
        """Append tensors that lie at these addresses of the host; the tensors themselves are kept alive."""
        for tensor, address, kind, shape in zip(torch_tensors, data_ptrs, element_types, shapes, strict=True):
            self.append(OrtValue.at_address(address, kind, shape, tensor))

    def element_type_at(self, idx: int) -> int:
        """ONNX's number of the type of an element's elements."""
        return self[idx].element_type()

    def bool_tensor_indices(self) -> list[int]:
        """The numbers of the tensors of truth values, which DLPack once had as uint8."""
        return [k for k, value in enumerate(self) if value.element_type() == dtypes.bool_.number]

    def dlpack_at(self, idx: int) -> Any:
        """A tensor as DLPack has it."""
        return self[idx].__dlpack__()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """All tensors as DLPack has them, or what a function makes of that."""
        capsules = [value.__dlpack__() for value in self]
        return capsules if to_tensor is None else list(map(to_tensor, capsules))

    def reserve(self, count: int) -> None:
        """Accepted for compatibility: lists grow by themselves."""

    def shrink_to_fit(self) -> None:
        """Accepted for compatibility: lists grow by themselves."""


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy tensors to others of the same types and shapes, on whatever devices; there are no streams.

    >>> import numpy as np
    >>> source, target = (OrtValue.ortvalue_from_numpy(np.full(2, k)) for k in (1, 2))
    >>> copy_tensors([source], [target])
    >>> target.numpy()
    array([1, 1])
    """
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(source)
