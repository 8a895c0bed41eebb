"""What lean archives leave out of Python, fetched when it is imported after all."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

Fetch = Callable[[str], bytes]


class Rest(MetaPathFinder):
    """Finds modules that were left out in other archives, each of which is fetched once, and laid over the lean one.

    `absent` has the modules by archive; those of packages go to `packages`, the standard library to `stdlib`, a file.
    """

    def __init__(self, absent: Mapping[str, Sequence[str]], fetch: Fetch, packages: Path, stdlib: Path) -> None:
        self.archives = {module: name for name, modules in absent.items() for module in modules}
        self.fetch, self.packages, self.stdlib = fetch, packages, stdlib

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        name = self.archives.get(fullname)
        if name is None:
            return None
        self.archives = {module: archive for module, archive in self.archives.items() if archive != name}
        data = self.fetch(name)
        is_lean = name.endswith(".packed")
        if is_lean or name.endswith(".whl"):
            data = gzip.decompress(data) if is_lean else data
            with ZipFile(io.BytesIO(data)) as archive:
                new = [each for each in archive.namelist() if not (self.packages / each).exists()]
                archive.extractall(self.packages, new)
        else:
            self.stdlib.write_bytes(data)
        importlib.invalidate_caches()
        return PathFinder.find_spec(fullname, path)


def install(addresses: Any) -> None:
    """Let Pyodide find what it lacks in the archives at these addresses; `addresses` is a list of JavaScript's."""
    from js import Uint8Array, XMLHttpRequest

    places = {address.rpartition("/")[2]: address for address in addresses.to_py()}

    def fetch(name: str) -> bytes:
        request = XMLHttpRequest.new()
        request.open("GET", places[name], False)  # an import cannot wait, and a worker may stand still
        request.responseType = "arraybuffer"
        request.send()
        if request.status != 200:
            raise ImportError(f"{places[name]}: the server answers {request.status}")
        return bytes(Uint8Array.new(request.response).to_bytes())

    file = Path(__file__)
    stdlib = next(Path(each) for each in sys.path if each.endswith(".zip"))
    sys.meta_path.append(Rest(json.loads(file.with_suffix(".json").read_text("utf-8")), fetch, file.parents[2], stdlib))
