"""Weights that are brought to their device just before they are needed, so that a session keeps within a limit.

A plan whose weights do not fit beside its arena becomes another plan: a weight is a buffer of the arena like any
intermediate result, alive from a `Load`, which copies it from the model's file, to the launch that reads it. What the
plan's `setup` prepares is prepared by the same launches in every run. So the layout of the arena says what a run needs
before it begins, and addresses stay as they are from run to run.

A run needs every weight once, in the same order each time. Where a cache is too small for such a round, nothing does
better than to keep a part of it for good (Belady), so there is no cache: the weights for which the limit has room are
*kept*, the small ones first, and the others are loaded.

What a device reads where it lies in a mapped file (NumPy does, where the bytes are aligned) costs nothing. After use
the system may drop its pages (`Drop`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sardonyx.common import dtypes, memory
from sardonyx.common.record import fields, replace
from sardonyx.plans import layout
from sardonyx.plans import plan as plans
from sardonyx.plans.epochs import Layout
from sardonyx.plans.setup import touched
from sardonyx.providers.contract import Device
from sardonyx.runtime.streamed import Drop, Load, Streamed, is_in_place

NEAR = 4
"""Steps up to which a weight that was loaded waits for its next use."""
PAGES = 1 << 16
"""Bytes of a weight in place from which on its pages are dropped after use."""
LAST = 1 << 60


def stream(plan: plans.Plan, devices: Sequence[Device], limit: int, symbols: Mapping[str, int]) -> Streamed:
    """A plan that needs `limit` bytes at most for these sizes, with as many weights kept as that has room for.

    Raises TooLargeError where even one that keeps nothing needs more.
    """
    sizes = _Sizes(symbols)
    bare = _Builder(plan, devices, frozenset()).build(sizes)
    if bare.need > limit:
        raise memory.TooLargeError(_refusal(bare, limit, sizes))
    if plan.functions:
        return bare  # what is left is for control flow
    spare, kept = limit - bare.need, set()
    weights = [number for number, b in enumerate(plan.buffers) if b.weight is not None and not b.once]
    for nbytes, number in sorted((_nbytes(plan, number), number) for number in weights):
        if is_in_place(devices[plan.buffers[number].device], plan.weights.get(str(plan.buffers[number].weight))):
            continue
        if nbytes > spare:
            break
        spare -= nbytes
        kept.add(number)
    best = _Builder(plan, devices, kept).build(sizes)
    return best if best.need <= limit else bare


class _Sizes(dict[str, int]):
    """Symbols; those that only a run tells are taken as 1 until it does."""

    def __missing__(self, name: str) -> int:
        return 1


def _nbytes(plan: plans.Plan, number: int) -> int:
    """The bytes of a buffer of a constant."""
    buffer = plan.buffers[number]
    return -(-int(buffer.elements) * dtypes.by_name(buffer.dtype).itemsize // 4) * 4


def _touched(step: Any) -> list[int]:
    if isinstance(step, Drop):
        return []
    found = [step.buffer] if isinstance(step, Load) else touched(step)
    return [number for number in found if number >= 0]


def _refusal(plan: Streamed, limit: int, sizes: Mapping[str, int]) -> str:
    """What is said where a plan that keeps nothing needs more than the limit."""
    numbers = [number for number, buffer in enumerate(plan.buffers) if buffer.weight is None]
    rooms = dict(zip(numbers, Layout(plan, numbers).rooms(sizes) or [], strict=False))
    largest, where = 0, "what is fed"
    for step in plan.steps:
        nbytes = sum(rooms.get(number, 0) for number in set(_touched(step)))
        if nbytes > largest and isinstance(step, plans.Launch):
            labels = [plan.nodes[k] for k in step.origins if 0 <= k < len(plan.nodes)]
            largest, where = nbytes, labels[-1] if labels else str(plan.codes[step.code]["name"])
    need, most, step_needs = (_megabytes(number) for number in (plan.need, limit, largest))
    return (
        f"the session needs {need}, the limit is {most}; the largest single step, {where}, needs {step_needs}: "
        "raise SessionOptions.memory_limit, or feed smaller inputs"
    )


def _megabytes(number: int) -> str:
    return f"{number / 1e6:.1f} MB" if number >= 100_000 else f"{number:,} bytes"


class _Builder:
    """Makes a Streamed of a plan, which keeps the weights in these buffers."""

    def __init__(self, plan: plans.Plan, devices: Sequence[Device], kept: Collection[int]) -> None:
        self.plan = plan
        self.devices = devices
        self.buffers = [replace(buffer, beneath=[]) for buffer in plan.buffers]
        self.steps: list[Any] = []
        self.epoch = 0
        self._loaded: dict[int, list[int]] = {}
        """The buffer that has a weight now, and the step that read it last."""
        self._makers: dict[int, list[plans.Launch]] = {}
        for launch in plan.setup:
            for number in self._written(launch):
                self._makers.setdefault(number, []).append(launch)
        self.mapped = frozenset(self._only_looked_up())
        self._stays = {*kept, *self.mapped, *self._passed_on()}

    def build(self, sizes: Mapping[str, int]) -> Streamed:
        """The plan, laid out for these sizes; for others it is valid, too."""
        for step in self.plan.steps:
            self._step(step)
        self._settle()
        stored = {each.name: getattr(self.plan, each.name) for each in fields(self.plan)}
        stored |= {"buffers": self.buffers, "steps": self.steps, "setup": self._setup}
        plan = Streamed(**stored, original=self.plan, mapped=self.mapped)
        plan.need = self._lay_out(plan, sizes)
        return plan

    # ---- which weights stay

    def _only_looked_up(self) -> Iterable[int]:
        """Constants that NumPy takes rows of, which it can where they lie: they are never read whole."""
        readers: dict[int, list[Any]] = {}
        for step in (*self.plan.setup, *self.plan.steps):
            for place, number in enumerate(_touched(step)):
                readers.setdefault(number, []).append((step, place))
        for number, buffer in enumerate(self.plan.buffers):
            array = self.plan.weights.get(str(buffer.weight))
            if array is None or not array.flags.c_contiguous or number not in readers:
                continue
            if not all(self._is_lookup(*reader) for reader in readers[number]):
                continue
            if self.devices[buffer.device].in_place(array) is not None:
                yield number

    def _is_lookup(self, step: Any, place: int) -> bool:
        if not isinstance(step, plans.Launch) or place:
            return False
        code = self.plan.codes[step.code]
        attributes = code.get("attributes", {})
        rows = list(attributes.get("axes", ())) == [0] and attributes.get("place") == 0
        return code.get("primitive") == "gather" and rows and len(code["reads"]) == 2

    def _passed_on(self) -> set[int]:
        """Constants that control flow captures, or that are outputs."""
        found = {number for port in self.plan.outputs for number in port.buffers}
        for step in self.plan.steps:
            if isinstance(step, (plans.Branch, plans.Loop, plans.Read)):
                found.update(_touched(step))
        return found

    def _is_loaded(self, number: int) -> bool:
        """Whether a buffer is to be filled in the run."""
        buffer = self.plan.buffers[number]
        if buffer.weight is None or number in self._stays:
            return False
        return not is_in_place(self.devices[buffer.device], self.plan.weights.get(buffer.weight))

    # ---- steps

    def _written(self, launch: plans.Launch) -> list[int]:
        return launch.buffers[len(self.plan.codes[launch.code]["reads"]) :]

    def _step(self, step: Any) -> None:
        if isinstance(step, plans.Launch):
            self._launch(step, {})
        elif isinstance(step, plans.Copy):
            self.steps.append(plans.Copy(self._present(step.source), step.target))
        elif isinstance(step, plans.Host):
            self.steps.append(replace(step, inputs=[self._present(number) for number in step.inputs]))
        else:
            self.steps.append(step)
        if plans.halts(step):
            self.epoch += 1
            self._loaded.clear()

    def _launch(self, launch: plans.Launch, given: Mapping[int, int]) -> None:
        """Add a launch, on buffers that are `given` in place of its own, or loaded."""
        places = {number: given.get(number) for number in launch.buffers}
        now = {number: self._present(number) if place is None else place for number, place in places.items()}
        self.steps.append(replace(launch, buffers=[now[number] for number in launch.buffers]))
        for number in launch.buffers:
            if number in self._loaded:
                self._loaded[number][1] = len(self.steps)
        stays = {number for number in launch.buffers if now[number] == number} - self.mapped
        used = [self.plan.buffers[number] for number in sorted(stays)]
        big = [str(b.weight) for b in used if b.weight is not None and self._has_pages(b)]
        if big:
            self.steps.append(Drop(big))

    def _has_pages(self, buffer: plans.Buffer) -> bool:
        array = self.plan.weights.get(str(buffer.weight))
        if array is None or array.nbytes < PAGES:
            return False
        return is_in_place(self.devices[buffer.device], array)

    def _present(self, number: int) -> int:
        """The buffer where a buffer's contents are now; adds the steps that bring them if they are not."""
        if not self._is_loaded(number):
            return number
        found = self._loaded.get(number)
        if found is not None and len(self.steps) - found[1] <= NEAR:
            found[1] = len(self.steps)
            return found[0]
        name = str(self.plan.buffers[number].weight)
        if name in self.plan.weights:
            place = self._room(number)
            self.steps.append(Load(name, place))
            return place
        launches = self._makers[number]
        made = {each: self._room(each) for launch in launches for each in self._written(launch)}
        for launch in launches:
            self._launch(launch, made)
        return made[number]

    def _room(self, number: int) -> int:
        """A new buffer for a weight."""
        self.buffers.append(replace(self.buffers[number], weight=None, once=False, epoch=self.epoch))
        self._loaded[number] = [len(self.buffers) - 1, len(self.steps)]
        return len(self.buffers) - 1

    # ---- what is left of the setup, and the layout

    def _settle(self) -> None:
        """Keep those launches of the setup that what stays depends on; other weights have no place any more."""
        used = {number for step in self.steps for number in _touched(step)}
        used.update(number for port in self.plan.outputs for number in port.buffers)
        wanted = {number for number in used if number in self._makers}
        self._setup: list[plans.Launch] = []
        for launch in reversed(self.plan.setup):
            if not wanted.isdisjoint(self._written(launch)):
                wanted.update(launch.buffers)
                self._setup.append(launch)
        self._setup.reverse()
        for number, buffer in enumerate(self.buffers):
            if buffer.weight is not None:
                buffer.once = number not in used

    def _lay_out(self, plan: Streamed, sizes: Mapping[str, int]) -> int:
        """Lay out the arena; the bytes of it and of what stays."""
        numbers = [number for number, buffer in enumerate(self.buffers) if buffer.weight is None]
        rooms = dict(zip(numbers, Layout(plan, numbers).rooms(sizes) or [0] * len(numbers), strict=True))
        lives = {number: [LAST, -1] for number in numbers}
        for k, step in enumerate(self.steps):
            for number in _touched(step):
                if number in lives:
                    lives[number] = [min(lives[number][0], k), k]
        for port in self.plan.inputs:
            for number in port.buffers:
                lives[number][0] = -1
        for port in self.plan.outputs:
            for number in port.buffers:
                if number in lives:
                    lives[number][1] = LAST
        groups: dict[tuple[int, int], list[int]] = {}
        for number in numbers:
            groups.setdefault((self.buffers[number].device, self.buffers[number].epoch), []).append(number)
        for members in groups.values():
            spans = [layout.Lifetime(min(lives[n]), max(lives[n]), rooms[n]) for n in members]
            for number, below in zip(members, layout.beneath(spans), strict=True):
                self.buffers[number].beneath = [members[k] for k in below]
        total = 0
        for members in groups.values():
            placed = Layout(plan, members)
            totals, _ = placed.place([rooms[number] for number in members])
            total += sum(totals.values())
        stays = [number for number, buffer in enumerate(self.buffers) if buffer.weight is not None and not buffer.once]
        unique = {(self.buffers[n].device, self.buffers[n].weight): n for n in stays if n not in self.mapped}
        return total + sum(
            _nbytes(plan, number)
            for (device, name), number in unique.items()
            if not is_in_place(self.devices[device], plan.weights.get(str(name)))
        )
