"""The NumPy execution provider: always there, on every platform that has Python; not what other providers share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from sardonyx.common import dtypes, threads
from sardonyx.common.dtypes import DType
from sardonyx.providers.contract import Device, Provider

_BYTES = (dtypes.int8, dtypes.uint8)


class NumpyProvider(Provider):
    """Runs every primitive: kernels as chains of NumPy calls on views, the rest by NumPy functions."""

    name = "NumpyExecutionProvider"
    form = "kernel"
    takes_threads = True
    options = frozenset({"intra_op_num_threads"})
    prefers_integers = True
    routines = frozenset(
        {
            "dot_general",
            "fourier",
            "conv_general",
            "reduce_window",
            "pad",
            "gather",
            "recurrent",
            "scatter",
            "coupling",
            "cumulative",
            "sort",
            "top_k",
            "suppression",
            "tree_ensemble",
            "nonzero",
        }
    )

    def supports(
        self, primitive: str, inputs: Sequence[DType], outputs: Sequence[DType], params: Mapping[str, Any]
    ) -> bool:
        return True

    def rewrite(self, trace: Any, origins: Collection[int]) -> None:
        """Have products of small integers and of halves be those of floats, and functions of bytes be tables."""
        if any(x.dtype in _BYTES for equation in trace.equations for x in equation.inputs):
            from sardonyx.numpy_backend.integers import rewrite

            rewrite(trace, origins)
        if any(x.dtype is dtypes.float16 for equation in trace.equations for x in equation.inputs):
            from sardonyx.numpy_backend import halves

            halves.rewrite(trace, origins)

    def device(self, options: Mapping[str, str]) -> Device:
        """The device for these options, of which `intra_op_num_threads` counts; EPFail where that is no number."""
        return _device(threads.number(self.name, options))

    def fingerprint(self) -> str:
        """Nothing but the sources says what its plans are."""
        return ""

    def describe(self) -> dict[str, str]:
        """What `sardonyx info` prints."""
        import numpy

        return {"numpy": numpy.__version__}


@cache
def _device(count: int) -> Device:
    from sardonyx.numpy_backend.device import NumpyDevice

    return NumpyDevice(count)


provider = NumpyProvider()
