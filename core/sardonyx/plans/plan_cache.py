"""Plans of earlier sessions: a model that was compiled here before is neither read, nor optimized, nor compiled again.

An entry of the cache (`sardonyx.common.cache`) holds what a session tells of its model and the plans made for it.
Constants that lie in the model's files are named by file and offset; those that were computed while optimizing follow
in the entry. Its key is all that plans depend on: the model (a path with what the system says of the file, or a digest
of the bytes), options, providers, and the sources of this package.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Any, NoReturn, Protocol

import numpy as np

from sardonyx.common import cache, debug, dtypes, mapped, memory, sources
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.record import fields, record
from sardonyx.common.strings import StringTable
from sardonyx.model.ir import (
    Graph,
    MapType,
    Model,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    Value,
    ValueType,
)
from sardonyx.model.metadata import ModelMetadata
from sardonyx.model.serde.source import BytesLike, DataFiles, open_file
from sardonyx.passes.changes import ModelChanges
from sardonyx.passes.journal import is_limited
from sardonyx.passes.levels import GraphOptimizationLevel
from sardonyx.plans.plan import VERSION, Plan
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers.contract import Provider

LARGEST = cache.ROOM // 4
"""Bytes of constants beyond which computing them again is better than keeping them."""
SETTLED = 2.0
"""Seconds after which a file that is written again has another time, on any file system."""
_ALIGN = 64
_HEAD = 8
_ROW = 1 << 13


class StalePlanError(Exception):
    """A plan that was read is not for these sizes inside its control flow; others have to be compiled."""


# ---- models


class Source:
    """A model, given by its path or as bytes, and the files that its data lie in."""

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview,
        changes: ModelChanges | None = None,
    ) -> None:
        changes = changes or ModelChanges()
        self._model = model
        self._data = memoryview(model).cast("B") if isinstance(model, (bytes, bytearray, memoryview)) else None
        self._path = None if isinstance(model, (bytes, bytearray, memoryview)) else model
        self._files = DataFiles(self._path or changes.folder or None, changes.files, changes.initializers)
        self._changed = bool(changes.files or changes.initializers or changes.folder)
        self.files: dict[str, list[int]] | None = None
        """The files that were read, by location, "" being the model's own, as they were; None if one is in flux, or
        the session gives other data."""

    def held(self) -> BytesLike | None:
        """The model's own file, read once for all: where the disk is memory, a host may fetch a file each time it is
        opened, as JupyterLite does. None elsewhere, and where there is no such file."""
        if sources.IN_MEMORY and self._path is not None and os.path.isfile(self._path):
            self._files.model = open_file(self._path)
        return self._files.model

    def read(self) -> Model:
        from sardonyx.model.serde.reader import read  # which nobody needs who finds plans

        model = read(self._model, files=self._files)
        self.files = None if self._changed else self._settled()
        return model

    def key(self) -> Any:
        """Strings and numbers in lists that are equal for equal models alone."""
        if self._path is not None:
            return [os.path.realpath(self._path), _stat(self._path)]
        assert self._data is not None
        return [len(self._data), (_summary if sources.IN_MEMORY else _digest)(self._data)]

    def _settled(self) -> dict[str, list[int]] | None:
        """What the system says of the files; None where a change might not show."""
        paths = {location: self._files.find(location) for location in self._files.opened}
        if self._path is not None:
            paths[""] = os.fspath(self._path)
        try:
            stats = {location: _stat(path) for location, path in paths.items()}
        except OSError:  # gone
            return None
        settled = time.time_ns() - int(SETTLED * 1e9)
        return stats if all(changed < settled for *_, changed in stats.values()) else None

    def open(self, files: Mapping[str, list[int]]) -> None:
        """Open these files, which must be as they were; ValueError if they are not."""
        for location, stat in files.items():
            path = self._files.find(location) if location else self._path
            if path is None:
                raise ValueError("this model has no files")
            data = open_file(path)
            if _stat(path) != stat:
                raise ValueError(f"{path} has changed")
            if location:
                self._files.opened[location] = data
            else:
                self._files.model = data
        self.files = dict(files)
        if self._path is None:
            self._files.model = self._data

    def _buffers(self) -> dict[str, BytesLike]:
        own = {} if self._files.model is None else {"": self._files.model}
        return own | self._files.opened

    def check(self) -> None:
        """Raises Fail where one of the files was written anew since it was opened."""
        mapped.check(self._buffers().values())

    def is_changed(self) -> bool:
        """Whether one was."""
        return mapped.changed(self._buffers().values()) != ""

    def forget(self) -> None:
        """Let the system drop the pages of the files; they come back when read."""
        for buffer in self._buffers().values():
            memory.forget(np.frombuffer(buffer, np.uint8))

    def buffer(self, location: str) -> BytesLike:
        """The bytes of an open file."""
        return self._buffers()[location]

    def locate(self, array: np.ndarray) -> tuple[str, int] | None:
        """The file, and the offset there, of which an array is a view."""
        if not array.size or not array.flags.c_contiguous:
            return None
        start = _address(array)
        for location, buffer in self._buffers().items():
            offset = start - _address(np.frombuffer(buffer, np.uint8))
            if 0 <= offset <= len(buffer) - array.nbytes:
                return location, offset
        return None

    def identify(self, array: np.ndarray) -> Hashable:
        """Equal for arrays with equal elements: where they lie in the model's files, or else a digest."""
        return *self.content(array), array.shape

    def content(self, array: np.ndarray) -> tuple[Hashable, ...]:
        """Equal for arrays with equal elements in whatever shapes."""
        return self.locate(array) or _digest(_bytes(array)), array.dtype.str, array.size


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _knows_strangers() -> bool:
    """Whether operators of other distributions are registered; nobody has done so where none were imported."""
    operators = sys.modules.get("sardonyx.ops")
    return operators is not None and operators.foreign()


