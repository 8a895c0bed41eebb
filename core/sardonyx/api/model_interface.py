"""The inputs and outputs of a model by name: what a call may feed, and what it may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import SparseTensorType
from sardonyx.plans.plan_cache import Facts

NOTHING: frozenset[str] = frozenset()


class ModelInterface:
    """What a session knows of a model by its facts alone."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.output_names = [value.name for value in facts.outputs]
        self._input_names = frozenset(value.name for value in facts.inputs)
        self._sparse = [k for k, value in enumerate(facts.outputs) if isinstance(value.type, SparseTensorType)]
        """The outputs that the model declares as sparse: runs know dense tensors alone."""

    def check_outputs(self, output_names: Sequence[str] | None) -> None:
        """Raise InvalidArgument where the model has no output of a name."""
        if not output_names:
            return
        if isinstance(output_names, str) or not isinstance(output_names, Iterable):
            raise InvalidArgument(f"outputs are asked for by a list of names, or None for all, not by {output_names!r}")
        for name in output_names:
            if name not in self.output_names:
                there = ", ".join(map(repr, self.output_names))
                raise InvalidArgument(f"the model has no output {name!r}; it has {there}")

    def pick(self, results: list[Any], output_names: Sequence[str] | None) -> list[Any]:
        """The results that were asked for, of all of them."""
        if self._sparse:
            from sardonyx.api.sparse import SparseTensor  # which few models need

            for k in self._sparse:
                results[k] = SparseTensor.of_dense(results[k])
        return results if not output_names else [results[self.output_names.index(name)] for name in output_names]

    def is_sparse(self, name: str) -> bool:
        """Whether the model declares the output of this name as sparse."""
        return any(self.output_names[k] == name for k in self._sparse)

    def overridden(self, feed: Mapping[str, Any]) -> frozenset[str]:
        """The names of the initializers that are fed; InvalidArgument where there is no input of a name."""
        if feed.keys() <= self._input_names:
            return NOTHING
        others = feed.keys() - self._input_names
        if unknown := others - {value.name for value in self.facts.overridable}:
            inputs = ", ".join(repr(value.name) for value in self.facts.inputs)
            raise InvalidArgument(f"the model has no input {min(unknown)!r}; it has {inputs}")
        return frozenset(others)
