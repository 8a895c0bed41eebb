"""The primitive that keeps caches: what is new goes to the room behind what is there, which stays where it lies."""

from __future__ import annotations

import numpy as np

from sardonyx.primitives.array import Array, Primitive, primitive
from sardonyx.primitives.elementwise import Types, Values, concrete
from sardonyx.sizes.symbolic import Size


class Append(Primitive):
    """A cache with `new` in the place of its elements from `start` on along an axis.

    The result lies where the cache does, which is an input of the trace and has no other reader behind this.
    """

    name = "append"

    def infer(self, cache: Array, new: Array, axis: int, start: Size) -> Types:
        return [(cache.dtype, cache.shape)]

    def numpy(self, cache: np.ndarray, new: np.ndarray, axis: int, start: Size) -> Values:
        (first,) = concrete((start,))
        result = cache.copy()
        result[(slice(None),) * axis + (slice(first, first + new.shape[axis]),)] = new
        return [result]


APPEND = primitive(Append)
