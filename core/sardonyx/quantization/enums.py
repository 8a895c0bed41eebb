"""What a quantizer may be asked for: types, forms of the result, ways to find ranges."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument

E = TypeVar("E", bound="Named")


class Named(Enum):
    """An enumeration whose members are told by their names."""

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_string(cls: type[E], name: str) -> E:
        """The member of this name; ValueError names all of them.

        >>> QuantType.from_string("QInt8")
        <QuantType.QInt8: 0>
        """
        try:
            return cls[name]
        except KeyError:
            raise InvalidArgument(f"{cls.__name__} has no {name!r}; it has {', '.join(cls.__members__)}") from None


class QuantizationMode(Named):
    """Whether operators take and give integers with scales (`QLinearOps`), or sum integers alone (`IntegerOps`)."""

    IntegerOps = 0
    QLinearOps = 1


class QuantizedValueType(Named):
    """Whether a quantized value is computed, or an initializer."""

    Input = 0
    Initializer = 1


class QuantType(Named):
    """The element types that weights and activations may be given.

    >>> QuantType.QUInt8.tensor_type  # a TensorProto.DataType
    2
    """

    QInt8 = 0
    QUInt8 = 1
    QFLOAT8E4M3FN = 2
    QInt16 = 3
    QUInt16 = 4
    QInt4 = 5
    QUInt4 = 6

    @property
    def dtype(self) -> DType:
        """The element type of such tensors."""
        return dtypes.by_name(self.name[1:].lower())

    @property
    def tensor_type(self) -> int:
        """The number of the element type in `TensorProto.DataType`."""
        return self.dtype.number


class QuantFormat(Named):
    """Quantized operators, or pairs of QuantizeLinear and DequantizeLinear around those that there are."""

    QOperator = 0
    QDQ = 1


class CalibrationMethod(Enum):
    """How a range is found: all that was seen, least loss of information, most of what was seen, mean and spread."""

    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3
