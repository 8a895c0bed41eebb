"""Where operators run: each one's cases, compiled for each provider, and what the plans say of them.

The cases are the operator's samples, the calls that the tests of this folder make, a few models, and ONNX's own where
there is nothing else. `python -m tests.operators --write` keeps the table.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx.backend.test.case.node import collect_testcases

from sardonyx import GraphOptimizationLevel, SessionOptions, ops
from sardonyx.api.feeds import fed_to
from sardonyx.compiler.compile import Compiler
from sardonyx.errors import SardonyxError
from sardonyx.model.serde.reader import read
from sardonyx.model.structure import form, leaves
from sardonyx.passes.pipeline import prepare
from sardonyx.plans import plan
from sardonyx.plans.weight_table import WeightTable
from sardonyx.providers import registry

from .generators import Search
from .microsoft import Call
from .rest import MODELS, X
from .test_microsoft_tensors import Sparse
from .test_samples import model_of

Key = tuple[str, str]
PROVIDERS = (registry.WEBGPU, registry.WASM, registry.NUMPY)
NATIVE, STEPS, HOST, FOLDED = "native", "steps", "host", "folded"
RECURRENT = ("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN")
WIDE = ("float64", "complex64", "complex128")
"""What WGSL lacks: cases of these types count only where there are no others."""


@dataclass(frozen=True)
class Case:
    """A model in which an operator is used, and what is fed to it."""

    model: onnx.ModelProto
    feeds: Mapping[str, Any]


def cases(key: Key) -> list[Case]:
    """The cases of an operator by (domain, name)."""
    operator = ops.load()[key]
    found = [Case(*model_of(operator, sample)) for sample in operator.samples]
    found += [Case(call.model(), call.feeds) for call in _calls().get(key, ())]
    found += [Case(onnx.parser.parse_model(text), feeds) for text, feeds in MODELS.get(key, ())]
    if key == ("com.microsoft", "SparseToDenseMatMul"):
        found.append(Case(Sparse(np.eye(3, dtype=np.float32), X.T).model(held=True), {"b": X.T}))
    found = found or _of_onnx().get(key, [])
    if key[1] in RECURRENT:
        found = list(map(_with_weights, found))
    return [case for case in found if not _is_wide(case)] or found


def _with_weights(case: Case) -> Case:
    """The case as models have it: all but the first input are constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    first, *others = (value.name for value in model.graph.input)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(case.feeds[name], name) for name in others)
    del model.graph.input[1:]
    return Case(model, {first: case.feeds[first]})


def _is_wide(case: Case) -> bool:
    return any(getattr(feed, "dtype", None) in WIDE for feed in case.feeds.values())


@cache
def _calls() -> dict[Key, list[Call | Search]]:
    """What the tests of this folder keep in dictionaries and lists."""
    found: dict[Key, list[Call | Search]] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("test_"):
            for value in vars(importlib.import_module(f"{__package__}.{module.name}")).values():
                items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
                for item in items:
                    call = item[0] if isinstance(item, tuple) and callable(item[-1]) else item
                    if isinstance(call, Call | Search):
                        found.setdefault((call.domain, call.op_type), []).append(call)
    return found


@cache
def _of_onnx() -> dict[Key, list[Case]]:
    """ONNX's cases of one node."""
    found: dict[Key, list[Case]] = {}
    for case in collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) == 1 and case.data_sets:
            inputs, _ = case.data_sets[0]
            names = [value.name for value in case.model.graph.input]
            found.setdefault((nodes[0].domain, nodes[0].op_type), []).append(
                Case(case.model, dict(zip(names, inputs, strict=False)))
            )
    return found


def where(case: Case, key: Key, provider: str) -> str:
    """Where an operator runs in a case, if a provider is asked for."""
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    graph = prepare(read(case.model.SerializeToString()), options).graph
    usable = [chosen for chosen, _ in registry.resolve([provider])]
    compiler = Compiler(graph, usable, WeightTable())
    fed = fed_to(compiler.inputs, case.feeds)
    tensors = [tensor for item in fed for tensor in leaves(item)]
    plans = list(_all(compiler.compile(tensors, {}, list(map(form, fed)))))
    operator = ".".join(filter(None, key))
    homes = [
        device
        for each in plans
        for label, device in zip(each.nodes, each.placement)
        if label.startswith(f"{operator} '") and device >= 0
    ]
    if any(plans[0].devices[device] != provider for device in homes):
        return HOST
    if any(plan.halts(step) or isinstance(step, plan.Host) for each in plans for step in each.steps):
        return HOST if provider == registry.NUMPY and _by_functions(plans) else STEPS
    return NATIVE if homes or ops.load()[key].structured else FOLDED


def _all(given: plan.Plan) -> Iterator[plan.Plan]:
    yield given
    for made in given.functions:
        yield from _all(made[0])


def _by_functions(plans: list[plan.Plan]) -> bool:
    return all(isinstance(step, plan.Host) for each in plans for step in each.steps)


def table() -> list[dict[str, Any]]:
    """For each operator how many of its cases run where, by provider."""
    rows = []
    own = {key: known for key, known in ops.load().items() if known.__module__.startswith("sardonyx.ops.")}
    for domain, name in sorted(key for key, operator in own.items() if hasattr(operator, "expand")):
        row: dict[str, Any] = {"domain": domain or "ai.onnx", "name": name}
        known = cases((domain, name))
        for provider in PROVIDERS:
            homes: Counter[str] = Counter()
            for case in known:
                try:
                    home = where(case, (domain, name), provider)
                except (SardonyxError, NotImplementedError):  # a case of what is refused
                    continue
                homes[home] += 1
            row[provider] = dict(sorted(homes.items()))
        rows.append(row)
    return rows
