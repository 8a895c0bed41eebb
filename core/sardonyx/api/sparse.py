"""Sparse tensors as onnxruntime's interface has them: coordinates, or compressed rows, of NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.enums import Choice
from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument, NotImplemented

if TYPE_CHECKING:  # most tensors do without it
    from sardonyx.api.devices import OrtDevice


class OrtSparseFormat(Choice):
    """How a sparse tensor says where its values are."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


@record(frozen=True)
class SparseCooView:
    """Where the values of a tensor in coordinate form are."""

    _indices: np.ndarray

    def indices(self) -> np.ndarray:
        """int64[n] of places in row-major order, or int64[n, 2] of rows and columns."""
        return self._indices


@record(frozen=True)
class SparseCsrView:
    """Where the values of a tensor in compressed rows are."""

    _inner: np.ndarray
    _outer: np.ndarray

    def inner(self) -> np.ndarray:
        """int64[n]: the column of each value."""
        return self._inner

    def outer(self) -> np.ndarray:
        """int64[rows + 1]: where each row begins among the values."""
        return self._outer


def _fixed(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class SparseBlockSparseView:
    """Where the blocks of a tensor in onnxruntime's third form would be; nothing here makes one."""

    def __init__(self) -> None:
        raise NotImplemented("there are no tensors of sparse blocks here: give coordinates, or compressed rows")


class SparseTensor:
    """Values and their places in a dense tensor, on the host.

    >>> from sardonyx.api.devices import OrtDevice
    >>> tensor = SparseTensor.sparse_coo_from_numpy([3, 3], np.ones(2), np.array([1, 5]), OrtDevice.make("cpu", 0))
    >>> tensor.dense_shape(), tensor.data_type(), tensor.as_coo_view().indices()
    ([3, 3], 'sparse_tensor(double)', array([1, 5]))
    """

    def __init__(
        self, dense_shape: Sequence[int] | np.ndarray, values: np.ndarray, view: SparseCooView | SparseCsrView
    ) -> None:
        self._shape = [int(size) for size in dense_shape]
        self._values = _fixed(values)
        self._view = view

    @classmethod
    def sparse_coo_from_numpy(
        cls,
        dense_shape: Sequence[int] | np.ndarray,
        values: np.ndarray,
        coo_indices: np.ndarray,
        ort_device: OrtDevice,
    ) -> Self:
        """A tensor of values [n] with their places: [n] in row-major order, or [n, 2] of rows and columns."""
        if coo_indices.size not in (values.size, 2 * values.size):
            raise RuntimeError(f"{values.size} values have as many places, or twice, not {coo_indices.size}")
        return cls(dense_shape, values, SparseCooView(_fixed(np.asarray(coo_indices, np.int64))))

    @classmethod
    def sparse_csr_from_numpy(
        cls,
        dense_shape: Sequence[int] | np.ndarray,
        values: np.ndarray,
        inner_indices: np.ndarray,
        outer_indices: np.ndarray,
        ort_device: OrtDevice,
    ) -> Self:
        """A matrix of values [n] with the column of each, and where each row begins [rows + 1]."""
        rows = int(dense_shape[0])
        if inner_indices.size != values.size or outer_indices.size != rows + 1:
            raise RuntimeError(
                f"{values.size} values in {rows} rows have as many columns and {rows + 1} beginnings, "
                f"not {inner_indices.size} and {outer_indices.size}"
            )
        return cls(
            dense_shape,
            values,
            SparseCsrView(*(_fixed(np.asarray(each, np.int64)) for each in (inner_indices, outer_indices))),
        )

    @classmethod
    def of_dense(cls, array: np.ndarray) -> Self:
        """What is not zero, or not empty, in an array, in coordinate form.

        >>> tensor = SparseTensor.of_dense(np.array([[0, 7], [8, 0]]))
        >>> tensor.values(), tensor.as_coo_view().indices()
        (array([7, 8]), array([1, 2]))
        """
        flat = array.reshape(-1)
        places = np.flatnonzero(flat != "" if array.dtype.hasobject else flat)
        return cls(array.shape, flat[places], SparseCooView(_fixed(places)))

    def dense(self) -> np.ndarray:
        """The tensor with its zeros; InvalidArgument where a place lies outside of it."""
        kind = self._values.dtype
        filled = np.full(self._shape, "", object) if kind.kind in "OSU" else np.zeros(self._shape, kind)
        flat = filled.reshape(-1)
        if isinstance(self._view, SparseCooView):
            places = self._view.indices()
            within = places.reshape(-1, 2) if places.size != self._values.size or places.ndim == 2 else None
        else:
            counts = np.diff(self._view.outer())
            if (counts < 0).any() or counts.sum() != self._values.size:
                raise InvalidArgument(f"the rows of a sparse matrix begin at {self._view.outer().tolist()}")
            within = np.stack([np.repeat(np.arange(len(counts)), counts), self._view.inner()], 1)
        if within is not None and (within.size and ((within < 0) | (within >= self._shape)).any()):
            raise InvalidArgument(f"a sparse tensor {self._shape} has values at {within.max(0).tolist()}")
        if within is not None:
            places = within @ np.array([self._shape[1], 1])
        if places.size and not 0 <= places.min() <= places.max() < flat.size:
            raise InvalidArgument(f"a sparse tensor {self._shape} has values at places {places.min()}..{places.max()}")
        flat[places.reshape(-1)] = self._values.reshape(-1)
        return filled

    def values(self) -> np.ndarray:
        return self._values

    def as_coo_view(self) -> SparseCooView:
        if not isinstance(self._view, SparseCooView):
            raise RuntimeError("This sparse tensor does not contain COO format")
        return self._view

    def as_csrc_view(self) -> SparseCsrView:
        if not isinstance(self._view, SparseCsrView):
            raise RuntimeError("This sparse tensor does not contain CSR(C) format")
        return self._view

    def as_blocksparse_view(self) -> SparseCooView:
        raise RuntimeError("This sparse tensor does not contain BlockSparse format")

    def to_cuda(self, ort_device: OrtDevice) -> Self:
        raise NotImplemented("CUDA is not used here; sparse tensors stay on the host")

    def format(self) -> OrtSparseFormat:
        coordinates = isinstance(self._view, SparseCooView)
        return OrtSparseFormat.ORT_SPARSE_COO if coordinates else OrtSparseFormat.ORT_SPARSE_CSRC

    def dense_shape(self) -> list[int]:
        return list(self._shape)

    def data_type(self) -> str:
        return f"sparse_tensor({dtypes.of(self._values.dtype).onnx_name})"

    def device_name(self) -> str:
        return "cpu"
