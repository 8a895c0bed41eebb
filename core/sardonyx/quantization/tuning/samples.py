"""Samples of what a model is given: numbered, read when they are asked for, and split into two parts."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, TensorType
from sardonyx.quantization.calibrate import CalibrationDataReader

Feeds = Mapping[str, Any]
HELD = 4
"""One sample of so many is held out."""
MOST = 128
"""Samples that are taken, if nothing else is said."""


def scratch(owner: object) -> Path:
    """A folder that is removed with its owner."""
    folder = Path(tempfile.mkdtemp(prefix="sardonyx-samples-"))
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


class Samples(Sequence[Feeds]):
    """Feeds by number; a subclass says how each is read, what it is called, and `source`, where all are from."""

    source = "samples"
    synthetic = False

    def label(self, number: int) -> str:
        """What a person calls a sample."""
        return f"sample {number + 1} of {self.source}"

    def read(self, number: int) -> Feeds:
        """The feeds of a sample, anew whenever it is asked for."""
        raise NotImplementedError

    @overload
    def __getitem__(self, number: int) -> Feeds: ...
    @overload
    def __getitem__(self, number: slice) -> list[Feeds]: ...
    def __getitem__(self, number: int | slice) -> Feeds | list[Feeds]:
        if isinstance(number, slice):
            return [self.read(each) for each in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return self.read(number % len(self))


class Listed(Samples):
    """Feeds that are in memory, or in any other sequence."""

    def __init__(self, feeds: Sequence[Feeds], source: str = "samples") -> None:
        self._feeds = feeds
        self.source = source

    def __len__(self) -> int:
        return len(self._feeds)

    def read(self, number: int) -> Feeds:
        return self._feeds[number]


class Spooled(Samples):
    """Feeds that come once, one after the other: each is kept in a file until the object is dropped."""

    def __init__(self, feeds: Iterable[Feeds], source: str, most: int = MOST) -> None:
        self._folder = scratch(self)
        self.source = source
        self._count = 0
        for each in feeds:
            np.savez(self._path(self._count), allow_pickle=False, **{name: np.asarray(v) for name, v in each.items()})
            self._count += 1
            if self._count == most:
                break

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.npz"

    def __len__(self) -> int:
        return self._count

    def read(self, number: int) -> Feeds:
        with np.load(self._path(number)) as arrays:
            return dict(arrays)


class Part(Samples):
    """Some of other samples."""

    def __init__(self, whole: Samples, numbers: Sequence[int]) -> None:
        self._whole = whole
        self._numbers = list(numbers)
        self.source = whole.source
        self.synthetic = whole.synthetic

    def __len__(self) -> int:
        return len(self._numbers)

    def label(self, number: int) -> str:
        return self._whole.label(self._numbers[number])

    def read(self, number: int) -> Feeds:
        return self._whole[self._numbers[number]]


@record(frozen=True)
class Split:
    """Samples that ranges are learnt from, and those that are held out to measure by; the same where there is one."""

    calibration: Samples
    held_out: Samples

    @property
    def shared(self) -> bool:
        """Whether what is measured by was learnt from."""
        return self.calibration is self.held_out


def split(samples: Samples, most: int = MOST) -> Split:
    """Every fourth sample is held out, at least one; of more than `most` some are taken, evenly.

    >>> parts = split(Listed([{"x": k} for k in range(10)]))
    >>> len(parts.calibration), [feeds["x"] for feeds in parts.held_out]
    (8, [3, 7])
    """
    count = len(samples)
    if not count:
        raise InvalidArgument(f"{samples.source} has no samples; give at least one, better 32 and more")
    taken = [number * count // most for number in range(most)] if count > most else list(range(count))
    if len(taken) == 1:
        only = Part(samples, taken)
        return Split(only, only)
    held = taken[HELD - 1 :: HELD] or taken[-1:]
    return Split(Part(samples, [number for number in taken if number not in set(held)]), Part(samples, held))


class Reader(CalibrationDataReader):
    """Samples as onnxruntime's CalibrationDataReader: `get_next` gives one after the other, then None."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._next = 0

    def __len__(self) -> int:
        return len(self._samples)

    def get_next(self) -> dict[str, Any] | None:
        if self._next == len(self._samples):
            return None
        self._next += 1
        return dict(self._samples[self._next - 1])

    def rewind(self) -> None:
        self._next = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.get_next, None)


def check(samples: Samples, model: Model) -> None:
    """Raises InvalidArgument where a sample does not fit the model's inputs, naming both, and the remedy."""
    inputs = {value.name: value for value in model.graph.inputs if value not in set(model.graph.initializers)}
    for number in range(len(samples)):
        feeds, label = samples[number], samples.label(number)
        there = f"the model takes {', '.join(inputs)}"
        if missing := [name for name in inputs if name not in feeds]:
            raise InvalidArgument(f"{label} has no {missing[0]!r}, only {', '.join(feeds) or 'nothing'}; {there}")
        if unknown := [name for name in feeds if name not in inputs]:
            raise InvalidArgument(f"{label} has {unknown[0]!r}, which is no input; {there}")
        for name, value in inputs.items():
            if isinstance(value.type, TensorType):
                _check_tensor(label, name, value.type, np.asarray(feeds[name]))


def _check_tensor(label: str, name: str, kind: TensorType, array: np.ndarray) -> None:
    if kind.dtype is not None and array.dtype.kind not in "OU" and array.dtype != kind.dtype.storage:
        raise InvalidArgument(f"{label}: {name!r} is {array.dtype}, and the model wants {kind.dtype.name}")
    if kind.shape is None:
        return
    wrong = len(kind.shape) != array.ndim or any(
        isinstance(size, int) and size != own for size, own in zip(kind.shape, array.shape)
    )
    if wrong:
        declared = "x".join("?" if size is None else str(size) for size in kind.shape) or "a scalar"
        found = "x".join(map(str, array.shape)) or "a scalar"
        raise InvalidArgument(f"{label}: {name!r} is {found}, and the model declares {declared}")
