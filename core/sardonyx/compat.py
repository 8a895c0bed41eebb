"""Standing in for onnxruntime: packages that import it run unchanged on this one.

    import sardonyx.compat

    sardonyx.compat.install()
    import rapidocr_onnxruntime  # imports onnxruntime, and finds Sardonyx

In Pyodide call it before `micropip.install`, which then takes onnxruntime for installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

import sardonyx
from sardonyx.version import ONNXRUNTIME

NAME = "onnxruntime"


class _Metadata(Distribution):
    """What `importlib.metadata` tells of a package of this name."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """The text of METADATA; None for other files."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {self._version}\nSummary: Sardonyx stands in for it\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{NAME} is not installed; Sardonyx stands in for it")


class _Finder(MetaPathFinder, Loader):
    """Finds `onnxruntime`, its modules where this package has one of that name, and its metadata."""

    def __init__(self, version: str) -> None:
        self.version = version

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == NAME:
            return ModuleSpec(fullname, self, is_package=True)
        own = _own(fullname)
        if own is None:
            return None
        found = importlib.util.find_spec(own)
        return found and ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _Facade(spec.name, self.version) if spec.name == NAME else None

    def exec_module(self, module: ModuleType) -> None:
        own = _own(module.__name__)
        if own is not None:
            sys.modules[module.__name__] = importlib.import_module(own)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        context = context or DistributionFinder.Context()
        if context.name in (None, NAME):
            yield _Metadata(self.version)


def _own(fullname: str) -> str | None:
    """The module of this package that stands for one of onnxruntime's."""
    package, _, rest = fullname.partition(".")
    first, _, inside = rest.partition(".")
    if package != NAME or first not in PACKAGES:
        return None
    own = f"{PACKAGES[first]}.{inside}" if inside else PACKAGES[first]
    try:
        return own if importlib.util.find_spec(own) else None
    except ModuleNotFoundError:
        return None


PACKAGES = {name: f"sardonyx.api.{name}" for name in ("backend", "capi", "datasets")}
"""The packages inside onnxruntime that this one has, and where."""


class _Facade(ModuleType):
    """The module `onnxruntime`: this package's names, and onnxruntime's version."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, "Sardonyx, standing in for onnxruntime.")
        self.__version__ = self.version = version
        self.__author__ = "Microsoft"
        self.package_name, self.cuda_version, self.import_capi_exception = NAME, "", None
        self.__path__: list[str] = []
        self.get_version_string = lambda: version

    def __getattr__(self, name: str) -> Any:
        if name == "onnxruntime_validation":
            return importlib.import_module(f"{NAME}.capi.{name}")
        if name in PACKAGES and _own(f"{NAME}.{name}"):
            return importlib.import_module(f"{NAME}.{name}")
        try:
            return getattr(sardonyx, name)
        except AttributeError:
            raise AttributeError(f"module {NAME!r}, for which Sardonyx stands in, has no attribute {name!r}") from None

    def __dir__(self) -> list[str]:
        return sorted({*dir(sardonyx), *super().__dir__()})


_installed: _Finder | None = None
_replaced: dict[str, ModuleType] = {}


def install(version: str = ONNXRUNTIME) -> None:
    """Let `import onnxruntime` find this package, which says that it is that version of onnxruntime.

    A package of that name that is installed, or was imported, is hidden until `uninstall`; who imported it keeps it. In
    Pyodide micropip is told that onnxruntime is installed.
    """
    global _installed
    uninstall()
    _tell_micropip(version)  # puts a finder of its own first
    _replaced.update(_take_modules())
    _installed = _Finder(version)
    sys.meta_path.insert(0, _installed)
    importlib.import_module(NAME)


def uninstall() -> None:
    """Undo `install`; without it nothing happens."""
    global _installed
    if _installed is None:
        return
    sys.meta_path.remove(_installed)
    _installed = None
    _tell_micropip(None)
    _take_modules()
    sys.modules.update(_replaced)
    _replaced.clear()


def _take_modules() -> dict[str, ModuleType]:
    """Remove the modules of onnxruntime from those that were imported."""
    names = [name for name in sys.modules if name.partition(".")[0] == NAME]
    return {name: sys.modules.pop(name) for name in names}


def _tell_micropip(version: str | None) -> None:
    """Have micropip take onnxruntime for installed in this version, or not any more."""
    if sys.platform != "emscripten" or importlib.util.find_spec("micropip") is None:
        return
    import micropip

    if NAME in micropip.list_mock_packages():
        micropip.remove_mock_package(NAME)
    if version is not None:
        micropip.add_mock_package(NAME, version, modules={})
