"""Products of matrices and tensors, determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import SIZES, Draw, draws

EQUATIONS = {
    "ij,jk->ik": ("ij", "jk"),
    "ij->ji": ("ij",),
    "ij": ("ij",),
    "ii->i": ("ii",),
    "ii": ("ii",),
    "ij->": ("ij",),
    "bij,bjk->bik": ("bij", "bjk"),
    "i,j->ij": ("i", "j"),
    "i,i": ("i", "i"),
    "ab,bc,cd->ad": ("ab", "bc", "cd"),
    "bij,bkj->bik": ("bij", "bkj"),
    "...ij,...jk->...ik": ("...ij", "...jk"),
    "a...b->b...a": ("a...b",),
    "...i->...": ("...i",),
    "bhwc,hkc->bhwk": ("bhwc", "hkc"),
    "iij,jk->ik": ("iij", "jk"),
    " i j , j k -> k ": ("ij", "jk"),
}


@draws("MatMul")
def matmul(d: Draw) -> dict[str, Any]:
    one, two = shapes_of_products(d)
    dtype = d.dtype("T")
    return {"inputs": [d.finite(one, dtype), d.dyadic(two, dtype)], "magnitude": 4.0 * 7, "constant": d.settled(1)}


def shapes_of_products(d: Draw, stacked: bool = True) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of operands of a product: matrices, stacks of them that broadcast, vectors."""
    m, k, n = (d.of(*SIZES, 9) for _ in range(3))
    before = d.broadcast(2, 2) if stacked and d.flag() else [(), ()]
    one, two = (*before[0], m, k), (*before[1], k, n)
    form = d.between(0, 5)
    return (k,) if form == 4 else one, (k,) if form == 5 else two


@draws("Gemm")
def gemm(d: Draw) -> dict[str, Any]:
    m, k, n = (d.of(*SIZES, 9) for _ in range(3))
    dtype = d.dtype("T")
    attributes = d.attributes(transA=(0, 1), transB=(0, 1), alpha=(1.0, 0.5, -2.0), beta=(1.0, 0.0, 2.0))
    if dtype.kind in "iu":
        attributes = {name: value for name, value in attributes.items() if name.startswith("trans")}
    one = (k, m) if attributes.get("transA") else (m, k)
    two = (n, k) if attributes.get("transB") else (k, n)
    c = d.maybe(d.dyadic(d.part((m, n)), dtype))
    return {
        "inputs": [d.finite(one, dtype), d.dyadic(two, dtype), c],
        "attributes": attributes,
        "magnitude": 4.0 * 9,
        "constant": d.settled(1),
    }


def zero_point(d: Draw, shape: Any, dtype: Any) -> np.ndarray:
    return d.values(shape, dtype, edges=False)


@draws("MatMulInteger")
def matmul_integer(d: Draw) -> dict[str, Any]:
    one, two = shapes_of_products(d)
    types = [d.dtype(variable) for variable in ("T1", "T2")]
    zero = d.maybe(zero_point(d, (), types[0]))
    other = zero_point(d, (two[-1],) if len(two) == 2 and d.flag() else (), types[1]) if d.flag() else None
    inputs = [d.values(shape, dtype) for shape, dtype in zip((one, two), types, strict=True)]
    return {"inputs": [*inputs, zero, other], "constant": d.settled(1)}


@draws("Einsum")
def einsum(d: Draw) -> dict[str, Any]:
    equation = d.of(*EQUATIONS)
    sizes = {letter: d.of(2, 3, 1, 5, 0) for letter in "abcdhijkw"}
    more = d.shape(0, 2)
    dtype = d.dtype("T")
    inputs = []
    for term in EQUATIONS[equation]:
        shape: list[int] = []
        for part in term.replace("...", "."):
            shape.extend(more if part == "." else [sizes[part]])
        inputs.append(d.dyadic(shape, dtype))
    return {"inputs": inputs, "attributes": {"equation": equation}, "magnitude": 4.0 * 25}


@draws("Det")
def det(d: Draw) -> dict[str, Any]:
    n = d.of(2, 1, 3, 5)
    x = d.noise(*d.shape(0, 2), n, n, dtype=d.dtype("T"))
    return {"inputs": [x], "magnitude": 2.0, "tolerance": 1e-4}
