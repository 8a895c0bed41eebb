"""Caches of decoders, in place: what a graph joins to a cache is stored in the room behind it, and nothing is copied.

concat (past [B, H, P, D], new [B, H, S, D]) -> present     what the graph says
append (cache [B, H, C, D], new, start P) -> cache          stored in the same memory, of C >= P + S places
slice (cache, P + S) -> present                             an index, not a copy
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import primitives as p
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.errors import InvalidArgument
from sardonyx.model.structure import Cached
from sardonyx.primitives.array import Array, Equation
from sardonyx.primitives.caching import APPEND
from sardonyx.primitives.movement import SLICE
from sardonyx.primitives.trace import Trace
from sardonyx.sizes.symbolic import same


def keep_in_place(trace: Trace, outputs: Sequence[str]) -> None:
    """Have what the trace joins to its caches stored behind them; `outputs` names what it gives.

    Raises InvalidArgument where an output is anything but a cache and what is joined to it.
    """
    joins = {}
    for cache, held in trace.caches.items():
        if held.output not in outputs:
            raise InvalidArgument(f"the model has no output {held.output!r} that {cache.name!r} could be the cache of")
        present = trace.outputs[outputs.index(held.output)]
        joins[_join(cache, held, present)] = cache, held
    rewriter = Rewriter(trace)

    def rule(equation: Equation) -> bool:
        if equation not in joins:
            return False
        cache, held = joins[equation]
        (present,) = equation.outputs
        axis, (past, *parts) = held.axis, equation.inputs
        start, total = past.shape[axis], present.shape[axis]
        if not cache.shape[axis] >= total:
            raise InvalidArgument(f"{cache.name!r} has room for {cache.shape[axis]}, and {total} are to be kept")
        new = p.concat(parts, axis)
        _ = new.shape[axis] == 1  # a guard: plans for one token are others than those for several
        whole = rewriter.record(APPEND, (cache, new), {"axis": axis, "start": start}, cache.dtype, cache.shape)
        ends = {"starts": (0,) * cache.rank, "steps": (1,) * cache.rank, "sizes": present.shape}
        rewriter.define(present, SLICE, (whole,), ends)
        trace.outputs[outputs.index(held.output)] = whole
        return True

    rewriter.run(rule)


def cache_of(array: Array, axis: int) -> Array | None:
    """The cache of which an Array is the first places along an axis, None where it is none."""
    equation = array.equation
    if equation is None or equation.primitive.name != "slice":
        return None
    (cache,), starts, steps = equation.inputs, equation.params["starts"], equation.params["steps"]
    others = [k for k in range(array.rank) if k != axis]
    is_start = all(isinstance(start, int) and start == 0 for start in starts) and all(step == 1 for step in steps)
    is_kept = cache.equation is not None and cache.equation.primitive is APPEND
    return cache if is_start and is_kept and all(same(array.shape[k], cache.shape[k]) for k in others) else None


def _join(cache: Array, held: Cached[Array], present: Array) -> Equation:
    """The concatenation that makes an output of a cache."""
    join = present.equation
    is_join = join is not None and join.primitive.name == "concat" and join.params["axis"] == held.axis
    if join is None or not is_join or join.inputs[0] is not held.tensor:
        raise InvalidArgument(f"{held.output!r} is not {cache.name!r} with more behind it along axis {held.axis}")
    return join