def _digest(data: memoryview) -> str:
    return fingerprint(data).hexdigest()


def _summary(data: memoryview) -> str:
    """A digest of sums along rows and columns: for where SHA-256 and BLAKE2 take as long as a compilation."""
    whole = len(data) // _ROW * _ROW
    words = np.frombuffer(data[:whole], np.uint64).reshape(-1, _ROW // 8)
    sums = (words.sum(0, dtype=np.uint64), words.sum(1, dtype=np.uint64))
    ends = (data[:_ROW], data[whole:])
    return _digest(memoryview(b"".join((*map(bytes, sums), *ends))))


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _stat(path: str | os.PathLike[str]) -> list[int]:
    """What changes when a file is written or replaced; the time of its last change comes last."""
    stat = os.stat(path)
    return [stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime_ns, stat.st_mtime_ns]


class PlanOptions(Protocol):
    """The session options that plans depend on."""

    enable_profiling: bool
    graph_optimization_level: GraphOptimizationLevel
    memory_limit: int
    optimized_model_filepath: str

    @property
    def changes(self) -> ModelChanges: ...

    def entries(self) -> dict[str, str]:
        """All that was set by keys."""
        ...


@record(frozen=True)
class Key:
    """All that a session's plans depend on but sources, and the packages whose sources these are."""

    data: bytes
    packages: tuple[str, ...]


def key(
    source: Source,
    options: PlanOptions,
    chosen: Sequence[tuple[Provider, Mapping[str, str]]],
    disabled: Sequence[str],
) -> Key | None:
    """The key of a session's entry; None if its plans are not to be stored."""
    changes = options.changes.key()
    if cache.directory() is None or _knows_strangers() or is_limited() or changes is None:
        return None
    if options.enable_profiling or options.optimized_model_filepath or debug.level() >= debug.REWRITES:
        return None
    found = {"sardonyx", *(type(provider).__module__.partition(".")[0] for provider, _ in chosen)}
    packages = tuple(sorted(found))
    try:
        prints = [provider.fingerprint() for provider, _ in chosen]
        if None in prints:
            return None
        data = repr(
            [
                ["plans", VERSION, sources.installation(packages), np.__version__],
                source.key(),
                [
                    int(options.graph_optimization_level),
                    options.memory_limit,
                    sorted(options.entries().items()),
                    sorted(disabled),
                    changes,
                ],
                [[provider.name, sorted(provider_options.items())] for provider, provider_options in chosen],
                prints,
            ]
        )
        return Key(data.encode(), packages)
    except OSError:  # reading the model will say it better
        return None


# ---- entries


@record(frozen=True)
class Facts:
    """Inputs, outputs and metadata of a session's model. Of the Values only names and types are stored."""

    inputs: list[Value]
    outputs: list[Value]
    overridable: list[Value]
    metadata: ModelMetadata

    @classmethod
    def of(cls, model: Model, graph: Graph, inputs: Sequence[Value]) -> Facts:
        """The facts of a model, whose graph became this one; it is fed by these inputs."""
        initialized = set(graph.initializers)
        own = model.graph
        metadata = ModelMetadata(
            model.producer_name, own.name, model.domain, model.doc, own.doc, model.model_version, dict(model.metadata)
        )
        overridable = [value for value in graph.inputs if value in initialized]
        return cls(list(inputs), list(own.outputs), overridable, metadata)

    def data(self) -> list[Any]:
        """The facts as strings, numbers, lists and None."""
        values = (self.inputs, self.outputs, self.overridable)
        metadata = [getattr(self.metadata, each.name) for each in fields(self.metadata)]
        return [*([[v.name, _type_data(v.type)] for v in each] for each in values), metadata]

    @classmethod
    def from_data(cls, data: list[Any]) -> Facts:
        *values, metadata = data
        inputs, outputs, overridable = ([Value(name, _type_of(kind)) for name, kind in each] for each in values)
        return cls(inputs, outputs, overridable, ModelMetadata(*metadata))


def _type_data(kind: ValueType | None) -> Any:
    match kind:
        case None:
            return None
        case TensorType() | SparseTensorType():
            shape = None if kind.shape is None else list(kind.shape)
            return [type(kind).__name__, kind.dtype and kind.dtype.name, shape]
        case SequenceType() | OptionalType():
            return [type(kind).__name__, _type_data(kind.element)]
        case MapType():
            return [type(kind).__name__, kind.key.name, _type_data(kind.value)]
        case OpaqueType():
            return [type(kind).__name__, kind.domain, kind.name]


def _type_of(data: Any) -> ValueType | None:
    match data:
        case ["TensorType" | "SparseTensorType" as name, dtype, shape]:
            kind = TensorType if name == "TensorType" else SparseTensorType
            return kind(dtype and dtypes.by_name(dtype), None if shape is None else tuple(shape))
        case ["SequenceType", element]:
            return SequenceType(_type_of(element))
        case ["OptionalType", element]:
            return OptionalType(_type_of(element))
        case ["MapType", dtype, value]:
            return MapType(dtypes.by_name(dtype), _type_of(value))
        case ["OpaqueType", domain, name]:
            return OpaqueType(domain, name)
    return None


@record(frozen=True)
class Remembered:
    """The contents of an entry; the plan that was made last comes first."""

    facts: Facts
    plans: list[Plan]
    names: WeightTable
    is_covered: bool = True
    """Whether there are plans for sizes that were not met."""


def recall(key: Key | None, source: Source) -> Remembered | None:
    """The entry that earlier sessions stored under this key; None if there is none that can be used."""
    stored = cache.recall(key.data) if key else None
    if key is None or stored is None:
        return None
    try:
        return _decode(stored, source)
    except Exception:  # whatever is wrong with it, compiling anew is right
        cache.forget(key.data)
        return None


def _decode(stored: memoryview, source: Source) -> Remembered:
    from sardonyx.plans.soundness import check  # which nobody needs who finds no plans

    length = int.from_bytes(stored[:_HEAD], "little")
    data = pickle.loads(stored[_HEAD : _HEAD + length])
    source.open(data["files"])
    computed = stored[_start(length) :]
    arrays = {}
    for name, (location, offset, dtype, shape) in data["arrays"].items():
        buffer = computed if location is None else source.buffer(location)
        arrays[name] = np.frombuffer(buffer, dtype, prod(shape), offset).reshape(shape)
        arrays[name].flags.writeable = False
    strings = StringTable(data["strings"])
    plans = [Plan.of(each, strings.texts, lambda name, _: arrays[name]) for each in data["plans"]]
    for plan in plans:
        check(plan)
        _close(plan)
    names = WeightTable(strings, arrays, source.identify)
    return Remembered(Facts.from_data(data["facts"]), plans, names, data["is_covered"])


def _close(plan: Plan) -> None:
    """Make the functions of a plan raise StalePlanError where one would have to be compiled."""
    plan.compilers = [_stale] * len(plan.functions)
    for function in plan.functions:
        for inner in function:
            _close(inner)


def _stale(hints: Mapping[str, int]) -> NoReturn:
    raise StalePlanError


def remember(key: Key | None, source: Source, facts: Facts, plans: Sequence[Plan], is_covered: bool = False) -> None:
    """Keep plans for later sessions, unless the model's files are in flux, or the constants too large."""
    if key is None or source.files is None:
        return
    arrays: dict[str, Any] = {}
    blocks: list[bytes | memoryview] = []
    size = 0
    for name, array in _constants(plans).items():
        location, offset = source.locate(array) or (None, size)
        arrays[name] = [location, offset, array.dtype.str, array.shape]
        if location is None:
            blocks += (_bytes(array), bytes(-array.nbytes % _ALIGN))
            size += array.nbytes + -array.nbytes % _ALIGN
    if size > LARGEST:
        return
    try:
        told = _plain(
            {
                "files": source.files,
                "facts": facts.data(),
                "arrays": arrays,
                "plans": [plan.data(lambda array: None) for plan in plans],
                "strings": list(plans[0].strings),
                "is_covered": is_covered,
            }
        )
    except TypeError:  # what only this process can hold
        return
    head = len(told).to_bytes(_HEAD, "little") + told
    cache.keep(key.data, key.packages, head, bytes(_start(len(told)) - len(head)), *blocks)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: object) -> Any:
        """Return how to make a number or text of a type that is not Python's own."""
        for kind in (int, float, str):
            if obj is kind:
                return NotImplemented
            if isinstance(obj, kind):
                return kind, (kind(obj),)
        raise TypeError(f"{type(obj).__name__} cannot be kept")


def _plain(data: Any) -> bytes:
    """Lists, dictionaries, numbers and texts as bytes; TypeError where there is something else in them."""
    file = io.BytesIO()
    _Pickler(file).dump(data)
    return file.getvalue()


def _start(length: int) -> int:
    """Where the constants begin, behind so many bytes that tell of them."""
    return -(-(_HEAD + length) // _ALIGN) * _ALIGN


def _constants(plans: Sequence[Plan]) -> dict[str, np.ndarray]:
    """The constants of plans and of those inside them."""
    constants: dict[str, np.ndarray] = {}
    for plan in plans:
        constants |= plan.weights
        for function in plan.functions:
            constants |= _constants(function)
    return constants
