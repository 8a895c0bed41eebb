"""Runs every launch of a plan singly, on its own device and on another one, and tells where the results differ.

Both devices start a launch from the same bytes, so that no difference is handed on: each one found is that launch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sardonyx.code import loops
from sardonyx.code.kernel import Kernel, Rows
from sardonyx.code.program import Program
from sardonyx.common import dtypes
from sardonyx.common.strings import RunStrings, StringTable
from sardonyx.plans.plan import Plan
from sardonyx.providers.contract import Address, Device, Executable, SegmentLaunch
from sardonyx.runtime.executor import CompiledGraph
from sardonyx.runtime.weights import Weights
from tests.support.forwarding import ForwardingDevice


@dataclass(frozen=True)
class Difference:
    """What a launch wrote to one of its buffers, and what it should have written.

    `launch` counts the launches of the run. `reads` and `writes` are the buffers' dtypes and elements, of which it
    wrote number `buffer`; `error` is relative to the largest finite value expected, and inf where only one of the two
    values is finite. `place` is the element, in the flat buffer, with the largest error.
    """

    launch: int
    label: str
    reads: tuple[tuple[str, int], ...]
    writes: tuple[tuple[str, int], ...]
    params: tuple[int, ...]
    buffer: int
    count: int
    error: float
    place: int
    found: Any
    expected: Any

    def __str__(self) -> str:
        reads, writes = (", ".join(f"{dtype}[{size}]" for dtype, size in items) for items in (self.reads, self.writes))
        return (
            f"launch {self.launch}, {self.label}: {self.count} elements of output {self.buffer} differ by up to"
            f" {self.error:.2e} of the largest, [{self.place}] is {self.found}, not {self.expected}"
            f" ({reads} -> {writes}, parameters {list(self.params)})"
        )


def verify(
    plan: Plan,
    feeds: Mapping[str, np.ndarray],
    devices: Sequence[Device],
    reference: Device,
    tolerance: float = 1e-5,
) -> list[Difference]:
    """What launches write that differs from what `reference` makes of the same bytes, in the order of the run.

    `devices` are those of the plan, in its order; `reference` takes Programs. Floats may differ by `tolerance` of the
    largest value written, integers not at all. Routines are run without being compared.
    """
    found: list[Difference] = []
    check = _Check(reference, tolerance, found)
    stepped = [_SteppedDevice(device, check) for device in devices]
    strings = RunStrings(StringTable(plan.strings))
    _, _, release = CompiledGraph([plan], stepped, Weights()).call([feeds[port.name] for port in plan.inputs], strings)
    release()
    return found


class _SteppedDevice(ForwardingDevice):
    """A device that runs launches one by one, and has each of them checked."""

    def __init__(self, device: Device, check: _Check) -> None:
        super().__init__(device)
        self._check = check

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[SegmentLaunch]]) -> _SteppedExecutable:
        executables = [self.inner.load(codes, [[launch] for launch in launches]) for launches in segments]
        return _SteppedExecutable(self.inner, self._check, codes, segments, executables)

    def load_body(self, codes: Sequence[Any], launches: Sequence[SegmentLaunch]) -> _SteppedExecutable:
        return self.load(codes, [launches])


@dataclass(frozen=True)
class _SteppedExecutable(Executable):
    device: Device
    check: _Check
    codes: Sequence[Any]
    segments: Sequence[Sequence[SegmentLaunch]]
    executables: Sequence[Executable]

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]
    ) -> Callable[[], None]:
        steps = [
            self._step(segment, number, launch, addresses, numbers)
            for number, (launch, addresses, numbers) in enumerate(
                zip(self.segments[segment], buffers, params, strict=True)
            )
        ]

        def run() -> None:
            for step in steps:
                step()

        return run

    def _step(
        self, segment: int, number: int, launch: SegmentLaunch, buffers: Sequence[Address], params: Sequence[Any]
    ) -> Callable[[], None]:
        run = self.executables[segment].bind(number, [buffers], [params])
        return lambda: self.check(self.device, self.codes[launch.code], launch.label, buffers, params, run)


class _Check:
    """Runs one launch after another on two devices, and compares what they write."""

    def __init__(self, reference: Device, tolerance: float, found: list[Difference]) -> None:
        self.reference = reference
        self.tolerance = tolerance
        self.found = found
        self.launches = 0
        self.executables: dict[str, Executable] = {}

    def __call__(
        self,
        device: Device,
        code: Any,
        label: str,
        buffers: Sequence[Address],
        params: Sequence[Any],
        run: Callable[[], None],
    ) -> None:
        number = self.launches
        self.launches += 1
        program = loops.program(code) if isinstance(code, (Kernel, Rows)) else code
        if not isinstance(program, Program):
            run()
            return
        names = (*program.reads, *program.writes)
        before = _download(device, names, buffers)
        run()
        results = _download(device, names, buffers)
        wanted = self._expected(program, before, params)
        sizes = tuple((name, array.size) for name, array in zip(names, before, strict=True))
        inputs = len(program.reads)
        for k in range(inputs, len(names)):
            errors = _errors(names[k], results[k], wanted[k], before[k])
            limit = max(self.tolerance, _UNITS.get(names[k], 0)) if dtypes.by_name(names[k]).is_float else 0
            if count := int((errors > limit).sum()):
                place = int(errors.argmax())
                values = results[k][place], wanted[k][place]
                where = (number, label, sizes[:inputs], sizes[inputs:], tuple(map(int, params)), k - inputs)
                self.found.append(Difference(*where, count, float(errors[place]), place, *values))

    def _expected(self, program: Program, before: Sequence[np.ndarray], params: Sequence[Any]) -> list[np.ndarray]:
        device = self.reference
        if program.key not in self.executables:
            self.executables[program.key] = device.load([program], [[SegmentLaunch(0, program.name)]])
        buffers = [Address(device.allocate(-(-array.nbytes // 4) * 4), 0, array.nbytes) for array in before]
        try:
            for address, array in zip(buffers, before, strict=True):
                device.upload(address, array)
            self.executables[program.key].bind(0, [buffers], [params])()
            return _download(device, (*program.reads, *program.writes), buffers)
        finally:
            for address in buffers:
                device.free(address.chunk)


def _download(device: Device, names: Sequence[str], buffers: Sequence[Address]) -> list[np.ndarray]:
    arrays = []
    for name, address in zip(names, buffers, strict=True):
        dtype = dtypes.by_name(name).storage
        arrays.append(device.download(address, dtype, (address.nbytes // dtype.itemsize,)))
    return arrays


def _errors(dtype: str, found: np.ndarray, expected: np.ndarray, before: np.ndarray) -> np.ndarray:
    """How far elements are from those expected, relative to the largest one written; 0 where both are NaN."""
    with np.errstate(all="ignore"):
        found, expected, before = (_values(dtype, array) for array in (found, expected, before))
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        # What neither device wrote may be anything.
        written = np.isfinite(expected) & ((found != before) | (expected != before))
        largest = np.abs(expected[written].astype(np.float64)).max(initial=0)
        error = np.abs(found.astype(np.float64) - expected.astype(np.float64)) / largest
        error = np.where(np.isnan(error), np.inf, np.maximum(error, _LEAST))
        # Behind the last element a device may write what fills its word.
        filling = (expected == before) & (np.arange(found.size) > found.size - 4 // dtypes.by_name(dtype).itemsize)
        return np.where(same | filling, 0, error)


def _values(dtype: str, array: np.ndarray) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else array


_LEAST = float(np.finfo(np.float64).tiny)
"""The error of integers that differ, but not as float64."""
_UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""What one unit in the last place of a narrow float is worth: results that are rounded differ by that."""
