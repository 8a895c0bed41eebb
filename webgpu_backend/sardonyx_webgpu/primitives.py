"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.array import Primitive
from sardonyx.primitives.indexing import NonZero


class _Matmul(Primitive):
    """a [*batch, M, K] x b [*batch or none, K, N] to [*batch, M, N], in tiles of `tile` rows and fours of columns."""

    name = "matmul"


class _SortRuns(Primitive):
    """Keys [lines, n] of unsigned integers, and int32 [lines, n] where they come from, or not: then from their places.
    The first `keep` in order of every `group` along a line, [lines, groups * keep] or [lines, n] if all are kept; where
    a group has fewer, keys are the largest. Equal keys stay in order."""

    name = "sort_runs"


class _MergeRuns(Primitive):
    """Keys [lines, n] and where they come from, in order in runs of `run`, to the same in runs of four times that."""

    name = "merge_runs"


class _FindNonZero(NonZero):
    """The primitive `nonzero`, given x and for all blocks of 64 elements how many are not zero up to its end, int32."""

    name = "find_nonzero"


class _FirstUpdates(Primitive):
    """The slots of updates in order, uint32 [count], to where the first update of each slot, or of a later one, is
    among them, int32 [slots]."""

    name = "first_updates"


class _LastUpdates(Primitive):
    """The slots of updates in order, uint32 [count], and the numbers of these updates, int32 [count], to the number of
    the last update of each slot, int32 [slots], or -1."""

    name = "last_updates"


class _CombineUpdates(Primitive):
    """x [slots, width] and updates [count, width], combined by `reduction` one after the other, in the order of their
    numbers, int32 [count], in which those of a slot, `most` at most, are from its place, int32 [slots + 1], to the next
    one's."""

    name = "combine_updates"


class _Suppress(Primitive):
    """Sides [images, 4, boxes], scores [images, classes, boxes], the boxes in falling order of their scores, int32
    [images, classes, boxes], and two numbers of `suppression`, most and overlap; its result. A score of -inf is out."""

    name = "suppress"


class _WalkTrees(Primitive):
    """x, roots, feature, split and next of `tree_ensemble` to the leaves, int32 [trees, rows], after `depth` steps."""

    name = "walk_trees"


MATMUL = _Matmul()
SORT_RUNS, MERGE_RUNS, FIND_NONZERO = _SortRuns(), _MergeRuns(), _FindNonZero()
FIRST_UPDATES, LAST_UPDATES, COMBINE_UPDATES = _FirstUpdates(), _LastUpdates(), _CombineUpdates()
SUPPRESS, WALK_TREES = _Suppress(), _WalkTrees()
