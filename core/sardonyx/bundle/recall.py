"""What a session takes from a bundle instead of compiling."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx.bundle.format import MAGIC, Bundle, is_bundle
from sardonyx.bundle.stored import load
from sardonyx.compiler.weight_table import WeightTable
from sardonyx.device import Provider
from sardonyx.errors import InvalidArgument
from sardonyx.plan_cache import Facts, Remembered
from sardonyx.serde.source import open_file
from sardonyx.strings import StringTable

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
    for provider, options in chosen:
        for told in bundle.manifest["targets"].values():
            if told["provider"] == provider.name:
                return (provider, options), told
    there = ", ".join(told["provider"] for told in bundle.manifest["targets"].values())
    asked = ", ".join(provider.name for provider, _ in chosen)
    raise InvalidArgument(f"{bundle.name} has code for {there}, which runs here no more than {asked} can use it")


def recall(bundle: Bundle, provider: Provider, told: Mapping[str, Any]) -> Remembered:
    """The facts and plans of a bundle for a provider. Raises InvalidArgument where it is damaged."""
    manifest = bundle.manifest
    codes = [
        {"device": 0, "name": name, "reads": [None] * reads, "writes": [None] * writes, "bundled": code}
        for (name, reads, writes), code in zip(told["codes"], _codes(bundle, provider, told), strict=True)
    ]
    arrays = {name: _array(bundle, name, *kind) for name, kind in manifest["weights"].items()}
    strings = StringTable(manifest["strings"])
    plans = [load(each, provider.name, codes, strings.texts, arrays.get) for each in told["plans"]]
    return Remembered(Facts.from_data(manifest["model"]), plans, WeightTable(strings, arrays))


def accepts(told: Mapping[str, Any]) -> str:
    """What the plans of a bundle take, a line for each."""
    return "".join(f"\n  {plan['accepts']}" for plan in told["plans"])


def _codes(bundle: Bundle, provider: Provider, told: Mapping[str, Any]) -> Sequence[Any]:
    return provider.bundler().read(bundle, told)  # type: ignore[attr-defined, no-any-return]


def _array(bundle: Bundle, name: str, dtype: str, shape: Sequence[int]) -> np.ndarray:
    array = np.frombuffer(bundle.section(name), dtypes.by_name(dtype).storage).reshape(shape)
    array.flags.writeable = False
    return array
