"""The primitives that this provider brings in: each is a routine, see `routines`. What legalization must know of a
routine stands here, so that it need not import what writes code."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.compiler.legalization.ranges import Range, bounds
from sardonyx.primitives.array import Equation, Primitive
from sardonyx.sizes.symbolic import Size


class _Matmul(Primitive):
    """a [*batch, M, K] x b [*batch or none, K, N] to [*batch, M, N]."""

    name = "matmul"


class _MatmulPacked(Primitive):
    """a [M, K] x b [panels, K, nr] to [M, N]; `n` columns in panels of `nr`, the last one filled up with zeros."""

    name = "matmul_packed"


class _MatmulPanels(Primitive):
    """a [..., K] x b [panels, K, nr] to [..., n]: natively, by BLAS."""

    name = "matmul_panels"


class _ConvPanels(Primitive):
    """x [B, *spatial, C], border included, x w [(groups,) panels, taps * C / groups, nr] to [B, *sizes, n]: by BLAS."""

    name = "conv_panels"


class _ConvWinograd(Primitive):
    """x [B, H, W, C], border included, x u [Q, panels, C, nr] to [B, Ho, Wo, n]; `tile` has the outputs of a tile along
    both axes. Natively, BLAS does the products."""

    name = "conv_winograd"


class _ConvWinogradInt8(Primitive):
    """x of int16 [B, H, W, C], border included, x weights [places, panels, C / 2, width, 2] of three taps by axis,
    or one, to int32 [B, Ho, Wo, M]; C is even. `tile` has the outputs of a tile along both axes."""

    name = "conv_winograd_int8"


class _ConvLineInt8(Primitive):
    """x of int16 [S, L, C], border included, x weights [7 or 8, panels, filters * C / 2, width, 2] of four
    taps each, or of four but five in the last, to int32 [S, Lo, M]; C is even."""

    name = "conv_line_int8"


class _MatmulInt8(Primitive):
    """a [..., K] of int16 x b [panels, K / 2, width, 2] of integers up to 16 bits to int32 [..., N]; K is even."""

    name = "matmul_int8"
    widths: Mapping[int, float] = {12: 1.0, 16: 1.05, 8: 1.3}
    """The columns that a panel may have, and what one of them takes: of eight, as V8 has them."""

    def width(self, columns: Size) -> int:
        """The columns of a panel: those that cost less, the last panel's filling included.

        >>> [MATMUL_INT8.width(columns) for columns in (64, 128, 40, 7)]
        [16, 12, 12, 8]
        """
        if not isinstance(columns, int):
            return next(iter(self.widths))
        return min(self.widths, key=lambda width: self.widths[width] * -(-columns // width) * width)


class _MatmulQuads(Primitive):
    """(a - zero) [..., K] of uint8 x b [panels, K / 4, width, 4] of int8 to int32 [..., N]; K is a multiple of 4.

    Behind b are sums [panels * width] of its columns, zero [], and what b lacks: starts [panels + 1] and elements."""

    name = "matmul_quads"
    width = 16
    """The columns of a panel."""
    pair = 128
    """What two neighbours in a column of b add up to at most: hosts add their products with bytes in 16 bits."""


class _Requantize(Primitive):
    """Sums x [..., C] + bias [P], times scale [P], rounded, from limits [0] to [1]; what a table [256] has for how far
    they are above the lower limit, or that + limits [2]. With a border of zeros, `border` rows and columns before."""

    name = "requantize"

    def bounds(self, equation: Equation) -> Range | None:
        limits = equation.inputs[3].value
        if len(equation.inputs) > 4 or limits is None:
            return bounds(equation.inputs[-1]) if len(equation.inputs) > 4 else None
        low, high, first = map(int, limits)
        return first, first + high - low


class _Lookup(Primitive):
    """What a table [256] has for each byte of x [..., C]; with a border of zeros as `requantize`."""

    name = "lookup"

    def bounds(self, equation: Equation) -> Range:
        return bounds(equation.inputs[-1])


class _MatmulNBits(Primitive):
    """a [M, K] x weights of `bits` bits in blocks of `block` along K, their scales and zero points, to [M, N]."""

    name = "matmul_nbits"
    longest = 256
    """Numbers in a block at most: sums of products of 15 and 8 bits stay below 2**31."""
    deepest = 16384
    """The greatest K: so few rows, and a panel of floats, fit the scratch memory."""


class _ConvPacked(Primitive):
    """x [B, *spatial, C], border included, x w [groups * panels, taps * C / groups, nr] to [B, *sizes, M]."""

    name = "conv_packed"


class _ConvGrouped(Primitive):
    """x as `conv_packed` takes it, x w [M / 4, lines of taps, C / groups, kw, 4] to [B, *sizes, M]."""

    name = "conv_grouped"
    lanes = 4
    """Channels of outputs at once: a group has a multiple of it."""


class _Im2col(Primitive):
    """x [B, *spatial, C], border included, to what each window sees, [B, *sizes, taps * C]; int16 end in a zero where
    their number is odd."""

    name = "im2col"


class _Depthwise(Primitive):
    """x [B, *spatial, C], border included, x w [taps, C] to [B, *sizes, C]."""

    name = "depthwise"
    taps = 7
    """Taps along x that a tile has code for; more are a loop."""


class _Pool(Primitive):
    """x [B, H, W, C] of float32 to [B, Ho, Wo, C]: the `function`, "max", "min" or "sum", of what each window sees."""

    name = "pool"
    most = 1 << 13
    """Elements of a row that windows of one place may see."""


MATMUL, MATMUL_PACKED = _Matmul(), _MatmulPacked()
MATMUL_INT8, MATMUL_NBITS, MATMUL_QUADS = _MatmulInt8(), _MatmulNBits(), _MatmulQuads()
REQUANTIZE, LOOKUP = _Requantize(), _Lookup()
MATMUL_PANELS, CONV_PANELS, CONV_WINOGRAD = _MatmulPanels(), _ConvPanels(), _ConvWinograd()
CONV_WINOGRAD_INT8 = _ConvWinogradInt8()
CONV_LINE_INT8 = _ConvLineInt8()
POOL = _Pool()
CONV_PACKED, CONV_GROUPED, IM2COL, DEPTHWISE = _ConvPacked(), _ConvGrouped(), _Im2col(), _Depthwise()


class _Resample(Primitive):
    """x [H, W, C] of bytes to [T, S, C] of float32: for each row the rows of x [T, m], and their weights [T, m], of
    which it is a sum; and the same of columns [S, n]."""

    name = "resample"


class _Select(Primitive):
    """The first elements of the lines [..., n] of x in order, [..., k], and where they are; `largest` ones or not."""

    name = "select"


class _SortLines(Primitive):
    """The lines [..., n] of x in order, where the elements were, and the memory that it takes, if not the scratch's."""

    name = "sort_lines"


