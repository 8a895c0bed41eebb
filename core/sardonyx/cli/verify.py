"""compare each node of a model with float64

The model is run on the provider without optimizations, every value of its graph is kept, and each node is evaluated
again in float64 by NumPy, from what the provider gave to it: an error is that of the node where it stands. Errors are
relative to the largest value that a node gives. Then the model is run optimized, as a session does it, and its outputs
are compared with those. The exit code is 1 where anything differs by more than --tolerance, outputs by a hundred times
that.

--against onnxruntime compares nothing but the outputs, with those of onnxruntime.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.screen import Screen, progress, show
from sardonyx.cli.text import count, elided, figure, number, shape

if TYPE_CHECKING:
    from sardonyx.cli.reference import Check

SHOWN = 10
"""How many nodes are shown, those with the largest errors."""
OUTPUTS = 100
"""How many times more an output may differ than a node: errors add up."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.feeds import add_input, add_shape

    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    add_provider(parser)
    parser.add_argument("--against", choices=["onnxruntime"], help="compare outputs with another runtime")
    parser.add_argument("--tolerance", type=float, default=1e-4, metavar="T", help="relative error, 1e-4 if not given")
    add_input(parser)
    add_shape(parser)


def run(args: argparse.Namespace) -> int:
    data = collect(args)
    show(args, data, render)
    return 0 if data["passed"] else 1


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """The facts, as `--json` prints them."""
    from sardonyx import InferenceSession
    from sardonyx.cli.devices import chosen
    from sardonyx.cli.feeds import feeds
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read

    if not 0 <= args.tolerance < 1:
        raise InvalidArgument(f"--tolerance {args.tolerance}: take a relative error, as 1e-4")
    providers = chosen(args.provider)
    model = read(args.model)
    fed = feeds(model, args.input, args.shape, args.seed)
    values = fed.present
    session = InferenceSession(args.model, None, providers)
    with fed.blamed():
        results = session.run(None, values)
    names = [port.name for port in session.get_outputs()]
    head = {
        "model": str(args.model),
        "providers": session.get_providers(),
        "against": args.against or "float64",
        "tolerance": args.tolerance,
        "assumed": fed.assumed,
        "notes": fed.notes,
    }
    nodes = None
    if args.against:
        expected = _theirs(args.model, values)
    else:
        nodes, expected = _nodes(model, providers, values, args)
    outputs = _outputs(names, results, expected, args.tolerance)
    first = next((node for node in nodes["checked"] if node["diverges"]), None) if nodes else None
    passed = first is None and not any(output["diverges"] for output in outputs)
    return {**head, "passed": passed, "nodes": nodes, "first": first, "outputs": outputs}


