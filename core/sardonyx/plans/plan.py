"""The plan: what a run does, as plain data.

A plan is what is left of a model when all decisions are taken: buffers with lifetimes, code, and a flat list of steps.
It holds for all sizes that satisfy its guards. It needs no compiler and no ONNX to be replayed: `Plan.from_json` and an
executor are enough, in Python or in a page. Sizes are nested lists over `+ * floordiv mod min max` and symbols; those
that are lists are stored once (`sardonyx.plans.terms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.record import field, fields, record
from sardonyx.errors import InvalidArgument
from sardonyx.model.structure import Form
from sardonyx.plans.terms import Terms, resolved

VERSION = 2
"""Raised whenever a plan of the old schema would be read wrongly."""

OUTSIDE = -1
"""The epoch of a buffer that lies in no chunk: a cache's, which the caller holds."""
Expression: TypeAlias = Any
"""An integer, a symbol, or `[operator, operand, ...]`."""


@record
class Buffer:
    """A range of a device's memory. `epoch` is the chunk it lies in: one per halt of the plan (see `Read`), or
    `OUTSIDE`.

    `beneath` lists the buffers of the same chunk that end before it starts; its offset is the maximum of their ends, so
    that the layout is valid for any sizes. `weight` names a constant, which lies outside the chunks. `elements` is how
    many there is room for, which may be more than the shape tells.
    """

    device: int
    dtype: str
    shape: list[Expression]
    elements: Expression
    epoch: int = 0
    beneath: list[int] = field(default_factory=list)
    weight: str | None = None
    once: bool = False
    """Whether it is a weight that is needed for the plan's `setup` alone."""


@record
class Launch:
    """Run code number `code` on `buffers`: those it reads, then those it writes."""

    code: int
    buffers: list[int]
    params: list[Expression]
    origins: list[int]
    device: int
    do: str = "launch"


@record
class Copy:
    """Copy a buffer to one of another device."""

    source: int
    target: int
    do: str = "copy"


@record
class Read:
    """Halt, and give the elements of an integer buffer to symbols. What follows lies in the next epoch."""

    buffer: int
    symbols: list[str]
    do: str = "read"

    @property
    def defines(self) -> list[str]:
        return self.symbols


@record
class Host:
    """Call a function of the host (`sardonyx.host`) on `inputs`; `results` are the buffers that receive what it gives.

    `origin` numbers the ONNX node. Where shapes of results define `symbols`, `[symbol, result, axis]`, and where it is
    `alone`, as in bundles, the plan halts, and the results lie in the next epoch.
    """

    function: str
    attributes: dict[str, Any]
    inputs: list[int]
    results: list[int]
    symbols: list[list[Any]]
    origin: int
    alone: bool = False
    do: str = "host"

    @property
    def defines(self) -> list[str]:
        return [name for name, _, _ in self.symbols]


@record
class Branch:
    """Halt, and call the first function if the bool in `condition` is true, else the second.

    `operands` are the buffers that each of them takes, `results` those that receive what it gives, which lie in the
    next epoch. `symbols` are `[symbol, result, axis]`: sizes that the results' shapes define.
    """

    condition: int
    functions: list[int]
    operands: list[list[int]]
    results: list[int]
    symbols: list[list[Any]]
    do: str = "branch"

    @property
    def defines(self) -> list[str]:
        return [name for name, _, _ in self.symbols]


@record
class Loop:
    """Halt, and call a function at most `trips` times (a buffer, or -1), while `condition` (a buffer, or -1) holds.

    Without a condition, the one that the function gives is ignored.

    It takes the iteration (int64), the condition, the carried values and the captured ones; it gives the condition, the
    carried values and a slice of each scan output. `results` and `symbols` as in `Branch`; all slices of a scan output
    are stacked.
    """

    trips: int
    condition: int
    function: int
    carried: list[int]
    captured: list[int]
    results: list[int]
    symbols: list[list[Any]]
    do: str = "loop"

    @property
    def defines(self) -> list[str]:
        return [name for name, _, _ in self.symbols]


HostStep: TypeAlias = Host | Branch | Loop
"""A step that the host takes: `results` are the buffers that receive what comes of it."""
Halt: TypeAlias = Read | HostStep
"""A step after which the host knows more sizes: `defines` names them. The next step starts an epoch."""
Step: TypeAlias = Launch | Copy | Halt
_STEPS: dict[str, type[Any]] = {step.do: step for step in (Launch, Copy, Read, Host, Branch, Loop)}


def step_of(data: dict[str, Any]) -> Step:
    """The step with these fields, as `vars` gives them."""
    step: Step = _STEPS[data["do"]](**data)
    return step


def halts(step: Step) -> TypeGuard[Halt]:
    """Whether a step is a halt: of the host's functions only those are that define a size, or that a bundle has."""
    return isinstance(step, (Read, Branch, Loop)) or (isinstance(step, Host) and bool(step.alone or step.symbols))


@record
class Port:
    """An input or output: a name, a type, and the buffers that hold it, one for each device that needs it."""

    name: str
    dtype: str
    shape: list[Expression]
    buffers: list[int]
    symbols: list[str] = field(default_factory=list)
    """The symbols that the elements of an input define, where shapes depend on them."""