class _Suppress(Primitive):
    """The primitive `suppression`, and the memory that it takes, if not the scratch's."""

    name = "suppress"


class _Attend(Primitive):
    """The primitive `attention` with one bias, if any, [B or 1, H or 1, S or 1, T].

    A query and a value have at most `LARGEST` elements; fewer than `FEW` queries do without panels of keys.
    """

    name = "attend"
    LARGEST = 256
    FEW = 8


class _Accumulate(Primitive):
    """The primitive `cumulative`."""

    name = "accumulate"


class _BlockExtremes(Primitive):
    """The lowest and the highest of every `block` elements of x [n], of float32, both [blocks]."""

    name = "block_extremes"
    block = 1 << 14


class _ScatterUpdates(Primitive):
    """The primitive `scatter` without indices that merely count; `lines` pairs axes of x and of the indices instead."""

    name = "scatter_updates"


class _WalkTrees(Primitive):
    """The primitive `tree_ensemble` with its tables as records, see `legalization.trees`."""

    name = "walk_trees"


ACCUMULATE, ATTEND, SCATTER_UPDATES, WALK_TREES = _Accumulate(), _Attend(), _ScatterUpdates(), _WalkTrees()
BLOCK_EXTREMES = _BlockExtremes()
RESAMPLE, SELECT, SORT_LINES, SUPPRESS = _Resample(), _Select(), _SortLines(), _Suppress()
