"""The device's half of the contract: memory, a compiler for it, and what runs there.

Public as `sardonyx.providers` and `sardonyx.providers.contract`, which have all these names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sardonyx.common.record import record

ALIGNMENT = 256
"""Every buffer starts at a multiple of this many bytes in its chunk, and its room is a multiple of 4 bytes."""


@record(frozen=True)
class Address:
    """Where a buffer lies: in which chunk of device memory, at which byte, with how many bytes of room."""

    chunk: Any
    offset: int
    nbytes: int


Tensor: TypeAlias = tuple[Address, np.dtype[Any], tuple[int, ...]]
"""Where a tensor lies, how NumPy stores its elements, and its shape."""


@record(frozen=True)
class SegmentLaunch:
    """One call of a piece of code: its number in the list that the device was given, and its name in profiles."""

    code: int
    label: str = ""


@record(frozen=True)
class Turn:
    """What a device does around each turn of a loop's body; `None` where nothing wants it.

    Before it, the number of the turn (int64) is written to `number` and true to `going`. After it, the loop ends if the
    bool at `condition` is false. In any case the `slices` are copied first, the target of each moving on by what was
    copied, then the `moves` in order; each is a source, whose `nbytes` count, and a target.
    """

    number: Address | None
    going: Address | None
    condition: Address | None
    slices: Sequence[tuple[Address, Address]]
    moves: Sequence[tuple[Address, Address]]


class LoopBody(ABC):
    """The bound body of a loop, of which the device takes many turns in a row."""

    @abstractmethod
    def __call__(self) -> None:
        """Take one turn, as any other bound segment does."""

    @abstractmethod
    def repeat(self, turn: Turn, first: int, count: int) -> tuple[int, bool]:
        """Take turns from number `first` on, at most `count`: how many were taken, and whether the loop goes on.

        Raises Fail where the run is to end.
        """


class Executable(ABC):
    """The compiled code of one plan on one device."""

    @abstractmethod
    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]
    ) -> Callable[[], None]:
        """Prepare a segment's launches, each with its buffers (those read, then those written) and parameters.

        The result runs them in order; it is called many times, by one thread at a time. Work may go on after it
        returns; `Device.download` and `Device.synchronize` wait. Of a loop's body it may be a `LoopBody`. Raises EPFail
        where the device cannot do this.
        """

    def rebind(self, run: Callable[[], None], params: np.ndarray) -> bool:
        """Have what `bind` gave work with other parameters: those of all its launches in a row (int64).

        The buffers lie where they lay. False, the default, where the device cannot do this: then `run` is of no use
        any more, and the segment is bound anew. Nobody calls `run` meanwhile.
        """
        return False


class Device(ABC):
    """Memory and a compiler. All methods may be called from any thread.

    A device must `allocate`, `upload`, `download` and `load`. Everything else has a default that is right for memory
    of its own and work that is done when a call returns.
    """

    # ---- memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Any:
        """A chunk of device memory of so many bytes, which may be 0. Its contents are undefined.

        Raises MemoryError or EPFail where there is none left.
        """

    def free(self, chunk: Any) -> None:
        """Give a chunk back; nobody uses it any more. The default waits for its last reference to go."""

    def constant(self, array: np.ndarray) -> Address:
        """Device memory that holds an array for good, or a view of the array where device and host share memory.

        The default uploads it to a chunk of its own.
        """
        address = Address(self.allocate(-(-array.nbytes // 4) * 4), 0, array.nbytes)
        self.upload(address, np.ascontiguousarray(array))
        return address

    def reads_in_place(self, array: np.ndarray) -> bool:
        """Whether `constant` takes this array where it lies, so that it costs no memory. The default is False."""
        return False

    def in_place(self, array: np.ndarray) -> Address | None:
        """Where a C-contiguous array lies, aligned or not, for code that takes single rows of it.

        The default is None: the device cannot read the host's memory.
        """
        return None

    def view(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray | None:
        """An array over memory that host and device share, valid as long as the chunk.

        The default is None: they share none.
        """
        return None

    @abstractmethod
    def upload(self, address: Address, array: np.ndarray) -> None:
        """Copy a C-contiguous array's bytes to the device; they may be fewer than there is room for."""

    @abstractmethod
    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """A new array with the device's bytes, once all that was asked for before is done.

        Raises MustAwait where Python cannot wait for it.
        """

    reads_together: bool = False
    """Whether `download_all` takes less time than as many calls of `download`; say so where each of these waits."""

    def download_all(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """New arrays of several tensors. The default downloads one after another."""
        return [self.download(*tensor) for tensor in tensors]

    async def download_all_async(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """The same where Python cannot wait, and `download` raises MustAwait. The default does not wait."""
        return self.download_all(tensors)

    def copy(self, source: Address, target: Address) -> None:
        """Copy `source.nbytes` bytes, a multiple of 4, within this device. The default goes by way of the host."""
        self.upload(target, self.download(source, np.dtype(np.uint8), (source.nbytes,)))

    # ---- code

    @abstractmethod
    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> Executable:
        """Compile code (in the provider's `form`) that these segments, runs of consecutive launches, use.

        It may be compiled beside the caller: `synchronize` waits. Raises EPFail where the device cannot run it.
        """

    def load_body(self, codes: Sequence[Any], launches: Sequence[SegmentLaunch]) -> Executable:
        """Compile the body of a loop, which is one segment.

        What binding it gives is a `LoopBody` where the device takes turns by itself. By default it is no such thing,
        and the host takes them.
        """
        return self.load(codes, [launches])

    # ---- time

    in_order: bool = False
    """Whether launches, copies and `free` take effect in the order in which they are asked for, so that nothing has to
    wait between what sets up weights."""

    def flush(self) -> None:
        """Begin with what was asked for and waits on the host. By default nothing waits."""

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done, and nothing is being compiled for it.

        By default all is done when a call returns.
        """

    def timed(self, run: Callable[[], None]) -> float | None:
        """Run a bound segment, and wait; the seconds that it took on the device's own clock.

        The default is None: it has no clock.
        """
        run()
        self.synchronize()
        return None

    # ---- limits

    @property
    def largest(self) -> int | None:
        """How many bytes a tensor may have; None, the default, for any number."""
        return None

    @property
    def is_lost(self) -> bool:
        """Whether the device is gone with all that lay on it. The default is False."""
        return False