def _nodes(model: Any, providers: Any, values: dict[str, Any], args: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """What became of each node, and the outputs of the model node by node."""
    from sardonyx import GraphOptimizationLevel, InferenceSession, SessionOptions
    from sardonyx.cli import reference
    from sardonyx.common import dtypes
    from sardonyx.model.serde.writer import write

    count_outputs = len(model.graph.outputs)
    exposed = reference.exposed(model)
    options = SessionOptions(graph_optimization_level=GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = InferenceSession(write(exposed), options, providers)
    names = [value.name for value in exposed.graph.outputs]
    found = dict(zip(names, session.run(names, values), strict=True))
    plan = session.plans[0]
    types = {port.name: dtypes.by_name(port.dtype) for port in (*plan.inputs, *plan.outputs)}
    homes = dict(zip(plan.nodes, plan.placement))
    checked, skipped = [], []
    with progress("Comparing", len(exposed.graph.nodes), hidden=args.json) as step:
        for check in reference.check(exposed, {**found, **values}, types):
            step()
            home = homes.get(check.node.label, -1)
            if check.reason:
                skipped.append({"node": check.node.label, "reason": check.reason})
                continue
            checked.append(
                _facts(check, {**found, **values}, types, plan.devices[home] if home >= 0 else None, args.tolerance)
            )
    return {"checked": checked, "skipped": skipped}, [found[name] for name in names[:count_outputs]]


def _facts(check: Check, values: Any, types: Any, provider: str | None, tolerance: float) -> dict[str, Any]:
    kind = types[check.output].name if check.output in types else ""
    return {
        "node": check.node.label,
        "operator": check.node.op_type,
        "provider": provider,
        "output": check.output,
        "type": kind,
        "error": number(check.error),
        "diverges": check.diverges(tolerance, kind),
        "reference": "own types" if check.exact else "float64",
        "inputs": [_range(value, values) for value in check.node.inputs if value is not None],
    }


def _range(value: Any, values: dict[str, Any]) -> dict[str, Any]:
    """An input of a node: its shape, and between which values it lies."""
    import numpy as np

    item = values.get(value.name)
    if item is None and value.constant is not None:
        item = value.constant.array()
    facts: dict[str, Any] = {"name": value.name, "shape": None, "min": None, "max": None}
    if not isinstance(item, np.ndarray):
        return facts
    facts["shape"] = list(item.shape)
    if item.size and item.dtype.kind not in "OUc":
        wide = item.astype(np.float64)
        facts |= {"min": number(wide.min()), "max": number(wide.max())}
    return facts


def _outputs(names: list[str], results: list[Any], expected: list[Any], tolerance: float) -> list[dict[str, Any]]:
    from sardonyx.cli import comparison

    rows = []
    for name, one, other in zip(names, results, expected, strict=True):
        error = comparison.error(one, other)
        unit = comparison.UNITS.get(getattr(getattr(one, "dtype", None), "name", ""), 0.0)
        rows.append({"name": name, "error": number(error), "diverges": error > OUTPUTS * max(tolerance, unit)})
    return rows


def _theirs(model: str, values: dict[str, Any]) -> list[Any]:
    from sardonyx.cli.bench import against

    return against(model, values, 1).call()


def render(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli.devices import short_name

    where = " and ".join(map(short_name, data["providers"][:1]))
    screen.heading(f"{Path(data['model']).name}: {where} against {data['against']}")
    if data["assumed"]:
        screen.line(
            f"Taking {', '.join(f'{name} = 1' for name in data['assumed'])}; --shape says otherwise.", quiet=True
        )
    for note in data["notes"]:
        screen.line(f"Note: {note}")
    if data["nodes"]:
        _render_nodes(screen, data)
    screen.heading("Outputs, optimized against node by node" if data["nodes"] else "Outputs")
    bold = [k for k, output in enumerate(data["outputs"]) if output["diverges"]]
    rows = [[o["name"], _figure(o["error"]), "diverges" if o["diverges"] else ""] for o in data["outputs"]]
    screen.table(["Output", ">Error", ""], rows, bold)
    screen.line("")
    wrong = sum(node["diverges"] for node in data["nodes"]["checked"]) if data["nodes"] else 0
    total = f"{count(len(data['nodes']['checked']), 'node')} compared, " if data["nodes"] else ""
    verdict = (
        "nothing diverges" if data["passed"] else f"{count(wrong, 'node')} and {count(len(bold), 'output')} diverge"
    )
    screen.line(f"{total}{verdict} (tolerance {data['tolerance']:g}).")


def _render_nodes(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli.devices import short_name

    nodes, first = data["nodes"]["checked"], data["first"]
    worst = sorted(nodes, key=lambda node: -float(node["error"]))[:SHOWN]
    if first is not None and first not in worst:
        worst = [*worst[:-1], first]
    screen.heading("Nodes with the largest errors")
    rows = [
        [
            elided(node["node"]),
            short_name(node["provider"]) if node["provider"] else "folded",
            node["type"],
            _figure(node["error"]),
            "first to diverge" if node is first else "diverges" if node["diverges"] else "",
        ]
        for node in worst
    ]
    screen.table(["Node", "On", "Type", ">Error", ""], rows, [k for k, node in enumerate(worst) if node is first])
    if first is not None:
        screen.heading(f"First divergence: {first['node']}")
        screen.table(
            ["Input", "Shape", ">Min", ">Max"],
            [
                [elided(item["name"]), shape(item["shape"]), figure(item["min"]), figure(item["max"])]
                for item in first["inputs"]
            ],
        )
    if data["nodes"]["skipped"]:
        screen.heading("Not compared")
        screen.table(["Node", "Because"], [[elided(item["node"]), item["reason"]] for item in data["nodes"]["skipped"]])


def _figure(error: float | str) -> str:
    return error if isinstance(error, str) else f"{error:.1e}" if error else "0"
