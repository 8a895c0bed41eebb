"""Standing in for onnxruntime and onnxruntime-genai: packages that import them run unchanged on this one.

    import sardonyx.compat

    sardonyx.compat.install()
    import rapidocr_onnxruntime  # imports onnxruntime, and finds Sardonyx

In Pyodide call it before `micropip.install`, which then takes both for installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

from sardonyx.version import GENAI, ONNXRUNTIME

OWN = {"onnxruntime": "sardonyx", "onnxruntime_genai": "sardonyx.genai"}
"""The modules that this package stands in for, and what has their names here."""
PACKAGES = {
    **{f"onnxruntime.{name}": f"sardonyx.api.{name}" for name in ("backend", "capi", "datasets")},
    "onnxruntime.quantization": "sardonyx.quantization",
    "onnxruntime.training": "sardonyx.training",
    "onnxruntime.transformers": "sardonyx.quantization.transformers",
    "onnxruntime_genai.onnxruntime_genai": "sardonyx.genai",
}
"""The packages inside them that this one has, and where."""


class _Metadata(Distribution):
    """What `importlib.metadata` tells of a package of this name."""

    def __init__(self, name: str, version: str) -> None:
        self._name, self._version = name, version

    def read_text(self, filename: str) -> str | None:
        """The text of METADATA; None for other files."""
        if filename != "METADATA":
            return None
        return (
            f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {self._version}\nSummary: Sardonyx stands in for it\n"
        )

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{self._name} is not installed; Sardonyx stands in for it")


class _Finder(MetaPathFinder, Loader):
    """Finds the modules of `OWN`, those in them where this package has one of that name, and their metadata."""

    def __init__(self, versions: Mapping[str, str]) -> None:
        self.versions = versions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in OWN:
            return ModuleSpec(fullname, self, is_package=True)
        own = _own(fullname)
        if own is None:
            return None
        found = importlib.util.find_spec(own)
        return found and ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return _Facade(spec.name, self.versions[spec.name]) if spec.name in OWN else None

    def exec_module(self, module: ModuleType) -> None:
        own = _own(module.__name__)
        if own is not None:
            sys.modules[module.__name__] = importlib.import_module(own)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        context = context or DistributionFinder.Context()
        for module, version in self.versions.items():
            if context.name is None or _distribution(context.name) == _distribution(module):
                yield _Metadata(_distribution(module), version)


def _distribution(name: str) -> str:
    """A name as package indexes have it.

    >>> _distribution("onnxruntime_genai")
    'onnxruntime-genai'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def _own(fullname: str) -> str | None:
    """The module of this package that stands for one of theirs."""
    package, _, rest = fullname.partition(".")
    first, _, inside = rest.partition(".")
    found = PACKAGES.get(f"{package}.{first}")
    if found is None:
        return None
    own = f"{found}.{inside}" if inside else found
    try:
        return own if importlib.util.find_spec(own) else None
    except ModuleNotFoundError:
        return None


class _Facade(ModuleType):
    """A module that is stood in for: this package's names, and the other's version."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name, f"Sardonyx, standing in for {name}.")
        self.__version__ = self.version = version
        self.__author__ = "Microsoft"
        self.__id__ = self.package_name = _distribution(name)
        self.cuda_version, self.import_capi_exception = "", None
        self.__path__: list[str] = []
        self.get_version_string = lambda: version

    def __getattr__(self, name: str) -> Any:
        module = self.__name__
        if name == "onnxruntime_validation":
            return importlib.import_module(f"{module}.capi.{name}")
        if _own(f"{module}.{name}"):
            return importlib.import_module(f"{module}.{name}")
        try:
            return getattr(importlib.import_module(OWN[module]), name)
        except AttributeError:
            raise AttributeError(
                f"module {module!r}, for which Sardonyx stands in, has no attribute {name!r}"
            ) from None

    def __dir__(self) -> list[str]:
        return sorted({*dir(importlib.import_module(OWN[self.__name__])), *super().__dir__()})


_installed: _Finder | None = None
_replaced: dict[str, ModuleType] = {}


def install(version: str = ONNXRUNTIME, genai: str = GENAI) -> None:
    """Let `import onnxruntime` and `import onnxruntime_genai` find this package, which says that it is these versions.

    Packages of those names that are installed, or were imported, are hidden until `uninstall`; who imported one keeps
    it. In Pyodide micropip is told that both are installed.
    """
    global _installed
    uninstall()
    versions = dict(zip(OWN, (version, genai)))
    _tell_micropip(versions)  # puts a finder of its own first
    _replaced.update(_take_modules())
    _installed = _Finder(versions)
    sys.meta_path.insert(0, _installed)
    importlib.import_module("onnxruntime")


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
    """Remove the modules that are stood in for from those that were imported."""
    names = [name for name in sys.modules if name.partition(".")[0] in OWN]
    return {name: sys.modules.pop(name) for name in names}


def _tell_micropip(versions: Mapping[str, str] | None) -> None:
    """Have micropip take the packages for installed in these versions, or not any more."""
    if sys.platform != "emscripten" or importlib.util.find_spec("micropip") is None:
        return
    import micropip

    for name in map(_distribution, OWN):
        if name in micropip.list_mock_packages():
            micropip.remove_mock_package(name)
    for module, version in (versions or {}).items():
        micropip.add_mock_package(_distribution(module), version, modules={})
