"""Facts and plans that a session reads from a bundle instead of compiling."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.strings import StringTable
from sardonyx.errors import InvalidArgument, UnsoundError
from sardonyx.model.ir import TensorType, Value
from sardonyx.model.serde.source import BytesLike, open_file
from sardonyx.plans.bundle.format import Bundle
from sardonyx.plans.bundle.stored import load
from sardonyx.plans.plan import Port
from sardonyx.plans.plan_cache import Facts, Remembered
from sardonyx.plans.signature import Given
from sardonyx.plans.soundness import check, reading, require
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers.contract import Provider

_PARAMETER = re.compile(r"p\d{1,4}").fullmatch
MOST = 1 << 10
"""Buffers that one code has at most."""
_sound: deque[tuple[bytes, str]] = deque(maxlen=64)
"""Manifests, by their fingerprints, whose plans for a provider this process has checked."""
Chosen = tuple[Provider, Mapping[str, str]]


def open_bundle(source: Given, held: BytesLike | None = None) -> Bundle:
    """The bundle at a path or in memory; `held` is what lies at the path, if it was read."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Bundle(memoryview(source).cast("B"))
    return Bundle(memoryview(open_file(source) if held is None else held), os.fspath(source))


def choose(bundle: Bundle, chosen: Sequence[Chosen]) -> tuple[Chosen, dict[str, Any]]:
    """The first of the providers that the bundle has code for, and its target in the manifest."""
    with reading(bundle.name):
        targets = {target["provider"]: target for target in bundle.manifest["targets"].values()}
    for provider, options in chosen:
        if provider.name in targets:
            return (provider, options), targets[provider.name]
    asked = ", ".join(provider.name for provider, _ in chosen)
    raise InvalidArgument(
        f"{bundle.name} has code for {', '.join(map(str, targets))}, which runs here no more than {asked} can use it"
    )


def recall(bundle: Bundle, provider: Provider, target: Mapping[str, Any]) -> Remembered:
    """The facts and plans of a bundle for a provider. Raises InvalidArgument where it is damaged, or cannot be run."""
    with reading(bundle.name):
        manifest = bundle.manifest
        listed = target["codes"]
        _check_codes(listed)
        codes = [
            {
                "device": 0,
                "name": name,
                "reads": [None] * reads,
                "writes": [None] * writes,
                "bundled": code,
                "reach": far,
            }
            for (name, reads, writes, far), code in zip(listed, _codes(bundle, provider, target), strict=True)
        ]
        texts = manifest["strings"]
        require(type(texts) is list and set(map(type, texts)) <= {str}, "its strings are none")
        arrays = {name: _array(bundle, name, *kind) for name, kind in manifest["weights"].items()}
        strings = StringTable(texts)
        facts = Facts.from_data(manifest["model"])
        plans = [load(each, provider.name, codes, strings.texts, arrays.get) for each in target["plans"]]
        require(plans and all(type(each["accepts"]) is str for each in target["plans"]), "it has no plan")
        if (bundle.fingerprint, provider.name) not in _sound:
            for plan in plans:
                check(plan)
                _agree(facts.inputs, plan.inputs, are_fed=True)
                _agree(facts.outputs, plan.outputs, are_fed=False)
            _sound.append((bundle.fingerprint, provider.name))
        return Remembered(facts, plans, WeightTable(strings, arrays))


def _check_codes(listed: Sequence[Any]) -> None:
    """Codes have names, say how many buffers they read and write, and how far they go (`sardonyx.plans.reach`)."""
    counts = [count for _, reads, writes, _ in listed for count in (reads, writes)]
    is_sound = {*map(type, counts)} <= {int} and min(counts, default=0) >= 0 and max(counts, default=0) <= MOST
    require(is_sound and {type(code[0]) for code in listed} <= {str}, "a code has no name, or too many buffers")
    steps = {size for code in listed for size in code[3][-1]}
    extents = {size for code in listed for sizes in code[3] for size in sizes}
    texts = {size for size in extents if type(size) is not int}
    require(all(map(_PARAMETER, texts)) and {*map(type, steps)} <= {str}, "a code goes nobody knows how far")


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


def accepts(target: Mapping[str, Any]) -> str:
    """The inputs that the plans of a target accept, a line for each set of them."""
    return "".join(f"\n  {line}" for line in dict.fromkeys(plan["accepts"] for plan in target["plans"]))


def _codes(bundle: Bundle, provider: Provider, target: Mapping[str, Any]) -> Sequence[Any]:
    bundler = provider.bundler()
    if bundler is None:
        raise InvalidArgument(f"{bundle.name} has code for {provider.name}, which takes none from bundles")
    return bundler.read(bundle, target)


def _array(bundle: Bundle, name: str, dtype: str, shape: Sequence[int]) -> np.ndarray:
    array = np.frombuffer(bundle.section(name), dtypes.by_name(dtype).storage).reshape(shape)
    if array.shape != tuple(shape):
        raise UnsoundError(f"{name!r} is no weight of shape {shape}")
    if dtype == dtypes.string.name and array.size:
        most = len(bundle.manifest["strings"])
        require(array.min() >= 0 and array.max() < most, f"{name!r} has strings that are not there")
    array.flags.writeable = False
    return array
