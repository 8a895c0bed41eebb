"""Classes of named fields, declared as dataclasses are and defined in a tenth of the time.

`dataclasses` compiles each method of each class when a module is imported, which was half of what importing took. A
record's `__init__` is compiled when it is used for the fifth time, and its other methods are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

FEW = 4
"""Records of a class that are made before its `__init__` is compiled, which takes as long as making twenty more."""
T = TypeVar("T")
_ABSENT: Any = object()


class Field:
    """A field: its name, its default or what makes one, and where it counts."""

    __slots__ = ("compare", "default", "default_factory", "kw_only", "name", "repr")

    def __init__(self, default: Any, default_factory: Any, compare: bool, repr: bool, kw_only: bool) -> None:
        self.name = ""
        self.default = default
        self.default_factory = default_factory
        self.compare = compare
        self.repr = repr
        self.kw_only = kw_only


def field(
    *,
    default: Any = _ABSENT,
    default_factory: Any = _ABSENT,
    compare: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    """Say more of a field than its default: see `dataclasses.field`."""
    return Field(default, default_factory, compare, repr, kw_only)


class FrozenError(AttributeError):
    """An attribute of a frozen record was set or deleted."""


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(
    *, frozen: bool = False, eq: bool = True, repr: bool = True, slots: bool = False
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def record(
    cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, repr: bool = True, slots: bool = False
) -> Any:
    """Give a class a constructor for its annotated fields, equality, and a text; `dataclasses.dataclass` says more.

    >>> @record(frozen=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> Point(1), Point(1) == Point(1, 0), replace(Point(1), y=2)
    (Point(x=1, y=0), True, Point(x=1, y=2))
    >>> Point(1).x = 2
    Traceback (most recent call last):
        ...
    sardonyx.common.record.FrozenError: Point is frozen: 'x' cannot be set
    """

    def made(cls: type[T]) -> type[T]:
        return _made(cls, frozen, eq, repr, slots)

    return made if cls is None else made(cls)


def fields(record: Any) -> tuple[Field, ...]:
    """The fields of a record, or of its class, those of its bases first."""
    found: tuple[Field, ...] = record.__record_fields__
    return found


def replace(record: T, /, **changes: Any) -> T:
    """A record with other values of these fields; raises TypeError where there is no such field.

    >>> @record
    ... class Point:
    ...     x: int
    >>> replace(Point(1), z=2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    TypeError: ...__init__() got an unexpected keyword argument 'z'
    """
    for each in fields(record):
        if each.name not in changes:
            changes[each.name] = getattr(record, each.name)
    return type(record)(**changes)


def _made(cls: type[T], frozen: bool, eq: bool, repr: bool, slots: bool) -> type[T]:
    own = _own_fields(cls)
    if slots:
        cls = _slotted(cls, [each.name for each in own])
    known: dict[str, Field] = {}
    for base in cls.__mro__[:0:-1]:
        known.update((each.name, each) for each in base.__dict__.get("__record_fields__", ()))
    known.update((each.name, each) for each in own)
    everything = tuple(known.values())
    methods: dict[str, Any] = {"__init__": _Init(cls, frozen), "__record_fields__": everything}
    if repr and "__repr__" not in cls.__dict__:
        methods["__repr__"] = _repr
    if eq and "__eq__" not in cls.__dict__:
        methods["__eq__"] = _eq
    if eq:
        methods["__record_key__"] = _key([each.name for each in everything if each.compare])
    if eq and "__hash__" not in _written(cls):
        methods["__hash__"] = _hash if frozen else None
    if frozen:
        methods |= {"__setattr__": _no_set, "__delattr__": _no_delete}
    methods["__match_args__"] = tuple(each.name for each in everything if not each.kw_only)
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _written(cls: type) -> set[str]:
    """What the body of the class says: Python adds `__hash__ = None` where it says `__eq__`."""
    said = set(cls.__dict__)
    return said - {"__hash__"} if "__eq__" in said and cls.__dict__["__hash__"] is None else said


def _own_fields(cls: type) -> list[Field]:
    own = []
    for name, annotation in cls.__annotations__.items():
        if str(annotation).removeprefix("typing.").startswith("ClassVar"):
            continue
        default = cls.__dict__.get(name, _ABSENT)
        each = default if isinstance(default, Field) else Field(default, _ABSENT, True, True, False)
        each.name = name
        if default is each:
            if each.default is _ABSENT:
                delattr(cls, name)
            else:
                setattr(cls, name, each.default)
        own.append(each)
    return own


def _slotted(cls: type[T], names: Sequence[str]) -> type[T]:
    """The class anew, with slots, which are said before a class is made."""
    body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__", *names)}
    slotted: type[T] = type(cls)(cls.__name__, cls.__bases__, body | {"__slots__": tuple(names)})  # type: ignore[misc]
    return slotted


class _Init:
    """`__init__` until it is worth compiling: for the first records of a class, of which most have few."""

    __slots__ = ("_cls", "_frozen", "_left")

    def __init__(self, cls: type, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen
        self._left = FEW

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is not None and self._left > 0:
            self._left -= 1
            return partial(self._fill, instance)
        function = _compiled(self._cls, self._frozen)
        type.__setattr__(self._cls, "__init__", function)
        return function.__get__(instance, owner)

    def _fill(self, instance: Any, /, *arguments: Any, **named: Any) -> None:
        known = fields(self._cls)
        plain = [each.name for each in known if not each.kw_only]
        values = {**dict(zip(plain, arguments)), **named}
        for each in known:
            if each.name not in values:
                if each.default_factory is not _ABSENT:
                    values[each.name] = each.default_factory()
                elif each.default is not _ABSENT:
                    values[each.name] = each.default
        twice = not named.keys().isdisjoint(plain[: len(arguments)])
        if len(values) != len(known) or len(arguments) > len(plain) or twice:
            _compiled(self._cls, self._frozen)(instance, *arguments, **named)  # which says what is wrong
        set_field = object.__setattr__ if self._frozen else setattr
        for each in known:
            set_field(instance, each.name, values[each.name])
        if hasattr(self._cls, "__post_init__"):
            instance.__post_init__()


def _compiled(cls: type, frozen: bool) -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__, "_ABSENT": _ABSENT}
    parameters, keywords, body = ["self"], list[str](), list[str]()
    for each in fields(cls):
        name, value = each.name, each.name
        parameter = name
        if each.default_factory is not _ABSENT:
            names[f"_make_{name}"] = each.default_factory
            parameter, value = f"{name}=_ABSENT", f"_make_{name}() if {name} is _ABSENT else {name}"
        elif each.default is not _ABSENT:
            names[f"_default_{name}"] = each.default
            parameter = f"{name}=_default_{name}"
        (keywords if each.kw_only else parameters).append(parameter)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    heads = ", ".join([*parameters, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({heads}):\n " + "\n ".join(body or ["pass"]), names)
    function = names["__init__"]
    function.__qualname__ = f"{cls.__qualname__}.__init__"
    function.__module__ = cls.__module__
    return function


def _key(names: Sequence[str]) -> Any:
    """A function that gives a tuple of what is compared."""
    if len(names) > 1:
        return staticmethod(attrgetter(*names))
    return staticmethod(lambda record: tuple(getattr(record, name) for name in names))


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__record_key__(self) == self.__record_key__(other)


def _hash(self: Any) -> int:
    return hash(self.__record_key__(self))


def _repr(self: Any) -> str:
    told = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({told})"


def _no_set(self: Any, name: str, value: Any) -> None:
    raise FrozenError(f"{type(self).__name__} is frozen: '{name}' cannot be set")


def _no_delete(self: Any, name: str) -> None:
    raise FrozenError(f"{type(self).__name__} is frozen: '{name}' cannot be deleted")
