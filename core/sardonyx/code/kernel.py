"""Kernels: an index space, scalar expressions over it, optionally a reduction with an epilogue. Plain data.

A kernel's `nodes` are in static single assignment, each `[function, dtype, operands, detail]`, operands being the
numbers of earlier nodes:

    const   detail: the number ("nan", "inf", "-inf" as text)
    index   an int32; detail: an Index
    load    detail: [buffer, Index]
    acc     detail: number of the fold whose result this is
    cast, bitcast, and the scalar functions of `sardonyx.code.scalar`

An Index is `[offset, [[axis, stride], ...], [[node, stride], ...]]`: offset plus axes times strides plus int32 nodes
times strides. Axes count through `space`, then `reduce`. Offsets, strides and extents are Sizes: an integer, or "p3"
for the fourth parameter. Folds are `[function, dtype, node]` with function one of `identity`'s; `argmax` and `argmin`
give the int32 index along the reduction axes in row-major order. Buffers are numbered, those read first.
"""

from __future__ import annotations

from typing import Any

from sardonyx.common.cached import cached_property
from sardonyx.common.fingerprint import fingerprint
from sardonyx.common.record import fields, record

Detail = Any


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _fields(code: Kernel | Routine | Rows) -> dict[str, Any]:
    return {f.name: getattr(code, f.name) for f in fields(code)}


def _digest(code: Kernel | Routine | Rows) -> str:
    import json  # which a kept plan of few kernels does without

    parts = [getattr(code, f.name) for f in fields(code) if f.name != "name"]
    return fingerprint(json.dumps(parts).encode()).hexdigest()[:16]


@record(frozen=True)
class Kernel:
    """`stores` are `[buffer, Index, node]`; what depends on reduction axes may reach a store only through a fold.

    `multiples` has for each parameter a divisor, 1, 2 or 4, if the provider asks for that (`Provider.lanes`).
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: int
    space: tuple[Any, ...]
    reduce: tuple[Any, ...]
    folds: tuple[Any, ...]
    nodes: tuple[Any, ...]
    stores: tuple[Any, ...]
    multiples: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"kind": "kernel", **_fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Kernel:
        return cls(*(_frozen(data[f.name]) for f in fields(cls)))

    @cached_property
    def key(self) -> str:
        """A digest of all but the name: equal kernels share their compiled code."""
        return _digest(self)

    def depths(self) -> list[int]:
        """For every node: 0 if it depends on no reduction axis or fold, 1 on a reduction axis, 2 on a fold's result."""
        result: list[int] = []
        inner = len(self.space)
        for function, _, operands, detail in self.nodes:
            depth = max((result[operand] for operand in operands), default=0)
            if function == "acc":
                depth = 2
            elif function in ("index", "load"):
                _, axes, extra = detail if function == "index" else detail[1]
                if any(axis >= inner for axis, _ in axes):
                    depth = max(depth, 1)
                depth = max([depth, *(result[node] for node, _ in extra)])
            result.append(depth)
        return result


@record(frozen=True)
class Routine:
    """A primitive that a device runs by a function of its own, on whole buffers.

    `attributes` are the primitive's parameters and `inputs` and `outputs` the shapes of its operands; sizes in them are
    "p3" for the fourth parameter where they are not integers.

    The `epilogue`, if any, is what is done to each element of the result: the fields of a Kernel without folds, whose
    node `acc` is the element, and whose space counts the elements in row-major order. The first buffer that it reads
    comes after those of `inputs`, and what it stores is written instead of the result.

    `views` has for each operand None where it lies in row-major order, or `[nodes, Index]`, where in the buffer its
    elements are: over its axes, with nodes as a Kernel's. It is empty if all are None. `same` gives for each buffer the
    first one that is the same, and is empty if all differ.
    """

    name: str
    primitive: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: int
    attributes: Any
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    multiples: tuple[int, ...] = ()
    epilogue: Any = None
    views: tuple[Any, ...] = ()
    same: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"kind": "routine", **_fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Routine:
        return cls(*(_frozen(data[f.name]) for f in fields(cls)))

    @cached_property
    def key(self) -> str:
        return _digest(self)


@record(frozen=True)
class Rows:
    """Kernels one after the other, row by row: the first axes of each one's space are the extents `rows`.

    `kernels` are `[space, reduce, folds, nodes, stores]`, over the buffers and parameters of all. What one of them has
    stored, a later one loads in the same row only. These nodes and stores are the rows' own:

        row     detail: [kernel, node]: what a node of an earlier kernel was in this row, one that depends on the row
                or a fold alone

    A store of what depends on reduction axes is made where its fold takes that element. Rows that are `wide` have
    enough elements side by side for many threads each.
    """

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    params: int
    rows: tuple[Any, ...]
    kernels: tuple[Any, ...]
    wide: bool
    multiples: tuple[int, ...] = ()

    def json(self) -> dict[str, Any]:
        return {"kind": "rows", **_fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Rows:
        return cls(*(_frozen(data[f.name]) for f in fields(cls)))

    @cached_property
    def key(self) -> str:
        return _digest(self)

    def parts(self) -> list[Kernel]:
        """The kernels, each with the buffers and parameters of all."""
        head, multiples = (self.name, self.reads, self.writes, self.params), self.multiples
        return [
            Kernel(*head, tuple(space), tuple(reduce), tuple(folds), tuple(nodes), tuple(stores), multiples)
            for space, reduce, folds, nodes, stores in self.kernels
        ]
