"""Inputs that are kept: constants of a plan whose elements change between runs, as parameters do in training."""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.plans.plan import Launch, Plan


def hold(plan: Plan, titles: Mapping[str, str]) -> None:
    """Have the inputs of these names be weights, called by their titles. They are the last inputs, and nothing writes
    to them.
    """
    first = next((k for k, port in enumerate(plan.inputs) if port.name in titles), len(plan.inputs))
    held = plan.inputs[first:]
    numbers = {port.buffers[0]: titles[port.name] for port in held if port.buffers}
    beneath = {number: plan.buffers[number].beneath for number in numbers}
    for number, title in numbers.items():
        buffer = plan.buffers[number]
        buffer.weight, buffer.beneath = title, []
    for buffer in plan.buffers:
        while found := [number for number in buffer.beneath if number in beneath]:
            others = [number for number in buffer.beneath if number not in beneath]
            below = [number for gone in found for number in beneath[gone]]
            buffer.beneath = list(dict.fromkeys([*others, *below]))
    written = {
        number
        for step in plan.steps
        if isinstance(step, Launch)
        for number in step.buffers[len(plan.codes[step.code]["reads"]) :]
    }
    assert not written & numbers.keys(), "a launch writes to an input"
    plan.inputs = plan.inputs[:first]
    plan.arguments = plan.arguments[:first]
