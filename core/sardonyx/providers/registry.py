"""Execution providers by name: those of this distribution, and others found through entry points."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, NoReturn

from sardonyx.common import debug
from sardonyx.errors import EPFail, InvalidArgument, InvalidValue
from sardonyx.providers.contract import Provider

GROUP = "sardonyx.execution_providers"
CPU = "CPUExecutionProvider"
NUMPY, WASM, WEBGPU = "NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider"
OURS = {WEBGPU: "sardonyx_webgpu", WASM: "sardonyx_wasm", NUMPY: "sardonyx.numpy_backend"}
"""Packages with a `provider`. To look through all that is installed takes longer than to import these."""
FASTEST = (WASM, NUMPY)
"""What `CPUExecutionProvider` stands for."""
SUFFIX = "ExecutionProvider"
TITLES = {WEBGPU: "WebGPU", WASM: "WebAssembly", NUMPY: "NumPy"}
"""How prose calls them."""
_KNOWN = """
NvTensorRTRTX Tensorrt CUDA MIGraphX OpenVINO Dnnl VitisAI QNN Nnapi VSINPU Js CoreML ACL Dml Rknpu WebNN WebGpu Xnnpack
CANN Azure
"""
RANKED = [f"{name}{SUFFIX}" for name in _KNOWN.split()]
"""onnxruntime's providers other than the CPU, in its order."""
_EARLIER = "DNNL JS ROCM SNPE TVM Vitis"
ELSEWHERE = frozenset({*RANKED, *(f"{name}{SUFFIX}" for name in _EARLIER.split())} - {WEBGPU})
"""onnxruntime's other providers: scripts name them in front of the CPU, and expect to run without them."""


@cache
def installed() -> dict[str, Callable[[], Provider]]:
    """What loads each provider by its name, ours first."""
    from importlib import metadata

    others = {point.name: point.load for point in metadata.entry_points(group=GROUP) if point.name not in OURS}
    return {name: partial(load, name) for name in OURS} | others


@cache
def load(name: str) -> Provider:
    """The provider of this name."""
    if name in OURS:
        try:
            provider: Provider = import_module(OURS[name]).provider
        except ModuleNotFoundError as error:
            if error.name != OURS[name]:
                raise
            return _Removed(name)
        return provider
    loader = installed().get(name)
    if loader is None:
        raise InvalidValue(f"no execution provider is called {name!r}; there are {', '.join(available())}")
    provider = loader()
    if not isinstance(provider, Provider):
        raise EPFail(
            f"{name}: its entry point gives {provider!r}, which does not derive from sardonyx.providers.Provider"
        )
    if provider.name != name:
        raise EPFail(f"{name}: the provider of this entry point is called {provider.name!r}; let both be the same")
    return provider


class _Removed(Provider):
    """Stands in for a provider whose package was deleted, as on boards that have no room for it."""

    options = frozenset[str]()

    def __init__(self, name: str) -> None:
        self.name = name

    def available(self) -> bool:
        return False

    def supports(self, *question: Any) -> bool:
        return False

    def device(self, options: Mapping[str, str]) -> NoReturn:
        raise EPFail(f"the package {OURS[self.name]} was deleted; pip install --force-reinstall sardonyx")


def full_name(text: str) -> str:
    """The provider's name that a person means by a short one; a name that nobody knows stays as it is.

    >>> full_name("webgpu"), full_name("NumPy"), full_name("CPUExecutionProvider")
    ('WebGpuExecutionProvider', 'NumpyExecutionProvider', 'CPUExecutionProvider')
    """
    if text == CPU or text in OURS or text in ELSEWHERE:
        return text
    known = {name.removesuffix(SUFFIX).lower(): name for name in (*installed(), CPU)}
    known.update((title.lower(), name) for name, title in TITLES.items())
    return known.get(text.lower().removesuffix(SUFFIX.lower()), text)


def available() -> list[str]:
    """The names that a session accepts here, in the order in which it would try them."""
    names = [name for name in installed() if _works(name)]
    return [*(name for name in names if name not in (WASM, NUMPY)), CPU, *(n for n in names if n in (WASM, NUMPY))]


