"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.primitives.array import Primitive
from sardonyx.primitives.indexing import NonZero


class _Attend(Primitive):
    """q [B, H, S, D], k [B, G, T, D] and v [B, G, T, E], then a bias if `biased` and a condition if `masked`, both
    [B, H, S, T], to float32 [B, H, S, E], as core's `attention`. `share` heads of queries are with each of keys, D is
    `depth` and E `width`; a thread takes `rows` queries at most."""

    name = "attend"


class _Matmul(Primitive):
    """a [B, M, K] x b [B, K, N] to [B, M, N], by the design `software` or `hardware` (`designs`)."""

    name = "matmul"


class _MatmulNBits(Primitive):
    """a [1, M, K] x weights to [1, M, N], by a design as `matmul` has it.

    Words [K / P, N] hold P numbers of `bits` bits. Scales [blocks, N] are those of `repeat` times `chunk` numbers along
    K, or of all if that is 0; so are zero points of uint8, if there is no one `zero`. N is filled up to fours, and K to
    whole chunks where it is `guarded`.
    """

    name = "matmul_nbits"


class _MatmulInt8(Primitive):
    """a [B, M, K] of int8 or uint8 x words of four bytes along K, [B, K / 4, N], to int32 [B, M, N], by a design as
    `matmul` has it. All bytes are `signed` or none: those of a then are what is above 128. K and N are multiples of
    four but that of the result."""

    name = "matmul_int8"


class _Recur(Primitive):
    """Core's `recurrent` with weights as `recurrent.packed` has them; `hidden` is H; a workgroup takes `rows`
    sequences. States of all steps are [steps, batch, directions, H]."""

    name = "recur"


class _Conv(Primitive):
    """x [B, *size, C] * w [*taps, C / groups, N] to [B, *out, M], N being M filled up to fours.

    A `tile` has so many places, and fours of channels. There is "one" of `groups`, those of "whole" fours, or "mixed".

    `strides`, `dilations`, `low` and `spread` are as `conv_general` has them.
    """

    name = "conv"


class _Depthwise(Primitive):
    """x [B, H, W, C] * w [*kernel, N] to [B, *out, M], channel m of x's m / `multiplier`, in tiles of `tile` places."""

    name = "depthwise"


class _WinogradInput(Primitive):
    """x [B, H, W, C] to [places, tiles, N], N being C filled up to fours.

    `tiles` counts images, and tiles along both axes, whose elements are `apart`; `tile`, `kernel`, `strides` and
    `dilations` of 1 are those of `legalization.filtering.filters`.
    """

    name = "winograd_input"


class _WinogradWeights(Primitive):
    """w [N, C, taps] to [places, C, N], those of tiles of `tile` outputs as `winograd_input` has them."""

    name = "winograd_weights"


class _WinogradOutput(Primitive):
    """y [places, tiles, N] to [B, rows, columns, M]; the last tiles may hang over."""

    name = "winograd_output"


ATTEND, MATMUL, RECUR, CONV, DEPTHWISE = _Attend(), _Matmul(), _Recur(), _Conv(), _Depthwise()
MATMUL_INT8, MATMUL_NBITS = _MatmulInt8(), _MatmulNBits()
WINOGRAD_INPUT, WINOGRAD_WEIGHTS, WINOGRAD_OUTPUT = _WinogradInput(), _WinogradWeights(), _WinogradOutput()


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
    """x [slots, width] and updates [count, width], combined by `reduction`, one after the other, in the order of
    numbers, int32 [count]. Those of a slot, `most` at most, begin at its place in int32 [slots + 1], and end at the
    next one's; `unrolled` of them are a turn of a loop."""

    name = "combine_updates"


class _Suppress(Primitive):
    """Sides [images, 4, boxes], scores [images, classes, boxes], the boxes in falling order of their scores, int32
    [images, classes, boxes], and two numbers of `suppression`, most and overlap; its result. A score of -inf is out."""

    name = "suppress"


class _WalkTrees(Primitive):
    """x, roots, feature, split and next of `tree_ensemble` to the leaves, int32 [trees, rows], after `depth` steps."""

    name = "walk_trees"


SORT_RUNS, MERGE_RUNS, FIND_NONZERO = _SortRuns(), _MergeRuns(), _FindNonZero()
FIRST_UPDATES, LAST_UPDATES, COMBINE_UPDATES = _FirstUpdates(), _LastUpdates(), _CombineUpdates()
SUPPRESS, WALK_TREES = _Suppress(), _WalkTrees()
