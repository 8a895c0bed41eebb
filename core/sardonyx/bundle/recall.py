"""What a session takes from a bundle instead of compiling."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx.bundle.format import MAGIC, Bundle, is_bundle
from sardonyx.bundle.stored import load
from sardonyx.compiler.weight_table import WeightTable
from sardonyx.device import Provider
from sardonyx.errors import InvalidArgument, UnsoundError
from sardonyx.ir import TensorType, Value
from sardonyx.plan import Port
from sardonyx.plan_cache import Facts, Remembered
from sardonyx.reach import Reach
from sardonyx.serde.source import open_file
from sardonyx.soundness import check, reading, require
from sardonyx.strings import StringTable

_PARAMETER = re.compile(r"p\d{1,4}").fullmatch
MOST = 1 << 10
"""Buffers that one code has at most."""
Chosen = tuple[Provider, Mapping[str, str]]


def open_bundle(given: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Bundle | None:
    """The bundle at a path or in memory, None if it is something else."""
    if isinstance(given, (bytes, bytearray, memoryview)):
        data = memoryview(given).cast("B")
        return Bundle(data) if is_bundle(data) else None
    if not os.path.isfile(given):  # opening a pipe would wait
        return None
    try:
        with open(given, "rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
    except OSError:  # opening the model says it better
        return None
    return Bundle(memoryview(open_file(given)), os.fspath(given))


def choose(bundle: Bundle, chosen: Sequence[Chosen]) -> tuple[Chosen, dict[str, Any]]:
    """The first of the providers that the bundle has code for, and what the manifest tells of it."""
    with reading(bundle.name):
        targets = {told["provider"]: told for told in bundle.manifest["targets"].values()}
    for provider, options in chosen:
        if provider.name in targets:
            return (provider, options), targets[provider.name]
    asked = ", ".join(provider.name for provider, _ in chosen)
    raise InvalidArgument(
        f"{bundle.name} has code for {', '.join(map(str, targets))}, which runs here no more than {asked} can use it"
    )


def recall(bundle: Bundle, provider: Provider, told: Mapping[str, Any]) -> Remembered:
    """The facts and plans of a bundle for a provider. Raises InvalidArgument where it is damaged, or cannot be run."""
    with reading(bundle.name):
        manifest = bundle.manifest
        listed = [_arity(*code) for code in told["codes"]]
        codes = [
            {"device": 0, "name": name, "reads": [None] * reads, "writes": [None] * writes, "bundled": code, "reach": told_}
            for (name, reads, writes, told_), code in zip(listed, _codes(bundle, provider, told), strict=True)
        ]
        texts = manifest["strings"]
        require(type(texts) is list and set(map(type, texts)) <= {str}, "its strings are none")
        arrays = {name: _array(bundle, name, *kind) for name, kind in manifest["weights"].items()}
        strings = StringTable(texts)
        facts = Facts.from_data(manifest["model"])
        plans = [load(each, provider.name, codes, strings.texts, arrays.get) for each in told["plans"]]
        require(plans and all(type(each["accepts"]) is str for each in told["plans"]), "it has no plan")
        for plan in plans:
            check(plan)
            _agree(facts.inputs, plan.inputs, are_fed=True)
            _agree(facts.outputs, plan.outputs, are_fed=False)
        return Remembered(facts, plans, WeightTable(strings, arrays))


def _arity(name: str, reads: int, writes: int, reach: Reach) -> tuple[str, int, int, Reach]:
    """A code's name, how many buffers it reads and writes, and how far it goes."""
    sizes = list(chain.from_iterable(reach))
    is_reach = len(reach) > 0 and all(type(size) is int or _PARAMETER(size) for size in sizes)
    require(is_reach and all(type(size) is str for size in reach[-1]), f"{name!r} goes {reach} far")
    require(type(name) is str and type(reads) is type(writes) is int, f"{name!r} is no code")
    require(0 <= reads <= MOST and 0 <= writes <= MOST, f"{name} cannot have {reads} and {writes} buffers")
    return name, reads, writes, reach


def _agree(values: Sequence[Value], ports: Sequence[Port], are_fed: bool) -> None:
    """The inputs or outputs of a model are those of its plan. What is fed has a type, by which it is checked."""
    require([value.name for value in values] == [port.name for port in ports], "a plan has other inputs or outputs")
    for value, port in zip(values, ports, strict=True):
        kind = value.type
        if isinstance(kind, TensorType):
            is_open = kind.shape is None or {*map(type, kind.shape)} <= {int, str, type(None)}
            require(is_open, f"{value.name!r} is {kind}")
            require(not are_fed or (kind.dtype and kind.dtype.name == port.dtype), f"{value.name!r} is {port.dtype}")
        else:
            require(kind is None and not are_fed, f"{value.name!r} is {kind}")


def accepts(told: Mapping[str, Any]) -> str:
    """What the plans of a bundle take, a line for each."""
    return "".join(f"\n  {plan['accepts']}" for plan in told["plans"])


def _codes(bundle: Bundle, provider: Provider, told: Mapping[str, Any]) -> Sequence[Any]:
    return provider.bundler().read(bundle, told)  # type: ignore[attr-defined, no-any-return]


def _array(bundle: Bundle, name: str, dtype: str, shape: Sequence[int]) -> np.ndarray:
    array = np.frombuffer(bundle.section(name), dtypes.by_name(dtype).storage).reshape(shape)
    require(array.shape == tuple(shape), f"{name!r} is no weight of shape {shape}")
    if dtype == dtypes.string.name and array.size:
        most = len(bundle.manifest["strings"])
        require(0 <= array.min() and array.max() < most, f"{name!r} has strings that are not there")
    array.flags.writeable = False
    return array
