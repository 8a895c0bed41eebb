"""Values in files: arrays, JSON, pictures and sound, read as an input wants them, and written."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.cli.normalization import Normalization
from sardonyx.cli.writing import refuse_unwritable, writing
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.common.record import field, record
from sardonyx.demo.pictures import UnknownFormatError
from sardonyx.errors import InvalidArgument, NoSuchFile
from sardonyx.model.ir import MapType, OptionalType, SequenceType, TensorType, Value
from sardonyx.model.ir.types import DimLike, ValueType
from sardonyx.model.structure import type_name

ARCHIVES = (".npz", ".json")
"""Files that may hold several values, by their names."""
KINDS = (*ARCHIVES, ".npy", ".png", ".jpg", ".jpeg", ".wav")
"""What outputs can be written as."""
READ = (*ARCHIVES, ".npy", ".wav")
"""What inputs are read from by their suffix; anything else should be a picture."""
RATE = 16000
"""Samples a second of sound about which nothing is known."""


@record
class Reader:
    """Reads files; `notes` tell what a person should know of what was read, `rate` is that of the last sound.

    `expected` is the rate that the model's metadata names, 0 if none; pictures are normalized, and counted.
    """

    expected: int = 0
    normalization: Normalization | None = None
    notes: list[str] = field(default_factory=list)
    rate: int = 0
    pictures: int = 0

    def read(self, value: Value, path: Path, shape: Sequence[DimLike] | None = None) -> Any:
        """What a file holds for this input, in a shape if one is wanted; by its suffix, else it is a picture."""
        suffix = path.suffix.lower()
        if suffix in ARCHIVES:
            found = archive(path)
            if isinstance(found, dict) and (value.name in found or not isinstance(value.type, MapType)):
                if value.name not in found and len(found) != 1:
                    raise InvalidArgument(
                        f"{path} holds {', '.join(found) or 'nothing'}, none of which is {value.name!r}"
                    )
                found = found.get(value.name, next(iter(found.values())))
            return fit(value.name, value.type, found, str(path))
        if suffix == ".npy":
            return fit(value.name, value.type, _npy(path), str(path))
        dtype, shape = value.dtype or dtypes.float32, value.shape if shape is None else shape
        if not isinstance(value.type, TensorType) or shape is None:
            raise InvalidArgument(f"input {value.name!r} is a {value.type or '?'}; give a .json or .npy file")
        if suffix == ".wav":
            return self._sound(value.name, dtype, shape, path)
        from sardonyx.cli import pictures
        from sardonyx.demo.pictures import decode

        data = contents(path)
        try:
            pixels = decode(data)
        except UnknownFormatError as error:
            raise InvalidArgument(f"{path}: {error}" + (f", and none of {', '.join(READ)}" if data else "")) from error
        except (ValueError, OSError) as error:
            raise InvalidArgument(f"{path}: {error}") from error
        self.pictures += 1
        return pictures.as_input(pixels, value.name, dtype, shape, self.normalization)

    def _sound(self, name: str, dtype: DType, shape: Any, path: Path) -> np.ndarray:
        from sardonyx.cli import wav

        try:
            samples, self.rate = wav.decode(contents(path))
        except ValueError as error:
            raise InvalidArgument(f"{path}: {error}") from error
        if self.expected and self.rate != self.expected:
            self.notes.append(f"{path} has {self.rate:,} samples a second, and the model wants {self.expected:,}")
        return wav.as_input(samples, name, dtype, shape, self.notes)


def contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NoSuchFile(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise NoSuchFile(f"{path} is a folder; name a file in it") from error
    except OSError as error:
        raise NoSuchFile(f"{path} cannot be read: {error.strerror}") from error


def archive(path: Path) -> Any:
    """What a .npz file holds by name, or what a .json file holds."""
    data = contents(path)
    try:
        if path.suffix.lower() == ".json":
            return json.loads(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, AttributeError, TypeError, RecursionError, zipfile.BadZipFile) as error:
        raise InvalidArgument(f"{path} is no {path.suffix[1:].upper()} file: {error}") from error


def _npy(path: Path) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(contents(path)), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidArgument(f"{path} is no array that np.save wrote: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InvalidArgument(f"{path} holds several arrays; give one .npy file per input, or name it .npz")
    return array


def fit(name: str, kind: ValueType | None, given: Any, source: str) -> Any:
    """What a file held as a value of this type: numbers keep their value, or InvalidArgument says why they cannot."""
    if isinstance(kind, OptionalType):
        return None if given is None else fit(name, kind.element, given, source)
    if isinstance(kind, SequenceType) and isinstance(given, (list, np.ndarray)):
        return [fit(name, kind.element, item, source) for item in given]
    if isinstance(kind, MapType) and isinstance(given, Mapping):
        return {key if kind.key is dtypes.string else int(key): item for key, item in given.items()}
    if kind is not None and not isinstance(kind, TensorType):
        raise InvalidArgument(f"{source} holds a {type(given).__name__}, and input {name!r} wants a {type_name(kind)}")
    dtype = kind.dtype if kind is not None and kind.dtype else None
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise InvalidArgument(f"{source}: the rows of {name!r} differ in length") from error
    if dtype is dtypes.string and array.dtype.kind in "UO":
        return array.astype(object)
    if dtype is None or array.dtype.name == dtype.name:
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype.kind not in "biufc":
        raise InvalidArgument(f"{source} holds {_kind(array)}, and input {name!r} wants {dtype.name}")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of imaginary parts, which are compared below
        result = array.astype(dtype.storage)
    if not np.can_cast(array.dtype, dtype.storage, "same_kind") and not np.array_equal(result, array):
        raise InvalidArgument(f"{source} holds {_kind(array)}, and input {name!r} wants {dtype.name}")
    return result


def _kind(array: np.ndarray) -> str:
    return {"U": "text", "O": "values of several kinds"}.get(array.dtype.kind, array.dtype.name)


# ---- writing


def refuse(path: Path, count: int) -> None:
    """Raises InvalidArgument where so many outputs cannot be written there."""
    suffix = path.suffix.lower()
    if not suffix or path.is_dir():
        refuse_unwritable("--output", path, folder=True)
        return
    if suffix not in KINDS:
        raise InvalidArgument(f"--output {path}: give a folder, or a file that ends in {', '.join(KINDS)}")
    if count > 1 and suffix not in ARCHIVES:
        raise InvalidArgument(f"--output {path} takes one output, and there are {count}; give a folder, .npz or .json")
    refuse_unwritable("--output", path)


def write(path: Path, results: Mapping[str, Any], rate: int = 0) -> list[str]:
    """Write outputs into a file, by its suffix, or each into a file of the folder; the files' paths."""
    refuse(path, len(results))
    suffix = path.suffix.lower()
    if not suffix or path.is_dir():
        stems = zip(file_names(list(results)), results.items(), strict=True)
        return [
            name
            for stem, (key, item) in stems
            for name in write(path / f"{stem}{'.npy' if isinstance(item, np.ndarray) else '.json'}", {key: item})
        ]
    data = _encoded(suffix, results, rate)
    with writing("--output", path):
        path.write_bytes(data)
    return [str(path)]


