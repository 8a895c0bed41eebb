"""Where onnxruntime's Python classes are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.api import names
from sardonyx.api.capi import _pybind_state as C  # noqa: N812 - onnxruntime's name
from sardonyx.api.devices import OrtDevice, OrtDeviceVendorId
from sardonyx.api.session import InferenceSession
from sardonyx.api.sparse import SparseTensor
from sardonyx.errors import InvalidArgument

__all__ = [
    "C",
    "InferenceSession",
    "OrtDevice",
    "OrtDeviceVendorId",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "get_ort_device_type",
    "get_vendor_id_for_device_type",
]

Session = InferenceSession
"""onnxruntime's base class of sessions."""


def get_ort_device_type(device_type: str) -> int:
    """The number of a kind of device.

    >>> get_ort_device_type("cpu"), get_ort_device_type("cuda")
    (0, 1)
    """
    return OrtDevice.dml() if device_type == "dml" else OrtDevice.make(device_type, 0).device_type()


def get_vendor_id_for_device_type(device_type: str) -> OrtDeviceVendorId | None:
    """Whose devices a kind implies: NVIDIA's for `cuda`; None where it implies nothing."""
    if device_type == "webgpu":
        return OrtDeviceVendorId.NONE
    vendor = OrtDeviceVendorId(OrtDevice.make(device_type, 0).device_vendor_id())
    return vendor if vendor is not OrtDeviceVendorId.NONE else None


def check_and_normalize_provider_args(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Names of providers, and their options as strings; warns of names that are not available, or there twice.

    Raises InvalidArgument where they come in another form than sessions take.

    >>> check_and_normalize_provider_args([("a", {1: 2}), "b"], None, ["a", "b"])
    (['a', 'b'], [{'1': '2'}, {}])
    """
    if providers is None:
        return [], []
    if not isinstance(providers, Sequence) or not isinstance(provider_options or (), Sequence):
        raise InvalidArgument(f"providers and provider_options are lists, not {providers!r} and {provider_options!r}")
    pairs = [item if isinstance(item, tuple) else (item, {}) for item in providers]
    if provider_options is not None:
        if len(provider_options) != len(pairs) or any(isinstance(item, tuple) for item in providers):
            raise InvalidArgument("provider_options go with as many names of providers, without options of their own")
        pairs = [(name, more) for (name, _), more in zip(pairs, provider_options, strict=True)]
    options: dict[str, dict[str, str]] = {}
    for item in pairs:
        match item:
            case (str(name), Mapping() as given) if name not in options:
                options[name] = {str(key): str(value) for key, value in given.items()}
            case (str(name), Mapping()):
                warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=2)
            case _:
                raise InvalidArgument(f"a provider is a name, or a name with a dictionary of options, not {item!r}")
        if name not in available_provider_names:
            there = ", ".join(available_provider_names)
            warnings.warn(f"'{name}' is not in available provider names; there are {there}", stacklevel=2)
    return list(options), list(options.values())


def __getattr__(name: str) -> Any:
    return names.find(name, __name__)
