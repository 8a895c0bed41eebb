"""Which design of a product is fastest on a device: measured once for sizes like these, and kept on disk.

The provider option `tune`, or the variable SARDONYX_TUNE, asks for it. Candidates run when a plan is first bound, by
turns, in memory of their own.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sardonyx.code.kernel import Routine
from sardonyx.common import cache, debug, sources
from sardonyx.errors import EPFail
from sardonyx.providers.contract import Address, SegmentLaunch
from sardonyx_webgpu.code import Code
from sardonyx_webgpu.routines import by_design, of_routine
from sardonyx_webgpu.routines.designs import SHARED, Design, candidates
from sardonyx_webgpu.runtime.device import WebGpuDevice

FEWEST = 1 << 16
"""Products of fewer multiplications are as they are."""
ROUNDS, TIMES = 3, 4
"""How often candidates take turns, and how often one runs in a turn."""


def is_wanted(options: Mapping[str, str]) -> bool:
    """Whether designs are to be measured."""
    return (options.get("tune") or os.environ.get("SARDONYX_TUNE", "0")) not in ("0", "")


class Tuner:
    """Chooses among the designs of products for one device."""

    def __init__(self, device: WebGpuDevice) -> None:
        self.device = device
        self._codes: dict[tuple[str, Design], Code] = {}
        self._chosen: dict[bytes, Design] = {}

    def code(self, source: Any, buffers: Sequence[Address], params: Sequence[Any]) -> Code | None:
        """The fastest code of a product for these buffers and parameters; None for what has one design."""
        if not isinstance(source, Routine) or not source.primitive.startswith("matmul"):
            return None
        sizes = _sizes(source, params)
        batch, m, k, n = sizes
        if batch * m * k * n < FEWEST:
            return None
        tried = self._candidates(source, sizes)
        key = self._key(source, sizes)
        chosen = self._chosen.get(key) or _stored(key)
        if chosen not in tried:
            chosen = self._fastest(source, tried, buffers, params)
            cache.write(key, json.dumps(chosen).encode())
        self._chosen[key] = chosen
        return self._written(source, chosen)

    def _key(self, routine: Routine, sizes: Sequence[int]) -> bytes:
        adapter = self.device.gpu.adapter
        powers = [max(0, size - 1).bit_length() for size in sizes]
        what = [routine.primitive, routine.reads, routine.attributes.get("bits"), powers, bool(routine.views)]
        where = [adapter.name, adapter.vendor, adapter.backend, adapter.driver]
        return json.dumps(["tuned", what, where, sources.release(("sardonyx_webgpu",))]).encode()

    def _candidates(self, routine: Routine, sizes: Sequence[int]) -> list[Design]:
        """The designs to be tried, the one that the plan has first."""
        usual = Design(*routine.attributes["software" if self.device.is_software else "hardware"])
        batch, m, k, n = sizes
        tried = candidates(batch, m, k, n)
        if routine.primitive == "matmul_int8":
            forms = [design for design in tried if design.kind != SHARED]
            tried = [design._replace(packed=packed) for design in forms for packed in (True, False)]
        return list(dict.fromkeys([usual, *tried]))

    def _written(self, routine: Routine, design: Design) -> Code:
        key = routine.key, design
        if key not in self._codes:
            self._codes[key] = of_routine(by_design(routine, design))
        return self._codes[key]

    def _fastest(
        self, routine: Routine, tried: Sequence[Design], buffers: Sequence[Address], params: Sequence[Any]
    ) -> Design:
        own: dict[Address, Address] = {}
        for address in buffers:
            if address not in own:
                own[address] = Address(self.device.allocate(address.nbytes), 0, address.nbytes)
        runs: dict[Design, Callable[[], None]] = {}
        for design in tried:
            loaded = self.device.load([self._written(routine, design)], [[SegmentLaunch(0)] * TIMES])
            try:
                runs[design] = loaded.bind(0, [[own[address] for address in buffers]] * TIMES, [params] * TIMES)
            except EPFail:  # its loops are too long for this driver
                continue
            self._seconds(runs[design])
        quickest = dict.fromkeys(runs, float("inf"))
        for _ in range(ROUNDS):
            for design, run in runs.items():
                quickest[design] = min(quickest[design], self._seconds(run))
        runs.clear()
        for address in own.values():
            self.device.free(address.chunk)
        fastest = min(quickest, key=lambda design: quickest[design], default=tried[0])
        timings = ", ".join(f"{'-'.join(map(str, design))} {1e3 * s / TIMES:.3f} ms" for design, s in quickest.items())
        debug.say(debug.TIMES, f"tuned {routine.name} {_sizes(routine, params)}: {timings}")
        return fastest

    def _seconds(self, run: Callable[[], None]) -> float:
        start = time.perf_counter()
        measured = self.device.timed(run)
        return time.perf_counter() - start if measured is None else measured


def _stored(key: bytes) -> Design | None:
    """What an earlier process has chosen; None if there is nothing, or something else."""
    try:
        return Design(*json.loads(bytes(cache.read(key) or b"")))
    except (ValueError, TypeError):
        return None


def _sizes(routine: Routine, params: Sequence[Any]) -> tuple[int, int, int, int]:
    """Batch, rows, depth and columns of a product."""
    sizes = [*routine.inputs[0], routine.outputs[0][-1]]
    batch, m, k, n = (int(params[int(size[1:])]) if isinstance(size, str) else int(size) for size in sizes)
    return batch, m, k, n
