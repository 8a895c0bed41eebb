"""Sums of gradients, on their device: a model of one Add for each parameter, made when there is something to add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sardonyx.api.options import SessionOptions
from sardonyx.api.ort_value import OrtValue
from sardonyx.api.outputs import Target
from sardonyx.api.session import InferenceSession
from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Model, TensorType
from sardonyx.model.serde.writer import write
from sardonyx.training.draft import Draft

EARLIER, SUM = "_earlier", "_sum"


class Accumulator:
    """Adds values by their names, of the types and shapes of those that are given."""

    def __init__(
        self,
        like: Mapping[str, OrtValue],
        options: SessionOptions | None,
        providers: Sequence[Any],
        device: str | None,
    ) -> None:
        draft = Draft(Model(Graph(name="accumulation"), {"": 17}))
        for name, value in like.items():
            kind = TensorType(dtypes.by_number(value.element_type()), tuple(value.shape()))
            names = [draft.input(name, kind), draft.input(f"{name}{EARLIER}", kind)]
            draft.output(draft.add("Add", names, f"{name}{SUM}"))
        draft.record_types()
        self._session = InferenceSession(write(draft.model), options, providers)
        self._device = device

    def add(self, earlier: Mapping[str, OrtValue], values: Mapping[str, OrtValue]) -> dict[str, OrtValue]:
        """The sums."""
        feeds = {**values, **{f"{name}{EARLIER}": value for name, value in earlier.items()}}
        sums = self._session.run_bound(feeds, {f"{name}{SUM}": Target(self._device) for name in values})
        return {name: sums[f"{name}{SUM}"] for name in values}
