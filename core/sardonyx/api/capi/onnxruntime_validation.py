"""What onnxruntime checks when it is imported; there is nothing to check here."""

from __future__ import annotations

from sardonyx.api.capi.build_and_package_info import __version__, package_name


def check_distro_info() -> None:
    """Accepted for compatibility: every system that runs NumPy will do."""


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """The package's name, its release, and the version of CUDA, which is "": there is none."""
    return package_name, __version__, ""


def check_training_module() -> tuple[bool, str, str, str]:
    """False, since `onnxruntime.training.ortmodule` is not here, and what `get_package_name_and_version_info` says."""
    return False, *get_package_name_and_version_info()
