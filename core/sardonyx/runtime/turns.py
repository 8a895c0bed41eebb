"""The turns of a loop: taken one by one by the host, or all at once by a device that can."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sardonyx.common.record import replace
from sardonyx.common.termination import poll
from sardonyx.providers.contract import Address, Device, LoopBody, Turn
from sardonyx.runtime.frames import Frame
from sardonyx.runtime.handles import Feed, Handle, Stack

BRIEF, LONG = 0.01, 0.04
"""Seconds: a device that is back earlier gets more turns at a time, one that is back later gets fewer."""
FACTOR = 4
"""How many times more or fewer."""


class Turns:
    """Where one run of a Loop stands: how many turns were taken, whether it goes on, and what they made.

    `most` bounds the turns; a loop that is not `conditional` ignores what its body says of going on.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        most: int | None,
        going: bool,
        conditional: bool,
        carried: Sequence[Handle],
        scans: int,
    ) -> None:
        self.carried = list(carried)
        self.scans = [Stack(devices) for _ in range(scans)]
        self._devices = devices
        self._most = most
        self._going = going
        self._conditional = conditional
        self._count = 0
        self._spare: list[tuple[Device, Any]] = []

    @property
    def is_over(self) -> bool:
        return not self._going or (self._most is not None and self._count >= self._most)

    def feeds(self) -> list[Feed]:
        """What the next turn takes, besides what the body captures."""
        return [np.array(self._count, np.int64), np.array(self._going, np.bool_), *self.carried]

    def advance(self, results: Sequence[Handle], going: np.ndarray | None) -> None:
        """Note what a turn gave; `going` is its condition, if that counts."""
        if going is not None:
            self._going = bool(going.item())
        self.carried = list(results[1 : 1 + len(self.carried)])
        for scan, slice_ in zip(self.scans, results[1 + len(self.carried) :], strict=True):
            scan.push(slice_)
        self._count += 1

    def stacked(self) -> list[Feed | None]:
        """The scan outputs; None for those of no turn."""
        return [scan.result() for scan in self.scans]

    def free(self) -> None:
        """Give all memory back; the results are not valid any more."""
        for scan in self.scans:
            scan.free()
        while self._spare:
            device, chunk = self._spare.pop()
            device.free(chunk)

    # ---- on a device

    def run(self, frame: Frame, results: Sequence[Handle]) -> bool:
        """Take all turns that are left in a frame that was fed for the next one, whose plan is one segment.

        The device does so by itself if it can. False if nobody can, because shapes change, say. `results` are
        where the body leaves what it gives. Raises Fail where the run is to end.
        """
        last = 2 + len(self.carried)
        inputs, carried = frame.code.plan.inputs, results[1 : last - 1]
        lent = all(k in frame.lent for port in inputs[last:] for k in port.buffers)
        alike = all(a.shape == b.shape for a, b in zip(self.carried, carried, strict=True))
        body = self._body(frame, results[last - 1 :])
        if body is None or not lent or not alike or any(scan.is_on_host for scan in self.scans):
            return False
        number, going, *targets = [frame.address(port.buffers[0]) if port.buffers else None for port in inputs[:last]]
        condition = results[0].address if self._conditional else None
        made, moves = self._moves(carried, targets)
        pairs = list(zip(self.scans, results[last - 1 :], strict=True))
        while not self.is_over:
            count = min([frame.pace, *(scan.most(slice_) for scan, slice_ in pairs)])
            count = count if self._most is None else min(count, self._most - self._count)
            stacked = [(_exact(slice_), scan.reserve(slice_, count)) for scan, slice_ in pairs]
            turn = Turn(number, going, condition, stacked, moves)
            self._take(frame, body, turn, count)
            poll()
        self.carried = made
        return True

    def _body(self, frame: Frame, slices: Sequence[Handle]) -> LoopBody | None:
        (launch,) = frame.launches[0]
        if isinstance(launch, LoopBody):
            return launch
        (segment,) = frame.code.epochs[0].segments
        in_words = all(slice_.nbytes % 4 == 0 for slice_ in slices)
        return _HostBody(self._devices[segment.device], launch) if in_words else None

    def _take(self, frame: Frame, body: LoopBody, turn: Turn, count: int) -> None:
        """Take some turns; the frame remembers how many are done in good time."""
        start = time.perf_counter()
        done, self._going = body.repeat(turn, self._count, count)
        took = time.perf_counter() - start
        self._count += done
        for scan in self.scans:
            scan.extend(done)
        if took > LONG:
            frame.pace = max(1, frame.pace // FACTOR)
        elif took < BRIEF and done == frame.pace:
            frame.pace *= FACTOR

    def _moves(
        self, sources: Sequence[Handle], targets: Sequence[Address | None]
    ) -> tuple[list[Handle], list[tuple[Address, Address]]]:
        """Where carried values are found in the end, and the copies that bring them there after each turn.

        Memory of inputs that are used no more may hold outputs, or a value takes the place of another that is still to
        be moved: then all go by way of spare memory.
        """
        device = sources[0].device if sources else 0
        ends = [self._room(device, s) if t is None else replace(t, nbytes=s.nbytes) for s, t in zip(sources, targets)]
        made = [replace(source, address=end) for source, end in zip(sources, ends, strict=True)]
        moves = [(a, b) for a, b in zip(map(_exact, sources), ends, strict=True) if not _is_same(a, b)]
        if any(_overlap(a, b) for k, (a, _) in enumerate(moves) for _, b in moves[:k]):
            halts = [self._room(device, source) for source in sources]
            pairs = list(zip(map(_exact, sources), halts, ends, strict=True))
            moves = [(a, b) for a, b, _ in pairs] + [(b, c) for _, b, c in pairs]
        return made, moves

    def _room(self, device: int, like: Handle) -> Address:
        chunk = self._devices[device].allocate(like.words.nbytes)
        self._spare.append((self._devices[device], chunk))
        return Address(chunk, 0, like.nbytes)


class _HostBody(LoopBody):
    """Takes the turns of a loop for a device that cannot do so by itself, or not these."""

    def __init__(self, device: Device, launch: Callable[[], None]) -> None:
        self._device = device
        self._launch = launch

    def __call__(self) -> None:
        self._launch()

    def repeat(self, turn: Turn, first: int, count: int) -> tuple[int, bool]:
        device = self._device
        moves = [(_whole(source), target) for source, target in turn.moves]
        for k in range(count):
            poll()
            if turn.number:
                device.upload(turn.number, np.array(first + k, np.int64))
            if turn.going:
                device.upload(turn.going, _TRUE)
            self._launch()
            going = turn.condition is None or bool(device.download(turn.condition, _TRUE.dtype, ()))
            for source, target in turn.slices:
                device.copy(source, Address(target.chunk, target.offset + k * source.nbytes, source.nbytes))
            for source, target in moves:
                device.copy(source, target)
            if not going:
                return k + 1, False
        return count, True


_TRUE = np.array(True)


def _whole(address: Address) -> Address:
    """With the bytes that make up the last word: devices copy words."""
    return replace(address, nbytes=-(-address.nbytes // 4) * 4)


def _exact(handle: Handle) -> Address:
    """Where the elements are, without what room there is behind them."""
    return replace(handle.address, nbytes=handle.nbytes)


def _is_same(a: Address, b: Address) -> bool:
    return a.chunk is b.chunk and a.offset == b.offset


def _overlap(a: Address, b: Address) -> bool:
    return a.chunk is b.chunk and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
