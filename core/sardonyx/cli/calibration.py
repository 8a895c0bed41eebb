"""`--calibrate`: samples from a folder, a file of arrays, a reader in Python, or made up."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.api.session import InferenceSession
from sardonyx.cli.feeds import feeds, inputs_of, shapes_of, wanted
from sardonyx.cli.files import Reader, contents, fit
from sardonyx.cli.images import picture
from sardonyx.cli.normalization import Normalization
from sardonyx.demo import pictures
from sardonyx.errors import InvalidArgument, NoSuchFile, SardonyxError
from sardonyx.model.ir import Graph, Model, TensorType, Value
from sardonyx.model.ir.build import node
from sardonyx.model.serde.writer import write
from sardonyx.passes.picture import Picture, with_pictures
from sardonyx.passes.upgrade import NEWEST
from sardonyx.quantization.tuning.samples import Feeds, Samples, Spooled, scratch

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")
FILES = (*PICTURES, ".npy", ".npz", ".json", ".wav")
"""What a folder is searched for."""
MADE_UP = 16
"""Samples that are made up where there is no data."""


def samples_of(
    model: Model,
    where: str | None,
    *,
    most: int,
    shapes: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
    normalization: Normalization | None = None,
    seed: int = 0,
) -> Samples:
    """The samples that `--calibrate` names; InvalidArgument or NoSuchFile says what is wrong with it."""
    if most < 1:
        raise InvalidArgument(f"--samples {most}: take at least 1")
    if where is None:
        return MadeUp(model, shapes, seed, min(MADE_UP, most))
    path = Path(where)
    if path.is_dir():
        return Folder(model, path, shapes, [picture(text) for text in images or ()], normalization)
    if not path.exists() and ":" in where:
        return Spooled(_from_python(where), where, most)
    if path.suffix.lower() in (".npz", ".npy"):
        return Stacked(model, path, shapes)
    if not path.exists():
        raise NoSuchFile(f"--calibrate {where} does not exist")
    raise InvalidArgument(f"--calibrate {where}: give a folder, a .npz or .npy file, or MODULE:NAME of a reader")


class MadeUp(Samples):
    """Random values of the model's types and shapes."""

    source = "made up"
    synthetic = True

    def __init__(self, model: Model, shapes: Sequence[str] | None, seed: int, count: int) -> None:
        self._model, self._shapes, self._seed, self._count = model, shapes, seed, count

    def __len__(self) -> int:
        return self._count

    def label(self, number: int) -> str:
        return f"made-up sample {number + 1}"

    def read(self, number: int) -> Feeds:
        return feeds(self._model, None, self._shapes, self._seed + number).present

    @property
    def assumed(self) -> list[str]:
        """The dimensions that are taken as 1."""
        return feeds(self._model, None, self._shapes, self._seed).assumed


class Folder(Samples):
    """The files of a folder and of those in it, in the order of their names: each is a sample."""

    def __init__(
        self,
        model: Model,
        folder: Path,
        shapes: Sequence[str] | None,
        images: Sequence[Picture],
        normalization: Normalization | None,
    ) -> None:
        self.source = str(folder)
        self._inputs = inputs_of(model)
        self._shapes = shapes_of(shapes, self._inputs)
        self._reader = Reader(normalization=normalization)
        self._lenses = {image.name: _Lens(self._input(image), image) for image in images}
        self._folder = folder
        found = (path for path in folder.rglob("*") if path.suffix.lower() in FILES and path.is_file())
        self._files = sorted(path for path in found if not path.name.startswith("."))
        if not self._files:
            raise InvalidArgument(f"--calibrate {folder} has no pictures, .npy, .npz, .json or .wav files")

    def _input(self, image: Picture) -> Value:
        for value in self._inputs:
            if value.name == image.name:
                return value
        names = ", ".join(value.name for value in self._inputs)
        raise InvalidArgument(f"{image.option}: there is no input {image.name!r}; the model has {names}")

    def __len__(self) -> int:
        return len(self._files)

    def label(self, number: int) -> str:
        return str(self._files[number])

    def read(self, number: int) -> Feeds:
        path = self._files[number]
        if path.suffix.lower() == ".npz":
            return _arrays(path, self._inputs)
        value = self._target(path)
        if path.suffix.lower() in PICTURES and value.name in self._lenses:
            return {value.name: self._lenses[value.name](path)}
        return {value.name: self._reader.read(value, path, wanted(value, self._shapes))}

    def _target(self, path: Path) -> Value:
        """The input that a file with one value is for."""
        if len(self._inputs) == 1:
            return self._inputs[0]
        if path.suffix.lower() in PICTURES and len(self._lenses) == 1:
            name = next(iter(self._lenses))
            return next(value for value in self._inputs if value.name == name)
        names = ", ".join(value.name for value in self._inputs)
        raise InvalidArgument(f"{path}: the model has the inputs {names}; give .npz files with a value for each")


