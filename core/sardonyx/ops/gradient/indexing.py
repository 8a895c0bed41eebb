"""Rules of what reads or writes at computed places."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.ops.gradient.rule import Gradients, Rule, of_one, zeros_like
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.indexing import counts_along
from sardonyx.sizes.symbolic import same


def _gather(equation: Equation, g: Array) -> Gradients:
    x, *indices = equation.inputs
    axes, place, rank = equation.params["axes"], equation.params["place"], indices[0].rank
    if (axis := _picked(x, indices, axes)) is not None:
        return [_at_one(x, g, indices, axes, axis), *[None] * len(indices)]
    order = [*range(place, place + rank), *range(place), *range(place + rank, g.rank)]
    limited = [
        p.minimum(p.maximum(index, 0), p.literal(x.shape[axis] - 1, index.dtype)) for axis, index in zip(axes, indices)
    ]
    added = p.scatter(zeros_like(x), p.transpose(g, order), limited, axes, "add")
    return [added, *[None] * len(indices)]


def _picked(x: Array, indices: Sequence[Array], axes: Sequence[int]) -> int | None:
    """The axis along which one element of each line of x is taken, where that is all that is taken."""
    lines = {axis: counts_along(index) for axis, index in zip(axes, indices, strict=True)}
    free = [axis for axis, line in lines.items() if line is None]
    counted = [line for line in lines.values() if line is not None]
    if len(axes) < x.rank or len(free) != 1 or sorted(counted) != [*range(indices[0].rank)]:
        return None
    whole = all(line is None or same(x.shape[axis], indices[0].shape[line]) for axis, line in lines.items())
    return free[0] if whole else None


def _at_one(x: Array, g: Array, indices: Sequence[Array], axes: Sequence[int], axis: int) -> Array:
    """g at the places that are taken along an axis, without a scatter: whatever reads it can compute it."""
    lines = {own: counts_along(index) for own, index in zip(axes, indices, strict=True) if own != axis}
    perm = [line for _, line in sorted(lines.items()) if line is not None]
    index = indices[list(axes).index(axis)]
    index = p.minimum(p.maximum(index, 0), p.literal(x.shape[axis] - 1, index.dtype))
    places, values = (p.unsqueeze(p.transpose(array, perm), [axis]) for array in (index, g))
    numbers = p.iota([size if k == axis else 1 for k, size in enumerate(x.shape)], axis, index.dtype)
    return p.where(p.equal(numbers, places), values, 0.0)


def _scatter(equation: Equation, gs: Gradients, wanted: Sequence[bool]) -> Gradients:
    """An update that is written over another one counts as if it stood alone, as PyTorch has it."""
    (g,) = gs
    assert g is not None
    x, updates, *indices = equation.inputs
    axes, reduction = equation.params["axes"], equation.params["reduction"]
    own, written = _SCATTERED[reduction](_Slots(x, updates, indices, axes, equation.outputs[0]), g)
    return [own, written, *[None] * len(indices)]


class _Slots:
    """The places that updates go to."""

    def __init__(self, x: Array, updates: Array, indices: Sequence[Array], axes: Sequence[int], y: Array) -> None:
        self.x, self.updates, self.y = x, updates, y
        self.indices, self.axes = indices, axes

    def put(self, start: Array, values: Array, reduction: str) -> Array:
        """`start` with values in the places of updates."""
        return p.scatter(start, values, self.indices, self.axes, reduction)

    def taken(self, x: Array) -> Array:
        """The elements of an Array like x to which each update goes, 0 for those that are dropped."""
        inside = None
        for index, axis in zip(self.indices, self.axes, strict=True):
            here = (index >= 0) & (index < p.literal(x.shape[axis], index.dtype))
            inside = here if inside is None else inside & here
        assert inside is not None
        found = p.gather(x, self.indices, self.axes)
        return p.where(p.reshape(inside, [*inside.shape, *[1] * (found.rank - inside.rank)]), found, 0.0)


def _written(slots: _Slots, g: Array) -> tuple[Array, Array]:
    return slots.put(g, zeros_like(slots.updates), "none"), slots.taken(g)


def _added(slots: _Slots, g: Array) -> tuple[Array, Array]:
    return g, slots.taken(g)


def _multiplied(slots: _Slots, g: Array) -> tuple[Array, Array]:
    """The product of all other factors, which is told by how many of all are 0."""
    x, updates = slots.x, slots.updates
    zeros = slots.put(_count(p.equal(x, 0.0), g), _count(p.equal(updates, 0.0), g), "add")
    rest = slots.put(_without_zeros(x), _without_zeros(updates), "mul")
    own = others(x, zeros, rest)
    return g * own, slots.taken(g) * others(updates, slots.taken(zeros), slots.taken(rest))


def _chosen(slots: _Slots, g: Array) -> tuple[Array, Array]:
    """Equal ones share it."""
    own, written = p.equal(slots.x, slots.y), p.equal(slots.updates, slots.taken(slots.y))
    share = g / p.maximum(slots.put(_count(own, g), _count(written, g), "add"), 1.0)
    return p.where(own, share, 0.0), p.where(written, slots.taken(share), 0.0)


def _count(condition: Array, g: Array) -> Array:
    return p.cast(condition, g.dtype)


def _without_zeros(x: Array) -> Array:
    return p.where(p.equal(x, 0.0), 1.0, x)


def others(x: Array, zeros: Array, rest: Array) -> Array:
    """The product of the factors besides x, of which so many in all are 0, from the product of those that are not."""
    of_zero = p.where(p.equal(zeros, 1.0), rest, 0.0)
    return p.where(p.equal(x, 0.0), of_zero, p.where(p.equal(zeros, 0.0), rest / _without_zeros(x), 0.0))


_SCATTERED = {"none": _written, "add": _added, "mul": _multiplied, "min": _chosen, "max": _chosen}

RULES: dict[str, Rule] = {"gather": of_one(_gather), "scatter": _scatter}
