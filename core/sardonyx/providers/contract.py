"""What an execution provider brings: a Provider that says what it can run, and a Device that runs it.

Both are base classes: what a provider must give is abstract, and everything else has a default. This module and
`sardonyx.providers` are the public paths of the contract (`examples/provider/` is a whole provider).

A backend imports core, never the reverse; core finds it by the entry point group `sardonyx.execution_providers`, whose
entries are Provider objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from sardonyx.common.dtypes import DType
from sardonyx.model.ir import Graph
from sardonyx.providers.device import ALIGNMENT, Address, Device, Executable, LoopBody, SegmentLaunch, Tensor, Turn

__all__ = [
    "ALIGNMENT",
    "Address",
    "Bundler",
    "Device",
    "Executable",
    "LoopBody",
    "Provider",
    "Sections",
    "SegmentLaunch",
    "Tensor",
    "Turn",
]


class Provider(ABC):
    """An execution provider: what sessions, the command line and the compiler ask of it.

    It must have a `name`, say what it `supports`, and give a `device`. Everything else has a default that is right for
    a device which runs programs one after another.
    """

    name: str
    """What sessions call it, `...ExecutionProvider`: the name of its entry point. It must be given."""

    # ---- what users meet

    def available(self) -> bool:
        """Whether `device` can be expected to work here; cheap, imports nothing heavy. The default is True."""
        return True

    @abstractmethod
    def device(self, options: Mapping[str, str]) -> Device:
        """The device for these provider options; equal options give the same device.

        Raises EPFail where there is none, and MustAwait where only `open` can wait for it.
        """

    async def open(self, options: Mapping[str, str]) -> None:
        """Open the device for these options where that takes waiting; `device` has it then.

        By default there is nothing to wait for. Raises EPFail where there is no device.
        """

    options: frozenset[str] | None = None
    """The provider options that it knows: others have no effect, of which the user is warned. None, the default, for
    any: all are handed to `device`."""

    takes_threads: bool = False
    """Whether its options have `intra_op_num_threads`, where the session's options set it, and `allow_spinning`, "0"
    where they want threads that wait to sleep."""

    def describe(self) -> dict[str, str]:
        """What `sardonyx info` tells of its adapter or versions, its device being open; nothing by default."""
        return {}

    def is_software(self, device: Any) -> bool:
        """Whether one of its devices is a GPU that is only emulated, so that it is used when asked for by name alone.

        The default is False.
        """
        return False

    # ---- what the compiler asks

    @abstractmethod
    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        """Whether a primitive (`sardonyx.primitives`) with these parameters runs here on these element types.

        A node whose primitives are not all supported goes to the session's next provider.
        """

    form: str = "program"
    """`program` where the device takes `sardonyx.code.program.Program` alone, which is the default; `kernel` where it
    takes `Kernel` and `Routine` (`sardonyx.code.kernel`) as well, and `Rows` if `rows` says so."""

    max_buffers: int = 1 << 30
    """How many buffers one launch may bind; by default any number."""

    routines: frozenset[str] = frozenset()
    """Primitives that the device runs as Routines of its own instead of generated code (form `kernel` only)."""

    epilogues: frozenset[str] = frozenset()
    """Those routines of one result that go on with what is done to each element of it (`Routine.epilogue`)."""

    strided: Mapping[str, Sequence[int]] = {}
    """Those routines that read operands as views: for each operand, along how many of its last axes an index is to be
    linear. With any, launches read and write by strides, so that parts of a concatenation are stored in place."""

    rows: bool = False
    """Whether launches over the same rows become one (`sardonyx.code.kernel.Rows`; form `kernel` only)."""

    lanes: int = 1
    """1, 2 or 4: of each parameter of code it is told which divisor of this number it is a multiple of."""

    literal: int = 1 << 62
    """Sizes up to this one are written into routines, larger ones are parameters of them. By default all sizes that are
    known are written."""

    summed: Mapping[str, Collection[tuple[int, int]]] = {}
    """Of routines, the operands and their axes along which results are summed: their sizes are parameters of their own,
    so that layers in which these equal others share code."""

    prefers_integers: bool = False
    """Whether products of quantized tensors are of integers, where the session's options do not say otherwise."""

    heaviest: int | None = None
    """The bytes up to which the constants are that it takes, None for any number. Sessions with a memory limit set it,
    on copies of the provider."""

    def largest(self) -> int | None:
        """The bytes that a tensor may have: nodes with larger ones go to the next provider.

        None, the default, for any number.
        """
        return None

    def rewrite(self, trace: Any, origins: Collection[int]) -> None:
        """Rewrite the equations of these ONNX nodes in a `sardonyx.primitives.array.Trace`, before they are fused.

        `sardonyx.compiler.rewriting` helps. By default they stay as they are. If it raises, the next provider runs the
        node that was at work.
        """

    # ---- what outlives a process

    def fingerprint(self) -> str | None:
        """What plans depend on besides the files of the provider's package: what changes it makes plans of earlier
        processes useless. None, the default, where no plan is to be kept for other processes."""
        return None

    def bundler(self) -> Bundler | None:
        """What makes its code part of bundles; None, the default, where nothing does."""
        return None


class Sections(Protocol):
    """A bundle, as a provider's code sees it."""

    name: str
    """What errors call it."""

    def section(self, title: str) -> memoryview:
        """What a section holds. Raises InvalidArgument if it is damaged."""
        ...


class Bundler(ABC):
    """Makes a provider's code part of bundles (`sardonyx.plans.bundle`), for use where there is no compiler."""

    target: str
    """What the command line calls it. It must be given."""

    provider: Provider
    """Compiles for whoever will run the bundle, not for this machine. It must be given."""

    def narrow(self, graph: Graph) -> bool:
        """Have element types that the provider has in place of those that it lacks: whether it changed any."""
        return False

    @abstractmethod
    def write(self, codes: Sequence[tuple[Any, Sequence[int]]]) -> tuple[dict[str, Any], dict[str, bytes]]:
        """What the manifest tells of these codes, and sections; all but the first are for engines that lack something.

        With each code comes for each of its buffers the first one that is the same. What is told has `codes`: for each
        its name, how many buffers it reads, and how many it writes.
        """

    @abstractmethod
    def read(self, bundle: Sections, told: Mapping[str, Any]) -> Sequence[Any]:
        """The codes that `write` told of, for `Device.load`. Raises EPFail where they cannot run here."""
