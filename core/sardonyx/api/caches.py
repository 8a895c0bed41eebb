"""Caches of a decoder: keys and values that stay on the device, and grow by what each run joins to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx.api.options import NodeArg
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.outputs import Target
from sardonyx.api.runner import Runner
from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.errors import InvalidArgument
from sardonyx.model.structure import Cached
from sardonyx.providers.contract import Address, Device
from sardonyx.runtime.handles import Handle

FEW = 64
"""The room that caches begin with, and of which it is always a multiple: codes may know that."""


class Cache:
    """A tensor of a growing size along `axis`, which `output` adds to; it lies on a device, with room behind it. Rows
    of a batch are along the axis `batch`."""

    def __init__(
        self, device: Device, output: str, element: DType, shape: Sequence[int], axis: int, batch: int
    ) -> None:
        self.output = output
        self.element = element
        self.axis = axis
        self.batch = batch
        self._device = device
        self._shape = list(shape)
        self._chunk: Any = None
        self.room = 0

    @property
    def nbytes(self) -> int:
        return prod(self._with(self.room)) * self.element.itemsize

    def fed(self, length: int) -> Cached[Handle]:
        """What a run is fed: the first elements, behind which it stores others."""
        handle = Handle(0, self._address, self.element, (*self._with(length), self.room))
        return Cached(self.output, self.axis, handle)

    def array(self, length: int) -> np.ndarray:
        """The first elements along the axis."""
        whole = self._device.download(self._address, self.element.storage, self._with(self.room))
        return whole[(slice(None),) * self.axis + (slice(length),)]

    def put(self, array: np.ndarray, room: int) -> None:
        """Have the elements of an array, and room for so many along the axis."""
        shape = list(array.shape)
        shape[self.axis] = room
        whole = np.zeros(shape, self.element.storage)
        whole[(slice(None),) * self.axis + (slice(array.shape[self.axis]),)] = array
        self._shape, self.room = shape, room
        self.free()
        self._chunk = self._device.allocate(-(-whole.nbytes // 4) * 4)
        self._device.upload(self._address, whole)

    def free(self) -> None:
        """Give the memory back."""
        if self._chunk is not None:
            self._device.free(self._chunk)
            self._chunk = None

    def empty(self) -> np.ndarray:
        """No elements."""
        return np.zeros(self._with(0), self.element.storage)

    @property
    def _address(self) -> Address:
        return Address(self._chunk, 0, -(-self.nbytes // 4) * 4)

    def _with(self, length: int) -> tuple[int, ...]:
        return (*self._shape[: self.axis], length, *self._shape[self.axis + 1 :])


class Caches:
    """What a decoder has of the tokens so far, `length` of them, in a batch; made by `InferenceSession.caches`.

    Runs read it where it lies, and store behind it what is new: nothing is copied but when room runs out. Then there is
    twice as much, or room for `most` tokens, whatever is less. Fewer tokens are a smaller `length`.
    """

    most: int = 1 << 31
    """How many tokens there will be at most, as far as that is known."""

    def __init__(
        self,
        runner: Runner,
        inputs: Sequence[NodeArg],
        outputs: Sequence[NodeArg],
        pairs: Mapping[str, str],
        batch: int,
        empty: Mapping[str, Sequence[int]],
    ) -> None:
        runner.providers.open()
        device = runner.providers.devices[0]
        self._runner = runner
        self.rows = batch
        self._caches = {
            past: _cache(device, inputs, outputs, past, output, batch, empty.get(past))
            for past, output in pairs.items()
        }
        self.length = 0
        self.reserve(FEW)

    @property
    def nbytes(self) -> int:
        """The bytes on the device, the room among them."""
        return sum(cache.nbytes for cache in self._caches.values())

    @property
    def room(self) -> int:
        """How many tokens there is room for."""
        return min((cache.room for cache in self._caches.values()), default=0)

    def reserve(self, room: int) -> None:
        """Have room for so many tokens."""
        room = -(-room // FEW) * FEW
        if room > self.room:
            for cache in self._caches.values():
                cache.put(cache.array(self.length) if self.length else cache.empty(), room)

    def run(self, output_names: Sequence[str], feeds: Mapping[str, Any], count: int) -> list[Any]:
        """The outputs of these names for what is fed beside the caches, which are longer by `count` tokens then."""
        if self.length + count > self.room:
            self.reserve(max(self.length + count, min(2 * self.room, self.most)))
        given: dict[str, Any] = {name: OrtValue.ortvalue_from_numpy(np.asarray(value)) for name, value in feeds.items()}
        given |= {name: cache.fed(self.length) for name, cache in self._caches.items()}
        found = self._runner.run_bound(given, {name: Target(None) for name in output_names})
        self.length += count
        return [found[name].numpy() for name in output_names]

    def rewind(self, length: int) -> None:
        """Have the first tokens alone."""
        if not 0 <= length <= self.length:
            raise InvalidArgument(f"there are {self.length} tokens; {length} are not the first of them")
        self.length = length

    def select(self, rows: Sequence[int]) -> None:
        """Have these rows of the batch, each as often as it is named."""
        for cache in self._caches.values():
            cache.put(cache.array(self.length).take(rows, axis=cache.batch), cache.room)
        self.rows = len(rows)

    def turn(self, places: Sequence[int]) -> None:
        """Have the tokens of each row so many places further, and the last ones first: GroupQueryAttention in a batch
        takes the last ones of a row for its own, and leaves those before them alone."""
        for cache in self._caches.values():
            cache.put(turned(cache.array(self.length), places, cache.batch, cache.axis), cache.room)

    def arrays(self) -> dict[str, np.ndarray]:
        """What there is, by the names of the inputs."""
        return {name: cache.array(self.length) for name, cache in self._caches.items()}

    def free(self) -> None:
        """Give the memory back; the caches are of no use any more."""
        for cache in self._caches.values():
            cache.free()


def turned(array: np.ndarray, places: Sequence[int], batch: int, axis: int) -> np.ndarray:
    """An array whose rows along the axis `batch` are so many places further along `axis`.

    >>> turned(np.array([[1, 2, 3], [4, 5, 0]]), [0, 1], 0, 1).tolist()
    [[1, 2, 3], [0, 4, 5]]
    """
    rows = np.split(array, len(places), batch)
    return np.concatenate([np.roll(row, count, axis) for row, count in zip(rows, places, strict=True)], batch)


def pairs(inputs: Sequence[NodeArg], outputs: Sequence[NodeArg]) -> dict[str, str]:
    """The inputs that are caches, with the outputs that add to them, as their names tell.

    >>> past, present = NodeArg("past_key_values.0.key", "tensor(float)", []), NodeArg("present.0.key", "", [])
    >>> pairs([past], [present])
    {'past_key_values.0.key': 'present.0.key'}
    """
    made = {each.name for each in outputs}
    found: dict[str, str] = {}
    for each in inputs:
        for word in ("past_key_values", "past"):
            name = each.name.replace(word, "present")
            if word in each.name and name in made:
                found.setdefault(each.name, name)
    return found


def growing(inputs: Sequence[NodeArg], outputs: Sequence[NodeArg], past: str, output: str) -> int:
    """The axis along which an output is longer than an input. InvalidArgument where their shapes do not tell."""
    before = _port(inputs, outputs, past, output)
    after = next(each for each in outputs if each.name == output)
    sizes = list(zip(before.shape, after.shape))
    other = [axis for axis, (p, q) in enumerate(sizes) if p != q and not isinstance(p, int)]
    open_ = [axis for axis, (size, _) in enumerate(sizes) if axis and not isinstance(size, int)]
    axis, *more = other or open_ or [-1]
    if more or axis < 0:
        raise InvalidArgument(f"{past!r} {before.shape} and {output!r} {after.shape} do not tell which axis grows")
    return axis


def _port(inputs: Sequence[NodeArg], outputs: Sequence[NodeArg], past: str, output: str) -> NodeArg:
    """An input. InvalidArgument where there is none of that name, or no such output."""
    found = next((each for each in inputs if each.name == past), None)
    if found is None or all(each.name != output for each in outputs):
        raise InvalidArgument(f"the model has no input {past!r} with an output {output!r}")
    return found


def _cache(
    device: Device,
    inputs: Sequence[NodeArg],
    outputs: Sequence[NodeArg],
    past: str,
    output: str,
    batch: int,
    empty: Sequence[int] | None,
) -> Cache:
    """An empty cache for an input, to which an output adds."""
    before = _port(inputs, outputs, past, output)
    if empty is None:
        axis = growing(inputs, outputs, past, output)
        empty = [size if isinstance(size, int) else batch for size in before.shape]
        empty[axis] = 0
    elif list(empty).count(0) != 1:
        raise InvalidArgument(
            f"an empty {past!r} of shape {list(empty)} does not tell which axis grows: one has to be 0"
        )
    axis = list(empty).index(0)
    rows = next((k for k, size in enumerate(before.shape) if k != axis and not isinstance(size, int)), 0)
    return Cache(device, output, dtypes.by_name(before.type.removeprefix("tensor(").rstrip(")")), empty, axis, rows)
