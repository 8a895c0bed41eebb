"""How many dispatches well-known networks take; nothing is run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import onnx
import pytest

from sardonyx import SessionOptions
from sardonyx.compiler.compile import Compiler
from sardonyx.passes.pipeline import prepare
from sardonyx.plans.plan import Launch
from sardonyx.plans.plan_cache import Source
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers.registry import resolve
from tests.support import require
from tests.webgpu import networks

WINOGRAD = ("winograd_input", "matmul", "winograd_output")


def dispatches(model: onnx.ModelProto) -> Counter[str]:
    """The launches of a run by what they run; Winograd's three are one."""
    require("webgpu")
    graph = prepare(Source(model.SerializeToString()).read(), SessionOptions()).graph
    usable = [provider for provider, _ in resolve(["WebGpuExecutionProvider"])]
    compiler = Compiler(graph, usable, WeightTable())
    plan = compiler.compile_early()
    assert plan is not None
    assert set(plan.placement) <= {0, -1}
    steps = [step for step in plan.steps if isinstance(step, Launch)]
    names = [str(plan.codes[step.code].get("primitive") or plan.codes[step.code]["name"]) for step in steps]
    return Counter(joined(names))


def joined(names: Sequence[str]) -> list[str]:
    """Names of launches, with one for each convolution by Winograd's algorithm.

    >>> joined(["winograd_input", "matmul", "winograd_output", "matmul"])
    ['winograd', 'matmul']
    """
    found: list[str] = []
    for name in names:
        found.append(name)
        if tuple(found[-3:]) == WINOGRAD:
            found[-3:] = ["winograd"]
    return found


@pytest.mark.parametrize(
    ("model", "most"),
    [(networks.mobilenet_v2, 60), (networks.resnet50, 60)],
    ids=["mobilenet_v2", "resnet50"],
)
def test_networks_of_images(model: Callable[[], onnx.ModelProto], most: int) -> None:
    counts = dispatches(model())
    assert counts.total() <= most, counts


def test_a_layer_of_bert() -> None:
    one, two = (dispatches(networks.bert(layers)) for layers in (1, 2))
    assert two.total() - one.total() <= 8, two - one
    assert one.total() <= 9, one
