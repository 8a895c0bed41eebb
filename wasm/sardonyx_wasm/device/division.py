"""Products that threads divide by panels, or matrix by matrix, rather than by rows. No sum changes."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from .blas import Product
from .shares import part
from .widths import is_heavy

_FEW = 16  # rows that a thread should have
_UNEVEN = 1.2  # how much more the busiest thread may do than its share


def is_wide(product: Product, threads: int) -> bool:
    """Whether so many threads had better divide the panels than the rows: they then read less."""
    is_low = product.rows < _FEW * threads
    if not is_low and not is_heavy(product.rows, product.depth, product.columns):
        return False
    panels = len(product.panels)
    most = -(-panels // threads) * threads
    return panels >= threads and (is_low or most <= _UNEVEN * panels)


def is_uneven(product: Product, threads: int) -> bool:
    """Whether so many threads had better divide the matrices than their rows."""
    units = product.rows // product.unit
    ends = [product.cut(units * number // threads) for number in range(threads + 1)]
    most = max(end - start for start, end in pairwise([0, *ends[1:]]))
    if product.count < threads or most * threads <= _UNEVEN * units:
        return False
    return not product.is_shared or _most(product, threads) * units < most * product.count


def divided(product: Product, count: int) -> list[Product]:
    """The product in so many parts or fewer; where matrices share operands, group by group, the largest first."""
    if product.is_shared:
        return [product.group(number) for number in _by_size(product)]
    count = min(count, product.count)
    return [_matrices(product, part(range(product.count), number, count)) for number in range(count)]


def _by_size(product: Product) -> list[int]:
    return sorted(range(len(product.groups)), key=lambda number: -prod(product.groups[number][2]))


def _most(product: Product, threads: int) -> int:
    """The matrices of the busiest thread, where each takes the next group once it is done."""
    loads = [0] * threads
    for number in _by_size(product):
        loads[loads.index(min(loads))] += prod(product.groups[number][2])
    return max(loads)


def _matrices(product: Product, which: range) -> Product:
    """Some of the matrices, where none share an operand."""
    x, w, y = product.addresses
    a = product.a._replace(address=x + which.start * product.a.between)
    b = product.b._replace(address=w + which.start * product.b.between)
    c = product.c._replace(address=y + which.start * product.c.between)
    sizes = len(which), product.rows, product.depth, product.columns
    return Product(sizes, product.most, a, b, c, product.unit, product.pieces)
