"""How many shaders networks take, and how long these are: to compile them is most of a first run."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

from sardonyx import SessionOptions
from sardonyx import primitives as p
from sardonyx.code.kernel import Routine
from sardonyx.compiler.compile import Compiler
from sardonyx.passes.pipeline import prepare
from sardonyx.plans.epochs import code_of
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers.registry import resolve
from sardonyx_webgpu.gpu.interface import Shader
from sardonyx_webgpu.lower import lower
from tests.support import require
from tests.support.numbers import random
from tests.webgpu import networks
from tests.webgpu.traced import evaluate

require("webgpu")


def shaders(plan: Plan) -> list[Shader]:
    """The shaders of a plan where a processor plays the GPU."""
    codes = [lower(code_of(code), software=True) for code in plan.codes]
    return list(dict.fromkeys(code.shader(code.same, False) for code in codes))


@pytest.mark.parametrize(
    ("model", "most"),
    [(networks.mobilenet_v2, 16), (networks.resnet50, 24)],
    ids=["mobilenet_v2", "resnet50"],
)
def test_networks_of_images(model: Callable[[], onnx.ModelProto], most: int) -> None:
    graph = prepare(Source(model().SerializeToString()).read(), SessionOptions()).graph
    usable = [provider for provider, _ in resolve(["WebGpuExecutionProvider"])]
    plan = Compiler(graph, usable, WeightTable()).compile_early()
    assert plan is not None
    found = shaders(plan)
    assert len(found) <= most, [shader.name for shader in found]
    for shader in found:  # a place where results are put is compiled anew for each row that is written out
        assert shader.wgsl.count("put_row(") <= 5 or shader.name.startswith("winograd_output"), shader.name


def test_products_share_a_shader_whatever_their_sizes() -> None:
    keys = set()
    for rows, depth, columns in ((16, 8, 40), (12, 4, 44), (12, 40, 40)):
        _, plan = evaluate(p.matmul, random(rows, depth), random(depth, columns))
        codes = [code_of(code) for code in plan.codes]
        keys |= {code.key for code in codes if isinstance(code, Routine)}
    assert len(keys) == 1
