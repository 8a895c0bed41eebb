"""Enumerations with onnxruntime's numbers and looks."""

from __future__ import annotations

from enum import Enum, IntEnum


class Choice(IntEnum):
    """An enumeration whose members print by their names.

    >>> class Speed(Choice):
    ...     FAST = 1
    >>> print(Speed.FAST), int(Speed.FAST)
    Speed.FAST
    (None, 1)
    """

    __str__ = Enum.__str__
