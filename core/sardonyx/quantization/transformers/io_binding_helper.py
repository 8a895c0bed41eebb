"""onnxruntime.transformers.io_binding_helper: element types by the names of NumPy, PyTorch and ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.extras import missing
from sardonyx.errors import InvalidArgument

T = TypeVar("T")
TYPES = {f"tensor({dtype.onnx_name})": dtype for dtype in dtypes.ALL}
"""By the names that `NodeArg.type` has."""


class TypeHelper:
    """What an element type is called; ValueError where there is no name for it."""

    @staticmethod
    def get_input_type(ort_session: Any, name: str) -> str:
        """The type of an input, such as `tensor(float)`."""
        return _named(ort_session.get_inputs(), name, "input")

    @staticmethod
    def get_output_type(ort_session: Any, name: str) -> str:
        """The type of an output, such as `tensor(float)`."""
        return _named(ort_session.get_outputs(), name, "output")

    @staticmethod
    def ort_type_to_numpy_type(ort_type: str) -> type:
        """The scalar type of NumPy, and `bool`.

        >>> TypeHelper.ort_type_to_numpy_type("tensor(float)").__name__
        'float32'
        """
        return _found(_numpy_types(), TYPES.get(ort_type), ort_type)

    @staticmethod
    def ort_type_to_torch_type(ort_type: str) -> Any:
        """The `torch.dtype`; ImportError where PyTorch is not installed."""
        return _found(_torch_types(), TYPES.get(ort_type), ort_type)

    @staticmethod
    def ort_type_to_onnx_type(ort_type: str) -> int:
        """The number in `TensorProto.DataType`.

        >>> TypeHelper.ort_type_to_onnx_type("tensor(float)")
        1
        """
        return _found({dtype: dtype.number for dtype in TYPES.values()}, TYPES.get(ort_type), ort_type)

    @staticmethod
    def numpy_type_to_torch_type(numpy_type: type) -> Any:
        """The `torch.dtype` of a scalar type of NumPy, or of `bool`."""
        by_type = {scalar: dtype for dtype, scalar in _numpy_types().items()}
        return _found(_torch_types(), by_type.get(numpy_type), numpy_type)

    @staticmethod
    def torch_type_to_numpy_type(torch_type: Any) -> type:
        """The scalar type of NumPy, or `bool`, of a `torch.dtype`."""
        by_type = {each: dtype for dtype, each in _torch_types().items()}
        return _found(_numpy_types(), by_type.get(torch_type), torch_type)

    @staticmethod
    def get_io_onnx_type_map(ort_session: Any) -> dict[str, int]:
        """The numbers of the types of all inputs and outputs, by name."""
        return _by_name(ort_session, TypeHelper.ort_type_to_onnx_type)

    @staticmethod
    def get_io_numpy_type_map(ort_session: Any) -> dict[str, type]:
        """NumPy's types of all inputs and outputs, by name."""
        return _by_name(ort_session, TypeHelper.ort_type_to_numpy_type)

    @staticmethod
    def get_io_torch_type_map(ort_session: Any) -> dict[str, Any]:
        """PyTorch's types of all inputs and outputs, by name."""
        return _by_name(ort_session, TypeHelper.ort_type_to_torch_type)


def _numpy_types() -> dict[DType, type]:
    native = [dtype for dtype in dtypes.ALL if dtype.is_native]
    return {dtype: bool if dtype is dtypes.bool_ else dtype.storage.type for dtype in native}


def _torch_types() -> dict[DType, Any]:
    try:
        import torch
    except ImportError:
        raise ImportError(missing("torch")) from None
    named = {dtype: dtypes.ML_NAMES[dtype.name] for dtype in dtypes.ALL if dtype is not dtypes.string}
    return {dtype: getattr(torch, name) for dtype, name in named.items() if hasattr(torch, name)}


def _found(names: dict[DType, T], dtype: DType | None, asked: object) -> T:
    if dtype not in names:
        raise InvalidArgument(f"{asked} not found: there is no such type on the other side")
    return names[dtype]


def _named(ports: list[Any], name: str, kind: str) -> str:
    for port in ports:
        if port.name == name:
            return str(port.type)
    raise InvalidArgument(f"{kind} name {name} not found; there are {', '.join(port.name for port in ports)}")


def _by_name(ort_session: Any, of: Callable[[str], T]) -> dict[str, T]:
    return {port.name: of(port.type) for port in (*ort_session.get_inputs(), *ort_session.get_outputs())}
