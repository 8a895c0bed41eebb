"""An execution provider in one file: NumPy's kernels of float32, and how long every launch of them takes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.dtypes import DType
from sardonyx.numpy_backend import NumpyProvider
from sardonyx.numpy_backend.device import NumpyDevice, NumpyExecutable
from sardonyx.providers.contract import Address, Launch

PRIMITIVES = {"elementwise", "dot_general", "broadcast", "reshape", "transpose"}
"""What a node may consist of to run here; the next provider takes the others."""


class StopwatchProvider(NumpyProvider):
    """What core asks: the name, what runs here, and the device."""

    name = "StopwatchExecutionProvider"

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        return primitive in PRIMITIVES and {*inputs, *outputs} <= {dtypes.float32, dtypes.bool_}

    def device(self, options: Mapping[str, str]) -> StopwatchDevice:
        return _device()


class StopwatchDevice(NumpyDevice):
    """The host's memory, and by label of a launch how often it ran and how many seconds that took."""

    def __init__(self) -> None:
        self.launches: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def load(self, codes: Sequence[Any], segments: Sequence[Sequence[Launch]]) -> StopwatchExecutable:
        return StopwatchExecutable(codes, segments, self)


class StopwatchExecutable(NumpyExecutable):
    """Code that looks at the clock around every launch."""

    def __init__(self, codes: Sequence[Any], segments: Sequence[Sequence[Launch]], watch: StopwatchDevice) -> None:
        super().__init__(codes, segments)
        self.watch = watch

    def bind(
        self, segment: int, buffers: Sequence[Sequence[Address]], params: Sequence[Sequence[Any]]
    ) -> Callable[[], None]:
        launches = zip(self.segments[segment], buffers, params, strict=True)
        calls = [(launch.label, self.makers[launch.code](*operands)) for launch, *operands in launches]

        def run() -> None:
            with np.errstate(all="ignore"):
                for label, call in calls:
                    start = perf_counter()
                    call()
                    self.watch.seconds[label] += perf_counter() - start
                    self.watch.launches[label] += 1

        return run


@cache
def _device() -> StopwatchDevice:
    return StopwatchDevice()


provider = StopwatchProvider()
