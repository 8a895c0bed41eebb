"""Which values of a forward pass are stored until its backward pass reads them, within so many bytes.

Launches are known here by the numbers of the values that they read and write. The forward pass is cut into segments:
what is alive at a cut is a checkpoint, and what else the backward pass reads of a segment is made again, from
checkpoints, right before its first reader (Chen et al., "Training deep nets with sublinear memory cost", 2016). Where
the limit leaves room, the last segments are stored as they are, or all that is dear (Korthikanti et al., "Reducing
activation recomputation in large transformer models", 2022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate

from sardonyx.common.record import field, record

PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64)
"""Into how many segments a forward pass is cut: the best of these is taken."""
CHEAP = 8
"""Operations for each element up to which what a launch makes need not be stored."""
END = 1 << 60


@record(frozen=True)
class Step:
    """A launch: the values that it reads and writes, its operations, and the epoch in whose chunk its results lie."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    work: float = 0.0
    epoch: int = 0


@record
class Passes:
    """The steps of a run, of which those from `backward` on are the backward pass.

    `nbytes` has the size of each value. What is `given` is there before the first step, `results` are needed after the
    last one, and `fixed` are values that must not be made again.
    """

    steps: Sequence[Step]
    backward: int
    nbytes: Sequence[int]
    given: Collection[int] = ()
    results: Collection[int] = ()
    fixed: Collection[int] = ()
    makers: dict[int, list[Step]] = field(default_factory=dict)
    """The steps of the forward pass that write each value."""

    def __post_init__(self) -> None:
        for step in self.steps[: self.backward]:
            for value in step.writes:
                self.makers.setdefault(value, []).append(step)

    def peak(self) -> int:
        """The most bytes that are alive at once."""
        return _peak(self.steps, self.nbytes, self.given, self.results)

    def at_peak(self) -> list[int]:
        """The values that are alive when that is most."""
        return _at_peak(self.steps, self.nbytes, self.given, self.results)


@record(frozen=True)
class Choice:
    """Values that are stored, all others being made again; what that takes, and the most bytes alive at once."""

    stored: frozenset[int]
    work: float
    peak: int


def choose(passes: Passes, limit: int) -> Choice:
    """The choice of least work that keeps the limit; of the least bytes, where none keeps it."""
    free = _Forward(passes)
    everything = frozenset(passes.makers)
    found = [Choice(everything, 0.0, passes.peak())]

    def tried(stored: Collection[int]) -> Choice:
        found.append(_weighed(passes, frozenset(stored)))
        return found[-1]

    dear = [value for value in everything if not free.is_cheap(value)]
    tried(dear)
    for kept in (everything, frozenset(dear)):
        for cuts in free.partitions(kept):
            low, high = 1, len(cuts)
            while low <= high:  # the fewest segments that have to be made again
                middle = (low + high) // 2
                fits = tried(free.stored(cuts[:middle], kept)).peak <= limit
                low, high = (low, middle - 1) if fits else (middle + 1, high)
    fitting = [choice for choice in found if choice.peak <= limit]
    return min(fitting, key=lambda c: (c.work, c.peak)) if fitting else min(found, key=lambda c: (c.peak, c.work))


