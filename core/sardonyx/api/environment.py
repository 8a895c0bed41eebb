"""What onnxruntime's module-level functions say and set for a whole process."""

from __future__ import annotations

import platform
from typing import NoReturn

from sardonyx.common import debug, threads
from sardonyx.errors import NotImplemented
from sardonyx.providers import registry
from sardonyx.version import __version__


def get_device() -> str:
    """`CPU`, or `CPU-WEBGPU` where a GPU can be asked for by name."""
    return "CPU-WEBGPU" if registry.WEBGPU in registry.available() else "CPU"


def get_all_providers() -> list[str]:
    """The names of all providers that onnxruntime or this package know; sessions go on without those not here."""
    return registry.everywhere()


def get_version_string() -> str:
    """The version of this package."""
    return __version__


def get_build_info() -> str:
    """The version of this package, and what it runs on."""
    machine = platform.machine() or "unknown machine"
    return f"Sardonyx Build Info: version {__version__}, Python {platform.python_version()}, {machine}"


def has_collective_ops() -> bool:
    """False: a model runs in one process."""
    return False


def set_default_logger_severity(severity: int) -> None:
    """0 prints what compiling took, 1 where nodes are placed, 2 warns of options without effect, 3 and 4 do not."""
    if severity not in range(5):
        raise ValueError(f"a severity is one of 0 (verbose), 1, 2, 3 and 4 (fatal), not {severity}")
    debug.severity = int(severity)


def set_default_logger_verbosity(level: int) -> None:
    """Accepted for compatibility: `SARDONYX_DEBUG` asks for more."""


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """How many threads sessions share whose options have `use_per_session_threads` off; 0 is for all cores."""
    threads.shared = int(intra_op_num_threads)


def preload_dlls(cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None) -> None:
    """Accepted for compatibility: there are no libraries to load."""


def enable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""


def disable_telemetry_events() -> None:
    """Accepted for compatibility: there is no telemetry."""


def print_debug_info() -> None:
    """Print what runs here."""
    print(get_build_info())
    print("providers:", ", ".join(registry.available()))


def register_execution_provider_library(registration_name: str, library_path: str) -> NoReturn:
    """Raises NotImplemented: providers are Python packages."""
    raise NotImplemented(
        f"{library_path}: native providers do not load here; a package brings one by the entry point group "
        f"'{registry.GROUP}'"
    )


def unregister_execution_provider_library(registration_name: str) -> NoReturn:
    """Raises NotImplemented: providers are Python packages."""
    raise NotImplemented(f"{registration_name}: no native provider is registered; uninstall the package that brings it")