def _encoded(suffix: str, results: Mapping[str, Any], rate: int) -> bytes:
    if suffix == ".json":
        return json.dumps({name: plain(item) for name, item in results.items()}).encode()
    odd = [name for name, item in results.items() if not isinstance(item, np.ndarray)]
    if odd:
        raise InvalidArgument(f"output {odd[0]!r} is no tensor; write a .json file")
    arrays = {name: item.astype(str) if item.dtype.kind == "O" else item for name, item in results.items()}
    stream = io.BytesIO()
    if suffix == ".npz":
        np.savez(stream, **arrays)
        return stream.getvalue()
    ((name, array),) = arrays.items()
    if suffix == ".npy":
        np.save(stream, array)
        return stream.getvalue()
    if suffix == ".wav":
        from sardonyx.cli import wav

        return wav.encode(wav.of_output(name, array), rate or RATE)
    from sardonyx.cli import pictures

    return pictures.encode(pictures.of_output(name, array), suffix)


def plain(item: Any) -> Any:
    """A value as JSON can say it."""
    if isinstance(item, np.ndarray):
        native = item.dtype.kind in "biufOU"
        return item.tolist() if native else item.astype(np.float64).tolist()
    if isinstance(item, dict):
        return {str(key): plain(each) for key, each in item.items()}
    return list(map(plain, item)) if isinstance(item, list) else item


def file_names(names: list[str]) -> list[str]:
    """File names for outputs: letters, digits, `_`, `-` and inner dots, all different even where case is not seen.

    >>> file_names(["y", "a/b:0", "../Y", ""])
    ['y', 'a_b_0', 'Y_2', 'output']
    """
    import re

    taken: set[str] = set()
    result = []
    for name in names:
        stem = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("._")[:100] or "output"
        unique, number = stem, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}_{number}"
        taken.add(unique.lower())
        result.append(unique)
    return result