@record
class Plan:
    """What one graph does on `devices`, which are numbered in that order.

    `guards` are `[expression, "==" or ">=", truth]`: whether the relation to 0 holds. `symbols` maps each symbol that
    input shapes define to the `[input, axis]` pairs that all have its value; others are defined by the elements of an
    input (`Port.symbols`), by halts, or by the surrounding plan. `nodes` are labels of ONNX nodes, which
    `Launch.origins` number, and `placement` is their device, -1 where nothing is left of a node.
    """

    devices: list[str]
    inputs: list[Port]
    outputs: list[Port]
    symbols: dict[str, list[list[int]]]
    guards: list[list[Any]]
    buffers: list[Buffer]
    codes: list[dict[str, Any]]
    steps: list[Step]
    nodes: list[str] = field(default_factory=list)
    placement: list[int] = field(default_factory=list)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    setup: list[Launch] = field(default_factory=list)
    """To be run once before all steps: they make weights of weights."""
    functions: list[list[Plan]] = field(default_factory=list)
    """The sub-plans of control flow: for each function the plans that were made so far."""
    compilers: list[Callable[[Mapping[str, int]], Plan]] = field(default_factory=list, repr=False, compare=False)
    """What makes further plans of the functions; a plan that was read has none."""
    arguments: list[Form] = field(default_factory=list)
    results: list[Form] = field(default_factory=list)
    """How inputs and outputs make up those of the graph: an entry for each of them (`sardonyx.model.structure`)."""
    strings: Sequence[str] = ("",)
    """The strings of the model by id, those of its functions too. All plans of a session share them."""

    is_beginning: bool = False
    """Whether it stops where sizes that only a run tells are to be known: it gives nothing, and breaks a guard."""
    terms: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The sizes that are lists, by the names that `sardonyx.plans.terms` gives them, of a plan that was read."""

    def is_cache(self, port: Port) -> bool:
        """Whether an input lies outside of the plan's chunks; its shape ends with the room that it has."""
        return any(self.buffers[k].epoch == OUTSIDE for k in port.buffers)

    def nodes_on(self) -> dict[str, int]:
        """How many ONNX nodes each device runs, by its name."""
        return {name: self.placement.count(k) for k, name in enumerate(self.devices)}

    def summary(self) -> str:
        """Launches, kernels, nodes and guards in a line."""
        launches = sum(isinstance(step, Launch) for step in self.steps)
        placed = ", ".join(f"{count} nodes on {name}" for name, count in self.nodes_on().items() if count)
        folded = self.placement.count(-1)
        return f"{launches} launches of {len(self.codes)} kernels; {placed}, {folded} folded; {len(self.guards)} guards"

    def to_json(self) -> str:
        """The whole plan as text; weights are base64."""
        import json  # which plans that the cache keeps do without, as below

        return json.dumps({"version": VERSION, **self.data(_encode), "strings": list(self.strings)})

    def data(self, weight: Callable[[np.ndarray], Any]) -> dict[str, Any]:
        """The plan as JSON data, without its strings; `weight` gives the stored form of a constant."""
        data = {name: getattr(self, name) for name in _STORED}
        terms = Terms()
        for name in _SHAPED:
            data[name] = [vars(item) | {"shape": terms.names(item.shape)} for item in data[name]]
        for item in data["buffers"]:
            item["elements"] = terms.name(item["elements"])
        for name in ("steps", "setup"):
            data[name] = [_step_data(step, terms) for step in data[name]]
        data["guards"] = [[terms.name(size), *truth] for size, *truth in self.guards]
        data["sizes"] = terms.listed
        data["weights"] = {name: weight(array) for name, array in self.weights.items()}
        data["functions"] = [[plan.data(weight) for plan in plans] for plans in self.functions]
        return data

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that `to_json` wrote."""
        import json

        try:
            data = json.loads(text)
        except ValueError as error:
            raise InvalidArgument(f"this is no plan: {error}") from error
        if not isinstance(data, dict) or data.get("version") != VERSION:
            version = data.get("version") if isinstance(data, dict) else None
            raise InvalidArgument(f"this plan has schema version {version}; this release reads {VERSION}: compile anew")
        return cls.of(data, data["strings"], lambda name, item: _decode(item))

    @classmethod
    def of(cls, data: dict[str, Any], strings: Sequence[str], weight: Callable[[str, Any], np.ndarray]) -> Plan:
        """The plan that `data` describes; `weight` gives the constant for a name and its stored form."""
        entries = {name: data[name] for name in _STORED}
        terms = resolved(data["sizes"])
        for name, kind in _SHAPED.items():
            entries[name] = [kind(**item) for item in data[name]]
            for item in entries[name]:
                item.shape = [terms.get(size, size) for size in item.shape]
        for buffer in entries["buffers"]:
            buffer.elements = terms.get(buffer.elements, buffer.elements)
        for name in ("steps", "setup"):
            entries[name] = list(map(step_of, data[name]))
            for step in entries[name]:
                if isinstance(step, Launch):
                    step.params = [terms.get(size, size) for size in step.params]
        entries["guards"] = [[terms.get(size, size), *truth] for size, *truth in data["guards"]]
        entries["weights"] = {name: weight(name, item) for name, item in data["weights"].items()}
        entries["functions"] = [[cls.of(item, strings, weight) for item in plans] for plans in data["functions"]]
        return cls(**entries, strings=strings, terms=terms)


def _step_data(step: Step, terms: Terms) -> dict[str, Any]:
    """A step as JSON."""
    return vars(step) | {"params": terms.names(step.params)} if isinstance(step, Launch) else vars(step)


_SHAPED: dict[str, type[Any]] = {"inputs": Port, "outputs": Port, "buffers": Buffer}
_STORED = [f.name for f in fields(Plan) if f.name not in ("compilers", "strings", "terms", "is_beginning")]


def _encode(array: np.ndarray) -> list[Any]:
    import binascii

    text = binascii.b2a_base64(np.ascontiguousarray(array).tobytes(), newline=False).decode()
    return [dtypes.of(array.dtype).name, list(array.shape), text]


def _decode(item: list[Any]) -> np.ndarray:
    import binascii

    name, shape, text = item
    return np.frombuffer(binascii.a2b_base64(text), dtypes.by_name(name).storage).reshape(shape)
