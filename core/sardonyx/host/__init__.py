"""Functions of the host: what is computed in Python between launches, by name, and never what a kernel computes.

    @host_function("text.upper")
    def upper(x: np.ndarray) -> np.ndarray:
        return np.char.upper(x.astype(str))

Operators call them by `primitives.host`. A function takes arrays and, by keyword, attributes that JSON can hold; it
gives an array or a sequence of them. Strings come as arrays of objects, all of them `str`, and any array of strings may
be given. Functions are pure unless they say otherwise: equal arguments give equal results, and what depends on
constants alone is called once.

Beside them stand the rules of primitives that most networks have, as NumPy's provider and constants use them:
`products`, `correlation`, `windows`, `recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.strings import Strings
from sardonyx.errors import NotImplemented

HostFunction: TypeAlias = Callable[..., np.ndarray | Sequence[np.ndarray]]

KEY = "random.key"
"""What draws the key of random numbers: the one function of the host that a page has, too."""
_FUNCTIONS: dict[str, HostFunction] = {}
_IMPURE: set[str] = set()
_MODULES = {"image": "sardonyx.host.image", "random": "sardonyx.host.random", "text": "sardonyx.host.text"}
"""Modules to import for names that begin with this word."""


def host_function(name: str, *, pure: bool = True) -> Callable[[HostFunction], HostFunction]:
    """Registers a function under a name, `family.verb`, which plans store; an earlier one of that name is replaced.

    One that is not pure is called in each run.
    """

    def register(function: HostFunction) -> HostFunction:
        _FUNCTIONS[name] = function
        (_IMPURE.discard if pure else _IMPURE.add)(name)
        return function

    return register


def find(name: str) -> HostFunction:
    """The function of this name; NotImplemented if no module that was imported registers it."""
    if name not in _FUNCTIONS and (module := _MODULES.get(name.partition(".")[0])):
        import_module(module)
    if name not in _FUNCTIONS:
        raise NotImplemented(f"no host function {name!r} is registered; import the module that defines it")
    return _FUNCTIONS[name]


def is_pure(name: str) -> bool:
    """Whether equal arguments of the function of this name give equal results."""
    find(name)
    return name not in _IMPURE


def call(
    name: str,
    attributes: Mapping[str, Any],
    operands: Sequence[tuple[np.ndarray, DType]],
    results: Sequence[DType],
    strings: Strings,
) -> list[np.ndarray]:
    """Call a host function; operands and results are arrays of these types in the engine's storage.

    Raises ValueError if the function returns another number of results.
    """
    arrays = [strings.decode(array) if dtype is dtypes.string else array for array, dtype in operands]
    outputs = find(name)(*arrays, **attributes)
    outputs = [outputs] if isinstance(outputs, np.ndarray) else outputs
    if len(outputs) != len(results):
        raise ValueError(f"{name} gives {len(outputs)} results, {len(results)} are wanted")
    return [
        strings.encode(np.asarray(array)) if dtype is dtypes.string else np.asarray(array, dtype.storage, order="C")
        for array, dtype in zip(outputs, results, strict=True)
    ]