def _works(name: str) -> bool:
    """Whether a provider can be loaded and expects to work; a plug-in that cannot be loaded is warned of once."""
    try:
        return load(name).available()
    except (ImportError, EPFail) as error:
        debug.warn_once(f"{name} is installed, and cannot be loaded: {error}")
        return False


def resolve(
    names: Sequence[str | tuple[str, Mapping[str, Any]]] | None,
    options: Sequence[Mapping[str, Any]] | None = None,
    severity: int = -1,
    strict: bool = False,
) -> list[tuple[Provider, dict[str, str]]]:
    """The providers of a session with their options; `CPUExecutionProvider` is `FASTEST`, where that runs.

    NumPy always comes last, since there is nothing that it cannot run. Where nothing was asked for that there is, the
    CPU is taken. What is not here is warned of; a name that nobody knows raises InvalidValue if `strict`. Options
    without effect are warned of, as far as `severity` and `debug.warn_once` let them.
    """
    wanted: list[tuple[str, dict[str, str]]] = []
    for name, merged in _pairs(names or [CPU], options if names else None):
        try:
            here = is_here(name)
        except InvalidValue as error:
            if strict:
                raise InvalidValue(f"Unknown Provider Type: {name}; {error}") from None
            debug.warn(str(error))
            continue
        if not here:
            debug.warn(f"{name} is not available here ({_reason(name)}); there are {', '.join(available())}")
            continue
        wanted += [(each, merged) for each in (FASTEST if name == CPU else (name,))]
        _warn_of_unknown(name, merged, severity)
    wanted += [(each, {}) for each in FASTEST if not wanted]
    wanted.append((NUMPY, {}))
    chosen: dict[str, tuple[Provider, dict[str, str]]] = {}
    for name, given in wanted:
        if name not in chosen and load(name).available():
            known = _known(name, given)
            chosen[name] = (load(name), {key: value for key, value in given.items() if key in known})
    return list(chosen.values())


def asked(names: Any) -> list[str]:
    """The full names of the providers that were asked for."""
    return [name for name, _ in _pairs(names or [], None)]


def is_here(name: str) -> bool:
    """Whether a session can be had on it; InvalidValue where nobody knows the name."""
    return name == CPU or (name not in ELSEWHERE and load(name).available())


def _reason(name: str) -> str:
    """Why a provider is not available: one that is installed says so itself."""
    if name in ELSEWHERE:
        return "it is onnxruntime's own"
    try:
        load(name).device({})
    except Exception as error:  # a provider is foreign code, and its trouble is what is asked for
        return str(error).removeprefix(f"{name}: ")
    return "it says so itself"


def _pairs(names: Any, options: Any) -> list[tuple[str, dict[str, str]]]:
    """Full names with their options; InvalidArgument where they are given in a form that makes no sense."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidArgument(f"providers are a list: providers=[{names!r}]")
    if options is not None and len(options) != len(names):
        raise InvalidArgument(f"there are {len(names)} providers, and {len(options)} provider_options")
    found = []
    for item, more in zip(names, options or [{}] * len(names), strict=True):
        match item:
            case str(name):
                given: Mapping[Any, Any] = {}
            case (str(name), Mapping() as given):
                pass
            case _:
                raise InvalidArgument(f"a provider is a name, or a name with a dictionary of options, not {item!r}")
        found.append((full_name(name), {str(key): str(value) for key, value in {**given, **more}.items()}))
    return found


def _known(name: str, given: Mapping[str, str]) -> Collection[str]:
    """The options that a provider knows; all that are `given` where it takes any."""
    known = load(name).options
    return given.keys() if known is None else known


def _warn_of_unknown(name: str, given: Mapping[str, str], severity: int) -> None:
    """Say once which options have no effect."""
    known = {key for each in (FASTEST if name == CPU else (name,)) for key in _known(each, given)}
    for key in given.keys() - known:
        there = ", ".join(sorted(known)) or "none"
        debug.warn_once(f"{name}: the option {key!r} has no effect here; there are {there}", severity)


def everywhere() -> list[str]:
    """The names of all providers that onnxruntime or this package know, here or not, in onnxruntime's order: what
    packages bring comes first, and the CPU last."""
    return [*(name for name in installed() if name not in OURS), *RANKED, WASM, NUMPY, CPU]
