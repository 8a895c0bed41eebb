"""What host and module agree on: the memory that the drivers work with, and which products the host does."""

from __future__ import annotations

from sardonyx.code.kernel import Routine
from sardonyx.common.dtypes import by_name
from sardonyx.common.record import replace

SCRATCH = 1 << 20
"""Bytes of scratch memory that a code may ask for."""
HEADER = 4
"""Words before the first launch: scratch memory, state, counters, end."""
LAUNCH = 2
"""Words before the operands of a launch: the number of its code, and how many operands there are."""
STATE = 16
"""Bytes of the state of a run."""
COUNTERS = 8
"""Bytes for each launch, behind the words, by which threads share it: see `drivers.synchronize`."""
STOP = 0
"""Where in the state the host writes 1 to end the run."""
AWAKE = 4
"""Where in the state the host of a page writes 1 if the thread that runs may not sleep."""
SLEEPY = 12
"""Where in the state the host writes 1 if threads that wait shall sleep at once."""
RECORDS, RECORD = 8, 64
"""Where in the state the address of the threads' records is, and the bytes of one: where in the list the thread is,
the address of its counters, which part of a product it has, plus 1, the next one and the end of those that it took.
They are 0 before the run, each in a line of the cache of its own."""
BASE, PARTS, ENDS, X, Y, PLACE, STRIDE, MADE, SEEN_ROW, MADE_ROW, PARAMS = range(11)
"""The operands of a product of the host: its number among all; its parts; the address of where the units of each part
end, and of the last, or 0 where there are no stages; input and output; the address of the memory of the first thread,
the bytes from one thread's to the next, where in it results are, and the bytes of a unit of left sides and results;
then come the parameters."""
ENDED, STOPPED = -2, -1
"""What `walk` gives at the end; else what the host is to do: the part of a product in the upper 32 bits, which product
in the lower."""
CONVOLUTIONS = {
    "conv_panels": {"before": "im2col"},
    "conv_winograd": {"before": "winograd_input", "after": "winograd_output"},
}
"""What the module does before and after the product of a convolution, where the host does that."""


def own_of(product: Routine) -> Routine | None:
    """What the module does instead of a product of the host, where sizes make it so light that to ask takes longer, or
    where there is one row, for which BLAS takes longer. None where it never is, or panels are no whole vectors.
    """
    if HOSTED in product.attributes:
        return product
    if product.primitive == "matmul":
        sizes = (*product.inputs[0], *product.inputs[1])
        return product if any(isinstance(size, str) for size in sizes) else None
    rows = product.outputs[0][:-1]
    if product.primitive != "matmul_panels" or any(isinstance(size, int) and size > 1 for size in rows):
        return None
    if product.attributes["nr"] * by_name(product.reads[0]).itemsize % 16:
        return None
    return replace(product, primitive="matmul_row")


def room_of(product: Routine) -> int:
    """How many operands the launch of a product of the host has, or of what the module does instead; those of a product
    with stages have its parameters behind them.
    """
    if own_of(product) is None:
        return PARAMS
    return max(PARAMS, len(product.reads) + len(product.writes) + product.params)


HOSTED = "panel"
"""The attribute of routines whose products are the host's: of `matmul_nbits` the columns of the panels of floats that
it is given, of `attend` the most queries whose scores are made at a time."""
PARTS_OF = {"matmul_nbits": "widen_nbits", "attend": "weigh"}
"""What the module does of them."""
WEIGHED, WEIGHED_ROW = 64, 64
"""Where in the scratch memory `weigh` has scores; a row is filled up to a multiple of so many bytes."""
PANELS = 1 << 18
"""Bytes of such panels at a time, if one is not more."""
FEW = 4
"""With so many rows at most, `matmul_nbits` makes integers of them."""

COUNTER, NUMBER, GOING, CONDITION, SLICES_END, MOVES_END, COPIES = 0, 8, 12, 16, 20, 24, 28
"""Where in the record of a loop are the number of the turn (int64), the addresses of what a turn is told and tells (or
0), the ends of two lists, and the lists: for each copy `COPY` bytes, which are source, target and count of bytes."""
COPY = 12
TAKEN, FALSE, BROKEN = 0, 1, 2
"""Why turns came to their end: all were taken, the condition does not hold, the host asked for it."""
