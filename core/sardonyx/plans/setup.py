"""Launches that depend on weights alone are taken out of a plan's steps: a session runs them once for all runs.

Folding does the same while a model is traced, but only for what is small, since it works on the host and its results
are part of the plan. Unpacked weights of a quantized model are the large case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sardonyx.common.fingerprint import fingerprint
from sardonyx.plans import plan as plans


def take_out(
    steps: Sequence[plans.Step],
    buffers: Sequence[plans.Buffer],
    codes: Sequence[Mapping[str, Any]],
    keys: Mapping[int, str],
    outputs: Iterable[int],
) -> tuple[list[plans.Launch], list[plans.Step]]:
    """The launches to run once, and the other steps. The buffers that the former fill become weights.

    Their names tell what is in them, by the code's digest in `keys` and the names of what it reads: plans for other
    sizes find them. `outputs` are buffers that are needed after the steps.
    """
    writers = Counter(number for step in steps for number in written(step, codes))
    setup: list[plans.Launch] = []
    taken: set[int] = set()
    parts: dict[int, list[plans.Launch]] = {}
    for step in steps:
        if not isinstance(step, plans.Launch) or not _is_constant(step, buffers, codes):
            continue
        made = written(step, codes)
        for number in made:
            parts.setdefault(number, []).append(step)
        if len(made) > 1 and any(writers[number] > 1 for number in made):
            continue
        if len(parts[made[0]]) < writers[made[0]]:
            continue  # others write the rest of it
        group = parts[made[0]]
        setup += group
        taken.update(map(id, group))
        whole = [(keys[each.code], [buffers[n].weight for n in read(each, codes)], each.params) for each in group]
        for k, number in enumerate(made):
            digest = fingerprint(repr((whole, k)).encode()).hexdigest()
            buffers[number].weight = f"~{digest[:16]}"
    others = [step for step in steps if id(step) not in taken]
    used = {number for step in others for number in touched(step)} | set(outputs)
    for launch in setup:
        for number in launch.buffers:
            buffers[number].once = number not in used
    return setup, others


def _is_constant(step: plans.Launch, buffers: Sequence[plans.Buffer], codes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether what a launch writes depends on weights alone."""
    reads, writes = read(step, codes), written(step, codes)
    return (
        bool(reads)
        and all(buffers[number].weight is not None for number in reads)
        and all(isinstance(buffers[number].elements, int) for number in writes)
        and all(isinstance(param, int) for param in step.params)
    )


def read(step: plans.Step, codes: Sequence[Mapping[str, Any]]) -> list[int]:
    """The buffers that a step reads; -1 stands for one that a loop does without."""
    if isinstance(step, plans.Launch):
        return step.buffers[: len(codes[step.code]["reads"])]
    made = {*written(step, codes)}
    return [number for number in touched(step) if number not in made]


def written(step: plans.Step, codes: Sequence[Mapping[str, Any]]) -> list[int]:
    """The buffers that a step writes."""
    if isinstance(step, plans.Launch):
        return step.buffers[len(codes[step.code]["reads"]) :]
    if isinstance(step, plans.Copy):
        return [step.target]
    return [] if isinstance(step, plans.Read) else step.results


def touched(step: plans.Step) -> list[int]:
    """All buffers that a step reads or writes."""
    match step:
        case plans.Launch():
            return step.buffers
        case plans.Copy():
            return [step.source, step.target]
        case plans.Read():
            return [step.buffer]
        case plans.Host():
            return step.inputs + step.results
        case plans.Branch():
            return [step.condition, *step.results, *(number for side in step.operands for number in side)]
        case plans.Loop():
            return [step.trips, step.condition, *step.carried, *step.captured, *step.results]
