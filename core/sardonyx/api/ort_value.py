"""Values that callers keep, on the host or on a device: what a session makes there, another run takes there."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sardonyx.common import dtypes, memory
from sardonyx.common.convert import inward, outward
from sardonyx.common.dtypes import DType
from sardonyx.common.strings import RunStrings, StringTable
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.providers import registry
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.handles import Handle, downloaded

if TYPE_CHECKING:  # most values do without these
    from sardonyx.api.devices import OrtDevice, OrtMemoryInfo
    from sardonyx.api.sparse import SparseTensor

DEVICES = {"gpu": registry.WEBGPU, "webgpu": registry.WEBGPU}
"""Kinds of devices besides `cpu`, and the provider of each."""


def provider_of(device_type: str | OrtDevice, device_id: int = 0) -> str | None:
    """The provider of a kind of device, or of a device, None for the host; InvalidArgument where there is none."""
    if not isinstance(device_type, str):
        device_id = device_type.device_id()
        device_type = "cpu" if device_type.device_type() == device_type.cpu() else "gpu"
    kind = device_type.lower()
    if device_id != 0 or (kind != "cpu" and kind not in DEVICES):
        kinds = ", ".join(["cpu", *DEVICES])
        raise InvalidArgument(f"no device {device_type!r} number {device_id}; there are {kinds}, each with number 0")
    return DEVICES.get(kind)


class OrtValue:
    """A tensor on the host or on a device, or another value of the host; made by the functions named `ortvalue_from_`.

    What lies on a device is given back with the last reference.

    >>> value = OrtValue.ortvalue_from_numpy(np.zeros((2, 3), np.float32))
    >>> value.shape(), value.data_type(), value.device_name()
    ([2, 3], 'tensor(float)', 'cpu')
    """

    def __init__(self, value: Any, element: DType | None = None) -> None:
        self._value = value
        self._element = element
        self._device: Device | None = None
        self._handle: Handle | None = None
        self._owner: Any = None
        self._is_sparse = False

    @classmethod
    def placed(cls, device: Device, handle: Handle) -> Self:
        """A tensor on a device, in a chunk of its own."""
        value = cls(None, handle.element)
        value._device, value._handle = device, handle
        return value

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str | OrtDevice = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> Self:
        """An array on the host, which is not copied, or a copy of it on the device, `gpu` or `webgpu`.

        There is one device of each kind, so the vendor does not matter.
        """
        array = np.asarray(numpy_obj)
        element = dtypes.of(array.dtype)
        if (name := provider_of(device_type, device_id)) is None:
            return cls(array, element)
        if element is dtypes.string:
            raise InvalidArgument("strings lie on the host; make it an OrtValue of device 'cpu'")
        value = cls._reserved(name, element, array.shape)
        value.update_inplace(array)
        return value

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(cls, data: np.ndarray, onnx_element_type: int) -> Self:
        """An array on the host with the bits of elements of the type that has this `TensorProto.DataType` number.

        >>> OrtValue.ortvalue_from_numpy_with_onnx_type(np.array([0x3C00], np.uint16), 10).numpy()
        array([1.], dtype=float16)
        """
        element = dtypes.by_number(onnx_element_type)
        if element is None or element.itemsize != data.dtype.itemsize:
            raise InvalidArgument(f"elements of {data.dtype} are none of the ONNX type number {onnx_element_type}")
        return cls(data.view(element.storage), element)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: Any,
        device_type: str | OrtDevice = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
        memory_info: OrtMemoryInfo | None = None,
    ) -> Self:
        """A tensor whose contents are undefined; the type is NumPy's, or ONNX's number."""
        if memory_info is not None:
            device_type = "cpu" if memory_info.name.lower() == "cpu" else "gpu"
        element = _element(element_type)
        if (name := provider_of(device_type, device_id)) is None:
            return cls(np.empty(_sizes(shape, element), element.storage), element)
        return cls._reserved(name, element, _sizes(shape, element))

    ortvalue_from_shape_and_onnx_type = ortvalue_from_shape_and_type

    @classmethod
    def at_address(cls, address: int, element_type: Any, shape: Sequence[int], owner: Any = None) -> Self:
        """The tensor at an address of the host, whose owner is kept alive; the type is NumPy's, or ONNX's number."""
        element = _element(element_type)
        sizes = _sizes(shape, element)
        count: int = prod(sizes)
        if not address and count:
            raise InvalidArgument(f"a tensor of {list(sizes)} cannot lie at address {address!r}: give data_ptr()")
        buffer = memoryview((ctypes.c_char * (count * element.itemsize)).from_address(address))
        value = cls(np.frombuffer(buffer, element.storage).reshape(sizes), element)
        value._owner = owner
        return value

    @classmethod
    def _reserved(cls, provider: str, element: DType, shape: tuple[int, ...]) -> Self:
        device = registry.load(provider).device({})
        return cls.placed(device, reserve(device, element, shape))

    # ---- what it is

    def numpy(self) -> Any:
        """The value on the host; what lies on a device is copied."""
        if self._handle is None:
            return self._value
        (array,) = fetched([self])
        return array

    @classmethod
    def ort_value_from_sparse_tensor(cls, sparse_tensor: SparseTensor) -> Self:
        """A sparse tensor on the host, which is not copied."""
        value = cls(sparse_tensor)
        value._is_sparse = True
        return value

    def as_sparse_tensor(self) -> SparseTensor:
        """The sparse tensor that it is; InvalidArgument where it is none."""
        if not self._is_sparse:
            raise InvalidArgument(f"this OrtValue is {self}, no sparse tensor")
        sparse: SparseTensor = self._value
        return sparse

    def update_inplace(self, data: np.ndarray | OrtValue) -> None:
        """Have the elements of an array, or of another OrtValue, of the same type and shape."""
        if not isinstance(data, (np.ndarray, OrtValue)):
            raise TypeError(f"data must be a numpy.ndarray or an OrtValue, not a {type(data).__name__}")
        if not isinstance(self._value, np.ndarray) and self._handle is None:
            raise InvalidArgument("this OrtValue is no tensor")
        assert self._element is not None
        array = inward(np.asarray(data), self._element)
        stored = self._value.dtype if self._handle is None else self._handle.dtype
        if list(array.shape) != self.shape() or array.dtype != stored:
            raise InvalidArgument(f"this OrtValue is {self}, not {array.dtype}{list(array.shape)}")
        if self._handle is None:
            self._value[...] = array
        else:
            self.device.upload(self._handle.address, np.ascontiguousarray(array))

    def shape(self) -> list[int]:
        if self._is_sparse:
            return list(self._value.dense_shape())
        return list(self._value.shape if self._handle is None else self._handle.shape)

    def data_type(self) -> str:
        if self._is_sparse:
            return str(self._value.data_type())
        if self._element is not None:
            return f"tensor({self._element.onnx_name})"
        first = self._value[0] if isinstance(self._value, list) and self._value else None
        return f"seq(tensor({dtypes.of(first.dtype).onnx_name if isinstance(first, np.ndarray) else '?'}))"

    def element_type(self) -> int:
        """ONNX's number of the elements' type."""
        return self._element.number if self._element else 0

    def device_name(self) -> str:
        return "cpu" if self._handle is None else "gpu"

    def data_ptr(self) -> int:
        """The address of the elements on the host."""
        if not isinstance(self._value, np.ndarray):
            raise InvalidArgument("what lies on a GPU, or is no tensor, has no address")
        return int(self._value.ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        return int(self._value.nbytes if self._handle is None else self._handle.nbytes)

    def has_value(self) -> bool:
        return self._handle is not None or self._value is not None

    def is_tensor(self) -> bool:
        return self._handle is not None or isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        return self._is_sparse

    def is_tensor_sequence(self) -> bool:
        return isinstance(self._value, list)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The tensor for `np.asarray`; what lies on a device is copied. InvalidArgument where it is no tensor."""
        if not self.is_tensor():
            raise InvalidArgument(f"this OrtValue is {self}, no tensor, so there is no array of it")
        array = self.numpy()
        return np.asarray(array, dtype) if copy is None else np.array(array, dtype, copy=copy)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """The tensor as DLPack has it, on the host, where there are no streams."""
        array = np.asarray(self)
        if not array.flags.writeable and "max_version" not in options:  # older consumers would write to it
            array = array.copy()
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    to_dlpack = __dlpack__

    @classmethod
    def from_dlpack(cls, data: Any, /, is_bool_tensor: bool = False) -> Self:
        """What another library has on the host, not copied: an object with `__dlpack__`, or what that gives.

        Older libraries give truth values as uint8; `is_bool_tensor` says that they are.

        >>> OrtValue.from_dlpack(np.ones(2).__dlpack__()).numpy()
        array([1., 1.])
        """
        legacy = not hasattr(data, "__dlpack_device__")
        if legacy:
            data = _Capsule(data.__dlpack__() if hasattr(data, "__dlpack__") else data)
        array = np.from_dlpack(data)
        if is_bool_tensor and array.dtype == np.uint8:
            array = array.view(np.bool_)
        if legacy and array.flags.c_contiguous and array.size:  # NumPy takes what older producers give for read-only
            return cls.at_address(array.ctypes.data, array.dtype, array.shape, array)
        return cls.ortvalue_from_numpy(array)

    def __repr__(self) -> str:
        return f"{self.data_type()}{self.shape() if self.is_tensor() else ''} on {self.device_name()}"

    # ---- what onnxruntime's two layers reach each other by

    @property
    def _ortvalue(self) -> Self:
        return self

    def _get_c_value(self) -> Self:
        return self

    # ---- for sessions

    def stored(self) -> tuple[DType, np.ndarray]:
        """The elements' type, and an array as the engine stores them; InvalidArgument for what is no such tensor."""
        if self._element in (None, dtypes.string):
            raise InvalidArgument(f"this OrtValue is {self}, no tensor of numbers")
        assert self._element is not None
        return self._element, inward(np.asarray(self), self._element)

    @property
    def device(self) -> Device:
        """The device on which it lies. Raises Fail where that was lost."""
        assert self._device is not None
        if self._device.is_lost:
            raise Fail(f"{self} is gone, since the GPU was lost: make this OrtValue anew")
        return self._device

    @classmethod
    def sparse(cls, value: OrtValue) -> OrtValue:
        """What is not zero in a tensor, on the host."""
        from sardonyx.api.sparse import SparseTensor  # which few models need

        return cls.ort_value_from_sparse_tensor(SparseTensor.of_dense(np.asarray(value)))

    def feed(self, devices: Sequence[Device]) -> Any:
        """What to feed to a session on these devices: where it lies, if on one of them, else a value of the host."""
        if self._handle is None or self._device not in devices:
            return self.numpy()
        return handle_on(devices, self)

    @property
    def place(self) -> Handle | None:
        """Where it lies, if not on the host."""
        return self._handle


