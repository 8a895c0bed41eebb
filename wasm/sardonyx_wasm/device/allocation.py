"""Memory of a host."""

from __future__ import annotations

import weakref

from sardonyx.providers.contract import ALIGNMENT

from ..hosts import Host


class Allocation:
    """Memory of a host, given back when this object dies or is freed."""

    def __init__(self, host: Host, nbytes: int, align: int = ALIGNMENT) -> None:
        self.address = host.allocate(nbytes, align)
        self.free = weakref.finalize(self, host.free, self.address)
        self.free.atexit = False