class _Lens:
    """A picture as `--image` of `sardonyx compile` makes an input of it, by the same nodes."""

    def __init__(self, value: Value, image: Picture) -> None:
        given, made = Value(value.name, value.type), Value(f"{value.name} as it is", value.type)
        identity = node("Identity", [given], [made.name])
        identity.outputs[0].type = value.type
        model = Model(Graph([given], [identity.outputs[0]], [identity], name="lens"), {"": NEWEST[""]})
        self._session = InferenceSession(write(with_pictures(model, [image])), providers=["CPUExecutionProvider"])
        self._image = image

    def __call__(self, path: Path) -> np.ndarray:
        pixels = _opaque(path)
        if self._image.channels == 4:
            pixels = np.concatenate([pixels, np.full((*pixels.shape[:2], 1), 255, np.uint8)], axis=2)
        found: np.ndarray = self._session.run(None, {self._image.name: pixels})[0]
        return found


def _opaque(path: Path) -> np.ndarray:
    """The pixels of a picture, [height, width, 3], what is transparent laid on white."""
    try:
        pixels = pictures.on_white(pictures.decode(contents(path)))
    except SardonyxError:
        raise
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"{path}: {error}") from error
    rounded = np.rint(pixels).astype(np.uint8)
    return rounded.repeat(3, axis=2) if rounded.shape[2] == 1 else rounded


class Stacked(Samples):
    """A file of arrays that hold one sample, or many along an axis of their own or along the first."""

    def __init__(self, model: Model, path: Path, shapes: Sequence[str] | None) -> None:
        self.source = str(path)
        self._inputs = inputs_of(model)
        self._arrays = dict(self._mapped(path))
        asked = shapes_of(shapes, self._inputs)
        self._known = {value.name: (value, wanted(value, asked)) for value in self._inputs}
        counts = {name: self._count(name, array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{count} of {name}" for name, count in counts.items())
            raise InvalidArgument(f"{path} has different numbers of samples: {told}")
        self._number = next(iter(counts.values()), 0)

    def _mapped(self, path: Path) -> Iterator[tuple[str, np.ndarray]]:
        """The arrays by input name, mapped from files rather than read."""
        try:
            if path.suffix.lower() == ".npy":
                if len(self._inputs) != 1:
                    names = ", ".join(value.name for value in self._inputs)
                    raise InvalidArgument(f"{path}: the model has the inputs {names}; give a .npz file")
                yield self._inputs[0].name, np.load(path, mmap_mode="r", allow_pickle=False)
                return
            folder = scratch(self)
            with zipfile.ZipFile(path) as archive:
                for number, entry in enumerate(archive.namelist()):
                    target = folder / f"{number}.npy"
                    with archive.open(entry) as source, open(target, "wb") as file:
                        while piece := source.read(1 << 20):
                            file.write(piece)
                    yield entry.removesuffix(".npy"), np.load(target, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError as error:
            raise NoSuchFile(f"--calibrate {path} does not exist") from error
        except InvalidArgument:
            raise
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidArgument(f"--calibrate {path} holds no arrays: {error}") from error

    def _count(self, name: str, array: np.ndarray) -> int:
        if self._own_axis(name, array):
            return len(array)
        rows = self._rows(name)
        return max(len(array) // rows, 1) if array.ndim and rows else 1

    def _rows(self, name: str) -> int:
        """How many rows of the first axis are a sample: as many as the model wants, one where it takes any number."""
        shape = self._known[name][1] if name in self._known else None
        return 0 if not shape else shape[0] if isinstance(shape[0], int) else 1

    def _own_axis(self, name: str, array: np.ndarray) -> bool:
        shape = self._known[name][1] if name in self._known else None
        return shape is not None and array.ndim == len(shape) + 1

    def __len__(self) -> int:
        return self._number

    def read(self, number: int) -> Feeds:
        result = {}
        for name, array in self._arrays.items():
            rows = self._rows(name)
            if self._own_axis(name, array):
                part = array[number]
            else:
                part = array[number * rows : (number + 1) * rows] if array.ndim and rows else array
            kind = self._known[name][0].type if name in self._known else None
            result[name] = fit(name, kind, np.array(part), self.source) if isinstance(kind, TensorType) else part
        return result


def _arrays(path: Path, inputs: Sequence[Value]) -> Feeds:
    """The values of a .npz file, each as its input wants it."""
    types = {value.name: value.type for value in inputs}
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: fit(name, types.get(name), file[name], str(path)) for name in file.files}
    except InvalidArgument:
        raise
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{path} is no .npz file: {error}") from error


def _from_python(where: str) -> Iterator[Feeds]:
    """What a reader gives: an object with `get_next`, or anything that is iterated, or what makes one of these."""
    module, _, name = where.rpartition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"--calibrate {where}: {error}") from error
    reader: Any = found
    if isinstance(reader, type) or (callable(reader) and not hasattr(reader, "get_next")):
        reader = reader()
    if not hasattr(reader, "get_next") and not isinstance(reader, Iterable):
        kind = type(reader).__name__
        raise InvalidArgument(f"--calibrate {where}: a {kind} gives no samples: give it get_next, or have it iterated")
    given = iter(reader.get_next, None) if hasattr(reader, "get_next") else iter(reader)
    for number, each in enumerate(given):
        if not isinstance(each, Mapping):
            kind = type(each).__name__
            raise InvalidArgument(f"--calibrate {where}: sample {number + 1} is a {kind}, not arrays by input name")
        yield each