def _element(element_type: Any) -> DType:
    """The type that NumPy's, or ONNX's number, stands for."""
    number = dtypes.by_number(element_type) if isinstance(element_type, int) else None
    return number or dtypes.of(np.dtype(element_type))


def _sizes(shape: Sequence[int], element: DType) -> tuple[int, ...]:
    """A shape that there can be; InvalidArgument, or TooLargeError, where there cannot."""
    try:
        sizes = tuple(map(index, shape))
    except TypeError:
        raise InvalidArgument(f"a shape is a list of whole numbers, not {shape!r}") from None
    if min(sizes, default=0) < 0:
        raise InvalidArgument(f"the shape {list(sizes)} has a size below 0")
    memory.refuse(f"a tensor of {list(sizes)}", prod(sizes) * element.itemsize)
    return sizes


class _Capsule:
    """Gives NumPy a DLPack capsule that is there already, of a tensor on the host."""

    def __init__(self, capsule: Any) -> None:
        kind = type(capsule).__name__
        if kind != "PyCapsule":
            raise TypeError(f"from_dlpack expected an object with __dlpack__, or a capsule, not a {kind}")
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def handle_on(devices: Sequence[Device], value: OrtValue) -> Handle:
    """Where a value lies, by the number of its device among these."""
    place = value.place
    assert place is not None
    return Handle(devices.index(value.device), place.address, place.element, place.shape)


def reserve(device: Device, element: DType, shape: tuple[int, ...]) -> Handle:
    """Memory for a tensor on a device."""
    nbytes = -(-prod(shape) * element.itemsize // 4) * 4
    return Handle(0, Address(device.allocate(nbytes), 0, nbytes), element, shape)


def fetched(values: Sequence[OrtValue]) -> list[Any]:
    """The values on the host, those of one device read together."""
    placed = [value for value in values if value.place is not None]
    devices = list(dict.fromkeys(value.device for value in placed))
    handles = [handle_on(devices, value) for value in placed]
    strings = RunStrings(StringTable())
    arrays = iter([outward(a, h.element, strings) for a, h in zip(downloaded(devices, handles), handles, strict=True)])
    return [value.numpy() if value.place is None else next(arrays) for value in values]
