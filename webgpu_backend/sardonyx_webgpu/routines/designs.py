"""How the threads of a GPU share a product of matrices: a few designs, and which one is taken for which sizes.

A plan knows two for each product: one where a processor plays the GPU, whose threads are few and whose barriers are
dear, and one for hardware, which wants many threads and has memory that a workgroup shares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sardonyx.sizes.symbolic import Size, hint

THREAD, SPLIT, SHARED = "thread", "split", "shared"
SLICED = 64
"""Threads of a workgroup that share sums."""
FEW = 8
"""Rows of which a product is bound by memory: each weight is used so often."""
MANY = 8192
"""Tiles of eight rows and four columns that keep hardware busy, with a thread for each."""
GROUPS = 1024
"""Workgroups that keep hardware busy."""
DEEP = 64
"""The length of sums from which more threads than one are worth a barrier."""
LONG = 128
"""The length of sums up to which few threads share one."""
LARGE = 1 << 17
"""Elements of a result from which tiles are large, so that fewer operands are read again."""

PACKED = 4
"""Rows of bytes below which SwiftShader is faster with `dot4I8Packed`, too: to unpack weights pays for more of them."""


class Design(NamedTuple):
    """A tile of `rows` times `quads` fours of columns, and who makes it.

    "thread": one thread. "split": threads that have parts of the sums, `across` such tiles side by side in a workgroup.
    "shared": one thread, in a workgroup of `across` times as many that load what they multiply together.
    Those of bytes that are `packed` multiply four at once, which hardware can, and others do as floats do.
    """

    kind: str
    rows: int
    quads: int
    across: int = 1
    packed: bool = False


def of(attributes: Any) -> Design:
    """The design that a routine is to have."""
    return Design(*attributes["design"])


def designs(batch: Size, m: Size, k: Size, n: Size) -> dict[str, Design]:
    """The attributes `software` and `hardware` of a product, of the sizes in the call at hand."""
    sizes = hint(batch), hint(m), hint(k), hint(n)
    return {"software": software(*sizes), "hardware": hardware(*sizes)}


def designs_of_bytes(batch: Size, m: Size, k: Size, n: Size) -> dict[str, Design]:
    """The attributes `software` and `hardware` of a product of bytes."""
    usual = designs(batch, m, k, n)
    chosen = usual["hardware"]
    if chosen.kind == SHARED:
        chosen = Design(THREAD, chosen.rows, chosen.quads)
    slow = usual["software"]._replace(packed=hint(m) < PACKED)
    return {"software": slow, "hardware": chosen._replace(packed=True)}


def software(batch: int, m: int, k: int, n: int) -> Design:
    """The fastest one on llvmpipe and SwiftShader.

    >>> software(1, 1, 64, 512)[:3], software(1, 512, 512, 3)[:3]
    (('thread', 1, 2), ('thread', 8, 1))
    """
    return Design(THREAD, *tile(m, n))


def tile(rows: int, columns: int) -> tuple[int, int]:
    """Rows, and fours of columns, that a thread makes of a product."""
    return power(rows), 2 if columns > 4 else 1


def hardware(batch: int, m: int, k: int, n: int) -> Design:
    """The one that keeps a GPU busy. Which is fastest was measured on an NVIDIA H200.

    >>> hardware(1, 1, 768, 3072)[:4], hardware(1, 512, 512, 512)[:4], hardware(1, 2048, 2048, 2048)[:4]
    (('split', 1, 1, 8), ('split', 8, 1, 16), ('shared', 8, 2, 8))
    """
    if min(m, n) > FEW * 4 and batch * -(-m // 64) * -(-n // 64) >= GROUPS:
        return Design(SHARED, 8, 2, 8)
    rows = min(4, power(m)) if m > FEW else power(m)
    if k >= DEEP:
        is_large = batch * m * n >= LARGE
        across = 16 if is_large or (k <= LONG and m > FEW) else 8
        rows = power(m) if is_large and k > LONG else rows
        return Design(SPLIT, rows, 1, min(across, 1 << (-(-n // 4) - 1).bit_length()))
    return Design(THREAD, power(m) if batch * -(-m // 8) * -(-n // 4) >= MANY else rows, 1)


def candidates(batch: int, m: int, k: int, n: int) -> list[Design]:
    """What a tuner tries on hardware, the one that is taken without it first."""
    tried = [hardware(batch, m, k, n), software(batch, m, k, n)]
    tried += [Design(THREAD, min(rows, power(m)), quads) for rows, quads in ((8, 1), (4, 2), (4, 1))]
    if k >= DEEP:
        tried += [
            Design(SPLIT, min(rows, power(m)), 1, across) for rows, across in ((4, 4), (4, 8), (4, 16), (8, 8), (8, 16))
        ]
    if min(m, n) > FEW:
        tried += [Design(SHARED, 8, 2, 8), Design(SHARED, 4, 1, 8)]
    return list(dict.fromkeys(tried))


def power(rows: int) -> int:
    """The power of two from `rows` on, up to 8."""
    return min(8, 1 << max(0, rows - 1).bit_length())
