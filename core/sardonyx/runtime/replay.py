"""A stored plan by itself, without the model that it was made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import inward, outward
from sardonyx.common.strings import RunStrings, StringTable
from sardonyx.plans import plan as plans
from sardonyx.providers import registry
from sardonyx.runtime.executor import CompiledGraph
from sardonyx.runtime.handles import downloaded
from sardonyx.runtime.weights import Weights


def replay(plan: plans.Plan, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a plan for arrays by input name, on the devices that it names. Nothing is compiled."""
    devices = [registry.load(name).device({}) for name in plan.devices]
    function = CompiledGraph([plan], devices, Weights())
    strings = RunStrings(StringTable(plan.strings))
    arrays = [inward(feeds[port.name], dtypes.by_name(port.dtype)) for port in plan.inputs]
    handles, _, release = function.call(arrays, strings)
    try:
        arrays = downloaded(devices, handles)
        return [outward(array, handle.element, strings) for array, handle in zip(arrays, handles, strict=True)]
    finally:
        release()