class _Forward:
    """The forward pass of `passes` as a row of steps that can be cut."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._made: dict[int, int] = {}
        """The first step that writes each value."""
        self._last: dict[int, int] = {}
        """The last step of the forward pass that reads it."""
        for number, step in enumerate(passes.steps[: passes.backward]):
            for value in step.writes:
                self._made.setdefault(value, number)
            for value in step.reads:
                self._last[value] = number
        late = {value for step in passes.steps[passes.backward :] for value in step.reads}
        self._late = {v for v in self._made if v in late and v not in passes.results and v not in passes.fixed}

    def is_cheap(self, value: int) -> bool:
        """Whether little work makes a value of others."""
        makers = self._passes.makers[value]
        return sum(step.work for step in makers) <= CHEAP * self._passes.nbytes[value]

    def partitions(self, kept: Collection[int]) -> Iterator[list[int]]:
        """Lists of the steps before which the forward pass is cut, for segments that store equally many bytes of what
        is `kept` in them."""
        sizes = [0] * self._passes.backward
        for value in self._late:
            if value in kept:
                sizes[self._made[value]] += self._passes.nbytes[value]
        crossing = self._crossing()
        seen = set()
        for parts in PARTS:
            cuts = _cuts(sizes, crossing, -(-sum(sizes) // parts))
            if cuts and tuple(cuts) not in seen:
                seen.add(tuple(cuts))
                yield cuts

    def stored(self, cuts: Sequence[int], kept: Collection[int]) -> set[int]:
        """What is stored where the segments up to the last one of these cuts are made again: what is alive at a cut,
        and what is `kept` of the steps behind."""
        found = {value for value, made in self._made.items() if made >= cuts[-1] and value in kept}
        return found.union(*(self._alive(cut) for cut in cuts))

    def _alive(self, cut: int) -> Iterable[int]:
        """What is made before a step and read from there on."""
        return (value for value, made in self._made.items() if made < cut <= self._last.get(value, -1))

    def _crossing(self) -> list[int]:
        """The bytes that are alive at each cut and would not be there anyway."""
        changes = [0] * (self._passes.backward + 2)
        for value, made in self._made.items():
            if value not in self._passes.results and value not in self._passes.fixed:
                changes[made + 1] += self._passes.nbytes[value]
                changes[max(made, self._last.get(value, -1)) + 1] -= self._passes.nbytes[value]
        return list(accumulate(changes))


def _cuts(sizes: Sequence[int], crossing: Sequence[int], most: int) -> list[int]:
    """The cuts at which the fewest bytes are alive in all, with `most` bytes of `sizes` at most between two."""
    before = [0, *accumulate(sizes)]
    best, previous = [0], [-1]
    window: deque[int] = deque([0])
    for cut in range(1, len(sizes) + 1):
        while len(window) > 1 and before[cut] - before[window[0]] > most:
            window.popleft()
        best.append(best[window[0]] + (crossing[cut] if cut < len(sizes) else 0))
        previous.append(window[0])
        while window and best[window[-1]] >= best[cut]:
            window.pop()
        window.append(cut)
    cuts, cut = [], previous[-1]
    while cut > 0:
        cuts.append(cut)
        cut = previous[cut]
    return cuts[::-1]


def _weighed(passes: Passes, stored: frozenset[int]) -> Choice:
    """The choice of storing these values, with what it costs."""
    again = _Again(passes, stored)
    steps = [*passes.steps[: passes.backward]]
    for step in passes.steps[passes.backward :]:
        reads = tuple(again.value(value, step.epoch, steps.append) for value in step.reads)
        steps.append(Step(reads, step.writes, step.work, step.epoch))
    return Choice(stored, again.work, _peak(steps, again.nbytes, passes.given, passes.results))


class _Again:
    """Steps that make values a second time; `work` and `nbytes` are the sums of them."""

    def __init__(self, passes: Passes, stored: frozenset[int]) -> None:
        self._passes = passes
        self._stays = stored.union(passes.results, passes.fixed)
        self._new: dict[int, int] = {}
        self.nbytes = list(passes.nbytes)
        self.work = 0.0

    def value(self, value: int, epoch: int, add: Callable[[Step], None]) -> int:
        """The number of a value as the backward pass has it: the steps that make it are added where it is not there."""
        stack = [value]
        while stack:
            top = stack[-1]
            if not self._is_lost(top):
                stack.pop()
                continue
            makers = self._passes.makers[top]
            if waiting := [x for maker in makers for x in maker.reads if x != top and self._is_lost(x)]:
                stack += reversed(waiting)
                continue
            stack.pop()
            for maker in makers:
                for written in maker.writes:
                    if written not in self._new:
                        self._new[written] = len(self.nbytes)
                        self.nbytes.append(self.nbytes[written])
                self.work += maker.work
                reads = tuple(self._new.get(x, x) for x in maker.reads)
                add(Step(reads, tuple(self._new[x] for x in maker.writes), maker.work, epoch))
        return self._new.get(value, value)

    def _is_lost(self, value: int) -> bool:
        return value in self._passes.makers and value not in self._stays and value not in self._new


def _peak(steps: Sequence[Step], nbytes: Sequence[int], given: Iterable[int], results: Collection[int]) -> int:
    """The most bytes that are alive at once, summed over epochs, since each has memory of its own."""
    return sum(nbytes[value] for value in _at_peak(steps, nbytes, given, results))


def _at_peak(steps: Sequence[Step], nbytes: Sequence[int], given: Iterable[int], results: Collection[int]) -> list[int]:
    """What is alive in each epoch when that is most."""
    first = dict.fromkeys(given, (-1, 0))
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for value in step.writes:
            first.setdefault(value, (number, step.epoch))
        for value in (*step.reads, *step.writes):
            last[value] = number
    spans: dict[int, list[tuple[int, int, int]]] = {}
    for value, (start, epoch) in first.items():
        spans.setdefault(epoch, []).append((start, END if value in results else last.get(value, start), value))
    found: list[int] = []
    for mine in spans.values():
        changes: dict[int, int] = {}
        for start, end, value in mine:
            changes[start] = changes.get(start, 0) + nbytes[value]
            changes[end + 1] = changes.get(end + 1, 0) - nbytes[value]
        alive = most = moment = 0
        for place in sorted(changes):
            alive += changes[place]
            if alive > most:
                most, moment = alive, place
        found += [value for start, end, value in mine if start <= moment <= end]
    return found
