"""write the optimized model

Constants are folded, equal nodes merged, and operators fused, as a session does it before it compiles. Level basic is
for what any runtime gains by; extended and all add fused operators, those of com.microsoft too, which onnxruntime
knows. The file keeps the operator set of the model, or gets the one that --opset names, unless a node needs a newer
one.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.writing import refuse_unwritable, writing
from sardonyx.common.units import nbytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="where the optimized model goes")
    parser.add_argument("--level", choices=["basic", "extended", "all"], default="all", help="all if not given")
    parser.add_argument("--opset", type=int, metavar="N", help="operator set of ai.onnx to write the model in")


def run(args: argparse.Namespace) -> None:
    show(args, collect(args), render)


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Optimize and write the model; the facts, as `--json` prints them."""
    from sardonyx.cli.rewriting import count_nodes, rewritten
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read
    from sardonyx.passes.downgrade import save_lowered
    from sardonyx.passes.upgrade import NEWEST

    if args.opset is not None and not 1 <= args.opset <= NEWEST[""]:
        raise InvalidArgument(f"--opset {args.opset}: the operator sets of ai.onnx that are known are 1..{NEWEST['']}")
    model = read(args.model)
    if args.output.exists() and os.path.samefile(args.model, args.output):
        raise InvalidArgument(f"--output {args.output} is the model itself; give another file")
    refuse_unwritable("--output", args.output)
    optimized, fired = rewritten(model, args.level)
    asked = {"": args.opset} if args.opset else {}
    with writing("--output", args.output):
        save_lowered(optimized, {**_plain(model.opset_imports), **asked}, str(args.output))
    written = read(args.output)
    return {
        "model": str(args.model),
        "output": str(args.output),
        "level": args.level,
        "asked": args.opset,
        "nodes": {"before": count_nodes(model), "after": count_nodes(written)},
        "bytes": {"before": os.path.getsize(args.model), "after": os.path.getsize(args.output)},
        "opsets": {"before": _named(model.opset_imports), "after": _named(written.opset_imports)},
        "rules": fired,
    }


def _plain(imports: dict[str, int]) -> dict[str, int]:
    return {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}


def _named(imports: dict[str, int]) -> dict[str, int]:
    return {domain or "ai.onnx": version for domain, version in imports.items()}


def render(screen: Screen, data: dict[str, Any]) -> None:
    from sardonyx.cli import rewriting

    screen.heading(f"{Path(data['model']).name}, optimized")
    before, after = (data["opsets"][when] for when in ("before", "after"))
    rows = [
        ["Nodes", f"{data['nodes']['before']:,}", f"{data['nodes']['after']:,}"],
        ["Size", nbytes(data["bytes"]["before"]), nbytes(data["bytes"]["after"])],
        *([domain, before.get(domain, "none"), after.get(domain, "none")] for domain in {**before, **after}),
    ]
    screen.table(["", ">Before", ">After"], rows)
    if data["asked"] and after.get("ai.onnx", 0) > data["asked"]:
        screen.line("")
        screen.line(f"Some nodes cannot be said in operator set {data['asked']}; {after['ai.onnx']} is the first.")
    if data["rules"]:
        screen.heading("Rules")
        rewriting.render(screen, data["rules"])
    else:
        screen.line("")
        screen.line("No rule applied.")
    screen.heading("Written")
    screen.line(data["output"])
