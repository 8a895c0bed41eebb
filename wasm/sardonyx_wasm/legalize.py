"""What becomes of a trace before it is fused: products and convolutions turn into routines, images into channels last.

Convolutions read and write [batch, height, width, channels]. What lies between them is computed in that order too: an
Array of the model's order [batch, channels, ...] that such a kernel writes is a mere view of it (`_last`), and views
cost nothing, because movement is index arithmetic. Borders are explicit, so that whoever makes an image writes its
zeros. Weights are put into the order that routines read by movement as well: what depends on weights alone runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np

from sardonyx import dtypes
from sardonyx import primitives as p
from sardonyx.array import Array, Equation, Trace, constant
from sardonyx.compiler.rewriting import Rewriter
from sardonyx.symbolic import Size, hint, maximum, product

from . import blas, dequantized, quantized, recurrent, selection, trees
from . import primitives as own
from .routines.filtering import tile_size, weight_transform
from .routines.tile import panel_width

FEWEST = 512
"""Products of fewer multiplications stay generated kernels."""


def legalize(trace: Trace, origins: Collection[int], target: str) -> None:
    """Rewrite the equations of these ONNX nodes for a host's compiler: "wasmtime" or "v8"."""
    _Legalizer(trace, origins, target).run()


class _Legalizer(Rewriter):
    def __init__(self, trace: Trace, origins: Collection[int], target: str) -> None:
        super().__init__(trace)
        self.origins = origins
        self.target = target
        self.width = panel_width(target)
        self._last: dict[int, Array] = {}
        self._kept: list[Array] = []

    def run(self) -> None:  # type: ignore[override]
        super().run(self._rule)

    def _rule(self, equation: Equation) -> bool:
        if equation.origin not in self.origins:
            return False
        rule = _RULES.get(equation.primitive.name)
        return rule is not None and rule(self, equation)

    # ---- channels last

    def last(self, x: Array) -> Array:
        """The Array with its channels last."""
        if id(x) not in self._last:
            self._remember(x, p.transpose(x, _last_order(x.rank)))
        return self._last[id(x)]

    def _remember(self, x: Array, last: Array) -> None:
        self._last[id(x)] = last
        self._kept += (x, last)
        if last.equation is not None:
            self.trace.laid.add(id(last))

    def define_last(self, x: Array, last: Array) -> None:
        """Say what an Array is by what it is with its channels last."""
        self.define_transposed(x, last, _first_order(x.rank))
        self._remember(x, last)

    def is_image(self, x: Array) -> bool:
        """Whether an Array was made with its channels last."""
        return id(x) in self._last and x.equation is not None

    def _follow(self, equation: Equation) -> bool:
        """Compute in the order in which the operands lie."""
        (output,) = equation.outputs
        if output.rank < 3 or not any(x.rank == output.rank and self.is_image(x) for x in equation.inputs):
            return False
        renamed = self.renamed(equation)
        self.define_last(output, p.transpose(renamed, _last_order(output.rank)))
        return True

    def _concat(self, equation: Equation) -> bool:
        (output,) = equation.outputs
        if output.rank < 3 or not any(map(self.is_image, equation.inputs)):
            return False
        axis = _last_order(output.rank).index(equation.params["axis"])
        self.define_last(output, p.concat([self.last(x) for x in equation.inputs], axis))
        return True

    # ---- products

    def _dot_general(self, equation: Equation) -> bool:
        a, b = equation.inputs
        (output,) = equation.outputs
        if not (_is_float(a) and _is_float(b) and equation.params["dtype"].is_float):
            return quantized.dot_general(self, equation)
        if dequantized.dot_general(self, equation):
            return True
        left, right = ([*sides] for sides in equation.params["batch"])
        contract = equation.params["contract"]
        rows = [axis for axis in range(a.rank) if axis not in (*left, *contract[0])]
        columns = [axis for axis in range(b.rank) if axis not in (*right, *contract[1])]
        depth = [a.shape[axis] for axis in contract[0]]
        sizes = [hint(product([x.shape[k] for k in axes])) for x, axes in ((a, left), (a, rows), (b, columns))]
        if prod(sizes) * hint(product(depth)) < FEWEST or 0 in sizes:
            return False
        batch = [a.shape[axis] for axis in left]
        m, n = (product([x.shape[axis] for axis in axes]) for x, axes in ((a, rows), (b, columns)))
        k = product(depth)
        first = p.reshape(p.transpose(a, [*left, *rows, *contract[0]]), [*batch, m, k])
        second = p.reshape(p.transpose(b, [*right, *contract[1], *columns]), [*batch, k, n])
        self.define_reshaped(output, self.matmul(first, second, output.dtype))
        return True

    def matmul(self, a: Array, b: Array, dtype: dtypes.DType) -> Array:
        """The product of two matrices, or of stacks of them."""
        a, b = p.cast(a, dtypes.float32), p.cast(b, dtypes.float32)
        *batch, k, n = b.shape
        if not batch and isinstance(n, int) and isinstance(k, int) and self.is_constant(b) and self.target == "v8":
            made = self.record(
                own.MATMUL_PACKED, [a, self.packed(b)], {"n": n, "nr": self.width}, dtypes.float32, (*a.shape[:-1], n)
            )
        elif not batch and (nr := self.panel_width(a.shape[:-1], b)):
            made = self.record(
                own.MATMUL_PANELS, [a, self.packed(b, nr)], {"n": n, "nr": nr}, dtypes.float32, (*a.shape[:-1], n)
            )
        else:
            made = self.record(own.MATMUL, [a, b], {}, dtypes.float32, (*a.shape[:-1], n))
        return p.cast(made, dtype)

    def panel_width(self, rows: Sequence[Size], b: Array) -> int:
        """Columns of the panels in which BLAS wants the right side of a large product, 0 for as it is."""
        depth, columns = b.shape
        if not (self.target == "wasmtime" and isinstance(depth, int) and isinstance(columns, int)):
            return 0
        large = hint(product(rows)) * depth * columns >= blas.FEWEST
        return blas.panel_width(depth, columns) if large and self.is_constant(b) else 0

    def packed(self, b: Array, nr: int = 0) -> Array:
        """Matrices [..., K, N] in panels: [..., ceil(N / nr), K, nr]; `nr` is that of the host's tiles if not given."""
        *outer, k, n = b.shape
        nr = nr or self.width
        panels = -(-int(n) // nr)
        zeros = [0] * len(outer)
        wide = p.pad(b, [*zeros, 0, 0], [*zeros, 0, panels * nr - int(n)])
        axes = [*range(len(outer)), len(outer) + 1, len(outer), len(outer) + 2]
        return p.transpose(p.reshape(wide, [*outer, k, panels, nr]), axes)

    # ---- convolutions

    def _conv_general(self, equation: Equation) -> bool:
        x, w = equation.inputs
        (output,) = equation.outputs
        params = equation.params
        known = all(isinstance(size, int) for size in w.shape) and hint(output.size) > 0
        if not (known and _is_float(x) and x.rank in (3, 4) and _plain(params)):
            return quantized.conv_general(self, equation)
        image, kernel = p.cast(self.last(x), dtypes.float32), p.cast(w, dtypes.float32)
        lines = [params["strides"], params["dilations"], params["spread"], params["low"]]
        if flat := x.rank == 3:  # an image of one column: units are rows
            image = p.reshape(image, [*image.shape[:2], 1, image.shape[2]])
            kernel = p.reshape(kernel, [*w.shape, 1])
            lines = [[*line, fill] for fill, line in zip((1, 1, 1, 0), lines, strict=True)]
        shape = [output.shape[0], *output.shape[2:], *([1] * flat), output.shape[1]]
        strides, dilations, spread, low = lines
        if all(step == 1 for step in spread):
            made = self.convolve(image, kernel, shape, params["groups"], strides, dilations, low)
        else:
            made = self._transposed(image, kernel, shape, params["groups"], spread, low)
        made = p.cast(made, output.dtype)
        if flat:
            made = p.reshape(made, [*made.shape[:2], made.shape[3]])
        self.define_last(output, made)
        return True

    def _transposed(
        self, image: Array, w: Array, shape: Sequence[Size], groups: int, spread: Sequence[int], low: Sequence[int]
    ) -> Array:
        """A convolution of an image with zeros between its elements: one without zeros for each phase of the outputs.

        Output s * j + r meets the taps t = low - r (mod s), every s-th, at the elements from j - (low - r - t) / s on.
        """
        sizes = [(size + step - 1) // step for size, step in zip(shape[1:3], spread, strict=True)]
        phases = []
        for phase in np.ndindex(*spread):
            first = [(before - r) % step for before, r, step in zip(low, phase, spread, strict=True)]
            starts = [(b - r - t) // step for b, r, t, step in zip(low, phase, first, spread, strict=True)]
            counts = [max(0, (int(n) - t + s - 1) // s) for n, t, s in zip(w.shape[2:], first, spread, strict=True)]
            if 0 in counts:
                phases.append(p.full([shape[0], *sizes, shape[3]], 0.0, dtypes.float32))
                continue
            part = p.slice_(w, [0, 0, *first], [*w.shape[:2], *counts], [1, 1, *spread])
            phases.append(self.convolve(image, part, [shape[0], *sizes, shape[3]], groups, (1, 1), (1, 1), starts))
        together = p.reshape(p.concat(phases, 3), [shape[0], *sizes, *spread, shape[3]])
        wide = [size * step for size, step in zip(sizes, spread, strict=True)]
        made = p.reshape(p.transpose(together, [0, 1, 3, 2, 4, 5]), [shape[0], *wide, shape[3]])
        return p.slice_(made, [0, 0, 0, 0], shape)

    def convolve(
        self,
        image: Array,
        w: Array,
        shape: Sequence[Size],
        groups: int,
        strides: Sequence[int],
        dilations: Sequence[int],
        low: Sequence[Size],
    ) -> Array:
        """The convolution of an image [B, H, W, C] with w [M, C / groups, *taps] to this shape [B, Ho, Wo, M].

        `low` are the zeros before the image, whose elements are left out where they are negative.
        """
        made, channels, *taps = map(int, w.shape)
        window = {"kernel": tuple(taps), "strides": tuple(strides), "dilations": tuple(dilations)}
        image, low = _trimmed(image, low)
        seen = [
            (size - 1) * stride + (n - 1) * step + 1
            for size, n, stride, step in zip(shape[1:3], taps, strides, dilations, strict=True)
        ]
        padded = _bordered(image, low, seen)
        if groups == 1 and prod(taps) == 1 and (self.target == "wasmtime" or all(step == 1 for step in strides)):
            return self._by_columns(padded, w, shape, window)
        if channels == 1 and groups > 1:
            if made > groups:
                every = (*padded.shape[:3], groups, made // groups)
                padded = p.reshape(p.broadcast_to(p.unsqueeze(padded, [4]), every), (*padded.shape[:3], made))
            taps_first = p.transpose(p.reshape(w, [made, prod(taps)]), [1, 0])
            return self.record(own.DEPTHWISE, [padded, taps_first], window, dtypes.float32, tuple(shape))
        if m := self._winograd(shape, channels, made, groups, window):
            return self._by_winograd(image, w, shape, low, m)
        if self.target == "wasmtime" and groups == 1:
            return self._by_columns(padded, w, shape, window)
        per_group = made // groups
        weights = p.reshape(w, [groups, per_group, channels, prod(taps)])
        weights = p.reshape(p.transpose(weights, [0, 3, 2, 1]), [groups, prod(taps) * channels, per_group])
        packed = self.packed(weights)
        panels = p.reshape(packed, [product(packed.shape[:2]), *packed.shape[2:]])
        params = {**window, "groups": groups, "m": made, "nr": self.width}
        return self.record(own.CONV_PACKED, [padded, panels], params, dtypes.float32, tuple(shape))

    def _by_columns(self, padded: Array, w: Array, shape: Sequence[Size], window: dict[str, Any]) -> Array:
        """One product with all that the windows see, side by side (im2col)."""
        made, depth = int(w.shape[0]), prod(map(int, w.shape[1:]))
        matrix = p.reshape(p.transpose(w, [2, 3, 1, 0]), [depth, made])
        single = window["kernel"] == (1, 1)
        if single and window["strides"] == (1, 1):
            return self.matmul(p.slice_(padded, [0] * 4, [*shape[:3], depth], [1] * 4), matrix, dtypes.float32)
        if nr := self.panel_width(shape[:3], matrix):
            params = {**window, "n": made, "nr": nr}
            return self.record(own.CONV_PANELS, [padded, self.packed(matrix, nr)], params, dtypes.float32, tuple(shape))
        if single:
            columns = p.slice_(padded, [0] * 4, [*shape[:3], depth], [1, *window["strides"], 1])
        else:
            columns = self.record(own.IM2COL, [padded], window, dtypes.float32, (*shape[:3], depth))
        return self.matmul(columns, matrix, dtypes.float32)

    def _winograd(self, shape: Sequence[Size], channels: int, made: int, groups: int, window: dict[str, Any]) -> int:
        """The outputs of a tile along an axis, 0 where Winograd's algorithm does not pay."""
        if groups != 1 or window != {"kernel": (3, 3), "strides": (1, 1), "dilations": (1, 1)}:
            return 0
        read = blas.READ if self.target == "wasmtime" else 0
        m = tile_size(hint(shape[0]), hint(shape[1]), hint(shape[2]), channels, made, read)
        return m if m > 1 else 0

    def _by_winograd(self, image: Array, w: Array, shape: Sequence[Size], low: Sequence[Size], m: int) -> Array:
        """A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks" (2015)."""
        channels, made = int(w.shape[1]), int(w.shape[0])
        tiles = [(size + m - 1) // m for size in shape[1:3]]
        padded = _bordered(image, low, [count * m + 2 for count in tiles])
        places = (m + 2) ** 2
        count = shape[0] * tiles[0] * tiles[1]
        g = weight_transform(m)
        u = self.matmul(p.reshape(w, [made * channels, 9]), constant(np.kron(g, g).T, dtypes.float32), dtypes.float32)
        u = p.transpose(p.reshape(u, [made, channels, places]), [2, 1, 0])
        if self.target == "wasmtime":
            nr = blas.panel_width(channels, made) or made
            params = {"m": m, "n": made, "nr": nr}
            return self.record(own.CONV_WINOGRAD, [padded, self.packed(u, nr)], params, dtypes.float32, tuple(shape))
        v = self.record(own.WINOGRAD_INPUT, [padded], {"m": m}, dtypes.float32, (count, places, channels))
        params = {"n": made, "nr": self.width}
        y = self.record(own.MATMUL_BATCHED, [v, self.packed(u)], params, dtypes.float32, (count, places, made))
        return self.record(own.WINOGRAD_OUTPUT, [y], {"m": m}, dtypes.float32, tuple(shape))


def _is_float(x: Array) -> bool:
    return x.dtype in (dtypes.float32, dtypes.float16, dtypes.bfloat16)


def _last_order(rank: int) -> list[int]:
    return [0, *range(2, rank), 1]


def _first_order(rank: int) -> list[int]:
    return [0, rank - 1, *range(1, rank - 1)]


def _plain(params: dict[str, Any]) -> bool:
    """Whether a convolution is one that `_transposed` or `convolve` can do."""
    low, spread = params["low"], params["spread"]
    if all(step == 1 for step in spread):
        return True
    ones = all(step == 1 for step in (*params["strides"], *params["dilations"]))
    return ones and all(isinstance(before, int) for before in low)


def _trimmed(image: Array, low: Sequence[Size]) -> tuple[Array, list[Size]]:
    """The image without what lies before the first window, and borders that are not negative."""
    starts = [max(0, -before) if isinstance(before, int) else 0 for before in low]
    if any(starts):
        rest = [size - start for size, start in zip(image.shape[1:3], starts, strict=True)]
        image = p.slice_(image, [0, *starts, 0], [image.shape[0], *rest, image.shape[3]])
    return image, [before + start for before, start in zip(low, starts, strict=True)]


def _bordered(image: Array, low: Sequence[Size], seen: Sequence[Size]) -> Array:
    """The image with zeros before it, and behind it as many as make it at least `seen` high and wide."""
    gaps = [total - size - before for total, size, before in zip(seen, image.shape[1:3], low, strict=True)]
    high = [max(0, gap) if isinstance(gap, int) else maximum(gap, 0) for gap in gaps]
    return p.pad(image, [0, *low, 0], [0, *high, 0])


_RULES: dict[str, Callable[[_Legalizer, Equation], bool]] = {
    **dict.fromkeys(["elementwise", "cast", "pad", "slice", "reduce_window", "gather"], _Legalizer._follow),
    "concat": _Legalizer._concat,
    "dot_general": _Legalizer._dot_general,
    "conv_general": _Legalizer._conv_general,
    "cumulative": selection.cumulative,
    "recurrent": recurrent.pack,
    "scatter": selection.scatter,
    "sort": selection.sort,
    "suppression": selection.suppress,
    "top_k": selection.top_k,
    "tree_ensemble": trees.pack,
}
_TAKES: dict[str, Callable[[Equation], bool]] = {
    "recurrent": recurrent.takes,
    "top_k": selection.takes,
    "tree_ensemble": trees.takes,
}


def takes(equation: Equation) -> bool:
    """Whether there is a routine for this composite primitive with these operands."""
    rule = _TAKES.get(equation.primitive.name)
    return rule is None or rule(equation)
