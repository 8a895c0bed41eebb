"""What an execution provider brings: a Provider that says what it can run, and a Device that runs it.

A backend imports core, never the reverse; core finds it by the entry point group `sardonyx.execution_providers`, whose
entries are Provider objects (or functions that return one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from sardonyx.common.dtypes import DType

ALIGNMENT = 256
"""Every buffer starts at a multiple of this many bytes in its chunk, and its room is a multiple of 4 bytes."""


@dataclass(frozen=True)
class Address:
    """Where a buffer lies: in which chunk of device memory, at which byte, with how many bytes of room."""

    chunk: Any
    offset: int
    nbytes: int


Tensor: TypeAlias = tuple[Address, np.dtype[Any], tuple[int, ...]]
"""Where a tensor lies, how NumPy stores its elements, and its shape."""


@dataclass(frozen=True)
class Launch:
    """One call of a piece of code: its number in the list that the device was given, and its name in profiles."""

    code: int
    label: str = ""


@dataclass(frozen=True)
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


class Body(Protocol):
    """The bound body of a loop, of which the device can take many turns in a row."""

    def __call__(self) -> None: ...

    def repeat(self, turn: Turn, first: int, count: int) -> tuple[int, bool]:
        """Take turns from number `first` on, at most `count`: how many were taken, and whether the loop goes on.

        Raises Fail where the run is to end.
        """
        ...


class Executable(Protocol):
    """The compiled code of one plan on one device."""

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]
    ) -> Callable[[], None]:
        """Prepare a segment's launches, each with its buffers (those read, then those written) and parameters.

        The result runs them in order; it is called many times, by one thread at a time. Work may go on after it
        returns; `Device.download` and `Device.synchronize` wait.
        """
        ...


class Device(Protocol):
    """Memory and a compiler. All methods may be called from any thread.

    These are optional. `load_body(codes, launches)` compiles the body of a loop, which is one segment. What
    binding it gives has `repeat` (see `Body`) where the device can take turns by itself. `view(address, dtype, shape)`
    is an array over memory that host and device share, which stays valid as long as the chunk.
    `download_all(tensors)` gives arrays of several tensors that are read together, and `async download_all_async` does
    so where Python cannot wait; there `download` raises MustAwait. Work may wait on the host until something is
    downloaded, or until `flush()`. `timed(run)` runs a bound segment, waits, and gives the seconds that it took on the
    device, or None. `largest` is how many bytes a tensor may have, and `is_lost` whether all that lay there is gone.
    With `in_order`, launches, copies and `free` take effect in the order in which they are asked for, and nothing waits
    for what sets up weights.
    """

    def allocate(self, nbytes: int) -> Any:
        """A chunk of device memory; `nbytes` may be 0. The contents are undefined."""
        ...

    def free(self, chunk: Any) -> None: ...

    def constant(self, array: np.ndarray) -> Address:
        """Device memory that holds an array for good, or a view of the array where device and host share memory."""
        ...

    def upload(self, address: Address, array: np.ndarray) -> None:
        """Copy a C-contiguous array's bytes to the device."""
        ...

    def download(self, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        """A new array with the device's bytes."""
        ...

    def copy(self, source: Address, target: Address) -> None:
        """Copy `source.nbytes` bytes within this device."""
        ...

    def synchronize(self) -> None:
        """Wait until all work handed to the device is done, and nothing is being compiled for it."""
        ...

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[Launch]]) -> Executable:
        """Compile code (in the provider's `form`) that these segments, runs of consecutive launches, use."""
        ...


def writer(device: Device, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[..., None]:
    """What copies an array of this type and shape, strided in any way, to the device, as often as wanted."""
    if view := getattr(device, "view", None):
        return partial(view(address, dtype, shape).__setitem__, ...)
    return lambda array: device.upload(address, np.ascontiguousarray(array))


def reader(device: Device, address: Address, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Callable[[], np.ndarray]:
    """What gives a new array with the device's bytes, as often as wanted."""
    if view := getattr(device, "view", None):
        copy: Callable[[], np.ndarray] = view(address, dtype, shape).copy
        return copy
    return partial(device.download, address, dtype, shape)


class Sections(Protocol):
    """A bundle, as a provider's code sees it."""

    name: str
    """What errors call it."""

    def section(self, title: str) -> memoryview:
        """What a section holds. Raises InvalidArgument if it is damaged."""
        ...


class Bundler(Protocol):
    """Makes a provider's code part of bundles (`sardonyx.plans.bundle`), for use where there is no compiler."""

    target: str
    """What the command line calls it."""
    provider: Provider
    """Compiles for whoever will run the bundle, not for this machine."""

    def write(self, codes: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What the manifest tells of these codes, and sections; all but the first are for engines that lack something.

        With each code comes for each of its buffers the first one that is the same. What is told has `codes`: for each
        its name, how many buffers it reads, and how many it writes.
        """
        ...

    def read(self, bundle: Sections, told: Mapping[str, Any]) -> Sequence[Any]:
        """The codes that `write` told of, for `Device.load`."""
        ...


class Provider(Protocol):
    """An execution provider, as the partitioner sees it.

    Seven methods are optional: `describe() -> dict[str, str]` tells `sardonyx info` of its adapter or versions,
    `is_software(device) -> bool` whether a GPU is only emulated, so that it is used when asked for by name alone,
    `rewrite(trace, origins)` rewrites the equations of these ONNX nodes before they are fused (`compiler.rewriting`),
    and `fingerprint() -> str` tells what plans depend on besides the files of the provider's package: what changes it
    makes plans of earlier processes useless. Without it no plan is kept for other processes. `bundler() -> Bundler`
    makes bundles. `async open(options)` opens a device that takes waiting where `device` raises MustAwait.
    With `epilogues`, names of routines of one result, what is done to each element of that result is part of the launch
    (`compiler.kernel.Routine`). With `rows`, launches over the same rows become one (`compiler.kernel.Rows`). With
    `lanes`, 2 or 4, code tells which of its parameters are multiples of so many. With `literal` larger sizes are
    parameters of routines; without it all sizes that are known are written into them. `largest()` tells how many bytes
    a tensor may have, None for any number: nodes with larger ones go to the next provider. With `takes_threads` its
    options have `intra_op_num_threads`, where the session's options set it. With `prefers_integers` products of
    quantized tensors are of integers, where the session's options do not say otherwise. `options` names the options
    that it knows: others have no effect, of which the user is warned.
    """

    name: str
    form: str
    """`program` where the device takes `compiler.program.Program` alone, `kernel` where it takes `Kernel` and `Routine`
    as well, and `Rows` if it says so."""
    max_buffers: int
    """How many buffers one launch may bind."""
    routines: frozenset[str]
    """Primitives that the device runs as Routines of its own instead of generated code (form `kernel` only)."""

    def available(self) -> bool:
        """Whether `device` can be expected to work here; cheap, imports nothing heavy."""
        ...

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        """Whether a primitive on these element types runs here."""
        ...

    def device(self, options: Mapping[str, str]) -> Device:
        """The device for these provider options; equal options give the same device."""
        ...
