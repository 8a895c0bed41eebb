"""Properties that are found once: `functools.cached_property`, which before Python 3.12 holds a lock of all instances.

Under that lock another thread's session would wait for a model that is prepared, or for ever where that model waits for
the thread; and the child of a fork would wait for a thread that it does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801  # as functools has it
    """What a method gives the first time. Of threads that ask at once each finds it, and all have what one of them did.

    >>> class Circle:
    ...     @cached_property
    ...     def area(self):
    ...         print("measured")
    ...         return 3
    >>> circle = Circle()
    >>> circle.area + circle.area
    measured
    6
    """

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self._name = ""
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._find(instance))
