"""Which values of a forward pass are stored until its backward pass reads them, within so many bytes.

Launches are known here by the numbers of the values that they read and write, which are buffers. The forward pass is
cut into segments: what is alive at a cut is a checkpoint, and what else the backward pass reads of a segment is made
again from checkpoints, right before its first reader (Chen et al., "Training deep nets with sublinear memory cost",
2016). Where the limit leaves room, the last segments are stored as they are, or what is dear of them (Korthikanti et
al., "Reducing activation recomputation in large transformer models", 2022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from itertools import accumulate

from sardonyx.common.cached import cached_property
from sardonyx.common.record import record, replace
from sardonyx.plans.layout import Lifetime, extent

PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""Into how many segments a forward pass is cut: the best of these is taken."""
MOST_TRIES = 4
"""How often a choice is made anew that leaves too large gaps between buffers."""
DEAR = (2, 8)
"""Operations for each byte from which on a value counts as dear: each of these numbers is tried."""
END = 1 << 60


@record(frozen=True)
class Step:
    """What is done to values: those that are read and written, the operations, and the epoch.

    `number` says which step of the plan does so. One that `stays` does more than to write.
    """

    number: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    work: float = 0.0
    epoch: int = 0
    stays: bool = False


@record
class Passes:
    """The steps of a run, of which those from `backward` on are the backward pass.

    `nbytes` has the size of each value, and `chunks` the device and the epoch in whose memory it lies. What is `given`
    is there before the first step, `results` are needed after the last one.
    """

    steps: Sequence[Step]
    backward: int
    nbytes: Sequence[int]
    chunks: Sequence[tuple[int, int]]
    given: Collection[int] = ()
    results: Collection[int] = ()
    added: Sequence[int] = ()
    """For each value that was numbered on, which one it is again."""

    @cached_property
    def makers(self) -> dict[int, list[int]]:
        """The numbers of the steps of the forward pass that write each value."""
        found: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps[: self.backward]):
            for value in step.writes:
                found.setdefault(value, []).append(number)
        return found

    @cached_property
    def fixed(self) -> set[int]:
        """The values that must not be made again: what a step that stays reads or makes, what the backward pass has a
        part in, and what several steps make, if one of them makes others, too, or one between them reads it."""
        found = {value for step in self.steps if step.stays for value in (*step.reads, *step.writes)}
        found.update(value for step in self.steps[self.backward :] for value in step.writes)
        for number, step in enumerate(self.steps[: self.backward]):
            if len(step.writes) > 1:
                found.update(value for value in step.writes if len(self.makers[value]) > 1)
            for value in step.reads:
                makers = self.makers.get(value, [number])
                if makers[0] < number < makers[-1] and number not in makers:
                    found.add(value)
        return found

    def storing(self, stored: frozenset[int]) -> Passes:
        """The same with steps in the backward pass that make again what is not stored, right before its first reader,
        and without steps that nothing needs any more. New values are numbered on."""
        again = _Again(self, self.makers.keys() - stored.union(self.results, self.fixed))
        for step in self.steps[self.backward :]:
            again.take(step)
        needed = {*self.results, *(value for step in again.steps for value in step.reads)}
        forward: list[Step] = []
        for step in reversed(self.steps[: self.backward]):
            if step.stays or not needed.isdisjoint(step.writes):
                needed.update(step.reads)
                forward.append(step)
        steps = forward[::-1] + again.steps
        return Passes(steps, len(forward), again.nbytes, again.chunks, self.given, self.results, again.added)

    def at_peak(self) -> list[int]:
        """What is alive in each chunk when that is most."""
        found: list[int] = []
        for mine in self._lives().values():
            changes: dict[int, int] = {}
            for value, (first, last) in mine.items():
                changes[first] = changes.get(first, 0) + self.nbytes[value]
                changes[last + 1] = changes.get(last + 1, 0) - self.nbytes[value]
            alive = most = moment = 0
            for place in sorted(changes):
                alive += changes[place]
                if alive > most:
                    most, moment = alive, place
            found += [value for value, (first, last) in mine.items() if first <= moment <= last]
        return found

    def peak(self) -> int:
        """The bytes of that."""
        return sum(self.nbytes[value] for value in self.at_peak())

    def arena(self) -> int:
        """The bytes of the chunks as they are laid out."""
        return sum(
            extent([Lifetime(first, last, self.nbytes[value]) for value, (first, last) in mine.items()])
            for mine in self._lives().values()
        )

    def lives(self) -> dict[int, tuple[int, int]]:
        """Between which steps values are alive."""
        found = dict.fromkeys(self.given, (-1, -1))
        for number, step in enumerate(self.steps):
            for value in (*step.reads, *step.writes):
                found[value] = (found[value][0] if value in found else number, number)
        for value in self.results:
            if value in found:
                found[value] = (found[value][0], END)
        return found

    def _lives(self) -> dict[tuple[int, int], dict[int, tuple[int, int]]]:
        """The same for each chunk, in the order in which a plan lays them out."""
        found: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        for value, life in sorted(self.lives().items()):
            found.setdefault(self.chunks[value], {})[value] = life
        return found


