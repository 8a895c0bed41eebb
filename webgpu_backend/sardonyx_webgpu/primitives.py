"""The primitives that this provider brings in: each is a routine, see `routines`."""

from __future__ import annotations

from sardonyx.array import Primitive


class _Matmul(Primitive):
    """a [*batch, M, K] x b [*batch or none, K, N] to [*batch, M, N], in tiles of `tile` rows and fours of columns."""

    name = "matmul"


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


class _WinogradOutput(Primitive):
    """y [places, tiles, N] to [B, rows, columns, M]; the last tiles may hang over."""

    name = "winograd_output"


MATMUL, CONV, DEPTHWISE = _Matmul(), _Conv(), _Depthwise()
WINOGRAD_INPUT, WINOGRAD_OUTPUT = _WinogradInput(), _WinogradOutput()
