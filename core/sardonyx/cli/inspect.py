"""show what a model holds, and what becomes of it on a provider

Dimensions that are not known are taken as 1 unless --shape gives the sizes of an input, --shape image=1x3x224x224, or
of a dimension, --shape batch=4. Nothing is run; the provider's device is not opened. A model that cannot be run is
shown too, with the reason; the exit code is 1 if that is an operator which is not known. --operators needs no model:
it shows all operators, and on which provider they run.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.devices import add_provider, chosen, short_name
from sardonyx.cli.feeds import add_shape, inputs_of, shapes_of, sizes
from sardonyx.cli.screen import Screen, show
from sardonyx.cli.text import count, elided, paragraphs
from sardonyx.common.units import nbytes
from sardonyx.errors import InvalidArgument, NotImplemented
from sardonyx.model.ir import Tensor, TensorType

if TYPE_CHECKING:
    from sardonyx.model.ir import Model, Value

GUARDS = 12
"""How many guards are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help="an .onnx file")
    parser.add_argument("--operators", action="store_true", help="show all operators, and where they run")
    add_provider(parser)
    add_shape(parser)


def run(args: argparse.Namespace) -> int:
    if args.operators:
        from sardonyx.cli import operators

        show(args, operators.collect(), operators.render)
        return 0
    if args.model is None:
        raise InvalidArgument("name a model, or ask for --operators")
    data = collect(args)
    show(args, data, render)
    return 1 if data["unsupported"] else 0


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """The facts, as `--json` prints them."""
    from sardonyx.model.serde.reader import read

    names = chosen(args.provider)
    model = read(args.model)
    return {**_facts(model, args.model), **_compiled(model, names, args.shape)}