@record(frozen=True)
class Choice:
    """Values that are stored, all others being made again; what that takes, and the most bytes alive at once."""

    stored: frozenset[int]
    work: float
    peak: int


def choose(passes: Passes, limit: int) -> frozenset[int]:
    """The values to store for the least work within the limit; for the least bytes, where nothing keeps it."""
    search = _Search(passes)
    most = limit
    for _ in range(MOST_TRIES):
        choice = search.best(most)
        over = passes.storing(choice.stored).arena() - limit
        if over <= 0 or choice.peak > most:
            return choice.stored
        most -= over  # there are gaps between buffers
    return search.best(0).stored


class _Search:
    """Choices for the same passes and several limits."""

    def __init__(self, passes: Passes) -> None:
        self._passes = passes
        self._work = sum(step.work for step in passes.steps)
        self._known: dict[frozenset[int], Choice] = {}
        forward = _Forward(passes)
        kept = [forward.dearer(number) for number in (0, *DEAR)]
        self._ways = [[frozenset(each)] for each in kept]
        self._ways += [forward.ways(cuts, each) for each in kept for cuts in forward.partitions(each)]

    def best(self, limit: int) -> Choice:
        """The choice of least work that keeps the limit; of the least bytes, where none keeps it."""
        for ways in self._ways:
            low, high = 0, len(ways) - 2 if self._weighed(ways[-1]).peak <= limit else -1
            while low <= high:  # the first that fits takes least work
                middle = (low + high) // 2
                fits = self._weighed(ways[middle]).peak <= limit
                low, high = (low, middle - 1) if fits else (middle + 1, high)
        fitting = [choice for choice in self._known.values() if choice.peak <= limit]
        if fitting:
            return min(fitting, key=lambda choice: (choice.work, choice.peak))
        return min(self._known.values(), key=lambda choice: (choice.peak, choice.work))

    def _weighed(self, stored: frozenset[int]) -> Choice:
        """The choice of storing these values, with what it costs."""
        if stored not in self._known:
            run = self._passes.storing(stored)
            self._known[stored] = Choice(stored, sum(step.work for step in run.steps) - self._work, run.peak())
        return self._known[stored]


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

    def dearer(self, work: float) -> set[int]:
        """The values of which each byte takes as much work at least."""
        passes = self._passes
        return {
            value
            for value, makers in passes.makers.items()
            if sum(passes.steps[number].work for number in makers) >= work * passes.nbytes[value]
        }

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

    def ways(self, cuts: Sequence[int], kept: Collection[int]) -> list[frozenset[int]]:
        """What is stored where the first, the first two, ... segments are made again: what is alive at their cuts, and
        what is `kept` of the steps behind."""
        found: list[frozenset[int]] = []
        alive: set[int] = set()
        for cut in cuts:
            alive.update(self._alive(cut))
            found.append(frozenset(alive.union(v for v, made in self._made.items() if made >= cut and v in kept)))
        return found

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


class _Again:
    """Steps that find some values of the forward pass lost, and take the steps that made them once more."""

    def __init__(self, passes: Passes, lost: Set[int]) -> None:
        self._passes = passes
        self._lost = lost
        self._new: dict[int, int] = {}
        self.steps: list[Step] = []
        self.nbytes = list(passes.nbytes)
        self.chunks = list(passes.chunks)
        self.added: list[int] = []

    def take(self, step: Step) -> None:
        """Add a step of the backward pass, behind those that it makes necessary."""
        if not self._lost.isdisjoint(step.reads):
            for value in step.reads:
                self._make(value, step.epoch)
            step = replace(step, reads=self._now(step.reads))
        self.steps.append(step)

    def _make(self, value: int, epoch: int) -> None:
        stack = [value]
        while stack:
            makers = self._passes.makers[stack[-1]] if self._is_missing(stack[-1]) else []
            read = [x for number in makers for x in self._passes.steps[number].reads if x != stack[-1]]
            if waiting := [x for x in read if self._is_missing(x)]:
                stack += reversed(waiting)
                continue
            stack.pop()
            for number in makers:
                self._repeat(number, epoch)

    def _repeat(self, number: int, epoch: int) -> None:
        made = self._passes.steps[number]
        for written in made.writes:
            if written not in self._new:
                self._new[written] = len(self.nbytes)
                self.added.append(written)
                self.nbytes.append(self.nbytes[written])
                self.chunks.append((self.chunks[written][0], epoch))
        writes = tuple(self._new[x] for x in made.writes)
        self.steps.append(Step(made.number, self._now(made.reads), writes, made.work, epoch))

    def _now(self, values: Sequence[int]) -> tuple[int, ...]:
        """Values as the backward pass has them."""
        return tuple(self._new[x] if x in self._lost else x for x in values)

    def _is_missing(self, value: int) -> bool:
        return value in self._lost and value not in self._new