def _facts(model: Model, path: str) -> dict[str, Any]:
    from sardonyx import ops

    graph = model.graph
    operators: Counter[tuple[str, str]] = Counter((node.domain, node.op_type) for node in graph.all_nodes())
    constants = [value.constant for value in graph.initializers if value.constant is not None]
    attributes = (node.attribute("value") for node in graph.all_nodes() if node.op_type == "Constant")
    constants += [tensor for tensor in attributes if isinstance(tensor, Tensor)]
    functions = {(domain, name) for domain, name, _ in model.functions}
    kinds: dict[str, Counter[str]] = {}
    for tensor in constants:
        kind = kinds.setdefault(tensor.dtype.name, Counter())
        kind.update({"count": tensor.size, "bytes": -(-tensor.size * tensor.dtype.bits // 8)})
    return {
        "model": str(path),
        "bytes": os.path.getsize(path),
        "graph": graph.name,
        "description": model.doc or graph.doc,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "ir_version": model.ir_version,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        "metadata": dict(model.metadata),
        "inputs": [_port(value) for value in inputs_of(model)],
        "outputs": [_port(value) for value in graph.outputs],
        "nodes": sum(operators.values()),
        "operators": [
            {
                "domain": domain or "ai.onnx",
                "name": name,
                "count": number,
                "known": (domain, name) in functions or ops.find(domain, name) is not None,
            }
            for (domain, name), number in operators.most_common()
        ],
        "parameters": sum(kind["count"] for kind in kinds.values()),
        "parameter_bytes": sum(kind["bytes"] for kind in kinds.values()),
        "parameter_types": [{"type": name, **kind} for name, kind in kinds.items()],
        "unsupported": _unsupported(model),
    }


def _unsupported(model: Model) -> list[dict[str, Any]]:
    """The operators that nothing here knows: how many nodes, which, and what can be done."""
    from sardonyx.passes.known import undeclared
    from sardonyx.passes.upgrade import NEWEST

    labels_by_operator: dict[tuple[str, str], list[str]] = {}
    for node, _ in undeclared(model):
        labels_by_operator.setdefault((node.domain, node.op_type), []).append(node.label)
    standard = "export the model for a newer operator set, which says this in other operators"
    custom = "declare it with @sardonyx.custom_op, or export the model with a function that says what it does"
    return [
        {
            "domain": domain or "ai.onnx",
            "name": name,
            "nodes": labels,
            "remedy": standard if (domain or "").replace("ai.onnx", "") in NEWEST else custom,
        }
        for (domain, name), labels in labels_by_operator.items()
    ]


def _port(value: Value) -> dict[str, str]:
    return {"name": value.name, "type": str(value.type or "?")}


def _compiled(model: Model, names: list[str] | None, texts: list[str] | None) -> dict[str, Any]:
    """What the optimizer does, and what a session with these providers would make of the model."""
    from sardonyx.cli.compilation import describe
    from sardonyx.cli.rewriting import count_nodes, rewritten
    from sardonyx.compiler.compile import Compiler
    from sardonyx.plans.weight_table import WeightTable
    from sardonyx.providers import registry

    total = count_nodes(model)
    usable = [provider for provider, _ in registry.resolve(names)]
    inputs = inputs_of(model)
    given = shapes_of(texts, inputs)
    assumed: list[str] = []
    shapes = [sizes(value.name, value.shape, given, assumed) for value in inputs if isinstance(value.type, TensorType)]
    head: dict[str, Any] = {"providers": [provider.name for provider in usable], "assumed": assumed}
    fired: list[dict[str, Any]] = []
    try:
        if len(shapes) < len(inputs):
            kind = next(value for value in inputs if not isinstance(value.type, TensorType))
            raise NotImplemented(f"input {kind.name!r} is a {kind.type}, of which only a call tells the length")
        prepared, fired = rewritten(model, "all")
        facts = describe(Compiler(prepared.graph, usable, WeightTable()), shapes)
    except Exception as error:  # a model that cannot be compiled can still be looked at
        return {"rewrites": fired, "compiled": {**head, "error": paragraphs(str(error))}}
    folded = max(total - sum(facts["placement"].values()), 0)
    return {"rewrites": fired, "compiled": {**head, "error": None, "folded": folded, **facts}}


def render(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli import rewriting

    screen.heading(Path(data["model"]).name)
    screen.facts(
        {
            "Graph": data["graph"],
            "Description": data["description"],
            "Producer": data["producer"],
            "Operator sets": ", ".join(f"{domain} {version}" for domain, version in data["opsets"].items()),
            "IR version": data["ir_version"],
            "File": nbytes(data["bytes"]),
            "Parameters": f"{data['parameters']:,} ({nbytes(data['parameter_bytes'])})",
            "Of them": ", ".join(
                f"{kind['count']:,} {kind['type']} ({nbytes(kind['bytes'])})" for kind in data["parameter_types"]
            )
            if len(data["parameter_types"]) > 1
            else "",
        }
    )
    screen.heading("Inputs and outputs")
    ports = [("input", item) for item in data["inputs"]] + [("output", item) for item in data["outputs"]]
    screen.table(["", "Name", "Type"], [[kind, item["name"], item["type"]] for kind, item in ports])
    if data["metadata"]:
        screen.heading("Metadata")
        screen.facts(data["metadata"])
    screen.heading(f"Operators: {count(data['nodes'], 'node')}")
    screen.table(
        ["Operator", ">Nodes", ""],
        [
            [
                item["name"] if item["domain"] == "ai.onnx" else f"{item['domain']}.{item['name']}",
                item["count"],
                "" if item["known"] else "not known",
            ]
            for item in data["operators"]
        ],
    )
    if data["unsupported"]:
        screen.heading("Operators that are not known")
        rows = [
            [f"{item['domain']}.{item['name']}", len(item["nodes"]), elided(item["nodes"][0], 30), item["remedy"]]
            for item in data["unsupported"]
        ]
        screen.table(["Operator", ">Nodes", "The first of them", "Remedy"], rows)
    if data["rewrites"]:
        screen.heading("Optimizations")
        rewriting.render(screen, data["rewrites"])
    _render_compiled(screen, data["compiled"])


def _render_compiled(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"Compiled for {', '.join(map(short_name, data['providers']))}")
    if data["assumed"]:
        taken = ", ".join(f"{name} = 1" for name in data["assumed"])
        screen.line(f"Taking {taken}; --shape says otherwise.", quiet=True)
        screen.line("")
    if data["error"]:
        reason, *code = data["error"].split("\n\n")
        screen.line(f"This does not compile: {reason}")
        for part in code:
            screen.picture(["", *part.splitlines()])
        return
    placed = [f"{number:,} on {short_name(name)}" for name, number in data["placement"].items() if number]
    folded = [f"{data['folded']:,} folded away"] if data["folded"] else []
    screen.facts(
        {
            "Nodes": ", ".join([*placed, *folded]),
            "Kernels": f"{data['kernels']:,}, launched {count(data['launches'], 'time')}",
            "Copies": f"{data['copies']:,} between devices" if len(placed) > 1 or data["copies"] else "",
            "Halts": f"{data['halts']:,} for sizes or control flow that depend on data" if data["halts"] else "",
            "Traffic": f"{nbytes(data['traffic']['moved'])} a run, {nbytes(data['traffic']['least'])} in one kernel",
            "Memory": ", ".join(f"{nbytes(n)} on {short_name(name)}" for name, n in data["memory"].items()),
            "Weights": nbytes(data["weight_bytes"]),
            "Sizes": ", ".join(f"{name} = {text}" for name, text in data["symbols"].items()),
            "Guards": "" if data["guards"] else "none: the plan holds for all sizes",
        }
    )
    if data["guards"]:
        screen.heading("Holds while")
        for guard in data["guards"][:GUARDS]:
            screen.line(guard)
        if len(data["guards"]) > GUARDS:
            screen.line(f"and {len(data['guards']) - GUARDS} more, which --json lists", quiet=True)
    if data["fallbacks"]:
        groups: dict[tuple[str, str], list[str]] = {}
        for item in data["fallbacks"]:
            groups.setdefault((item["provider"], item["reason"]), []).append(item["node"])
        screen.heading(f"Not on {short_name(data['providers'][0])}")
        screen.table(
            ["Because", "Runs on", ">Nodes", "The first of them"],
            [[reason, short_name(home), len(nodes), elided(nodes[0])] for (home, reason), nodes in groups.items()],
        )
