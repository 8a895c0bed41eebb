"""How long it takes to find the plan for the sizes of a call: microseconds, in Python and in JavaScript.

    python -m tests.benchmarks.choosing [--models ID,...] [--node PATH] [--json]

A bundle has its plans for all sizes; a session has those that its first three calls lead to. Each plan is looked for
with sizes that it holds for, where it stands first, as in a call like the last one, and where all others stand before
it. Python asks as `CompiledGraph.call` does. JavaScript is Node, and `Graph.call` of the page runtime, with frames
that lay out and bind nothing: V8 is that of Chromium.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import timeit
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx import InferenceSession
from sardonyx.api.bundling import bundle_of
from sardonyx.plans.acceptance import holds
from sardonyx.plans.bundle import Bundle
from sardonyx.plans.plan import Plan
from sardonyx.plans.plan_cache import Source
from sardonyx.sizes.sizecode import Fit
from tests.models import path
from tests.models.open_sizes import draw, feeds_of
from tests.support.needs import lacks

MODELS = ("smollm2-int4-contrib-prefill", "ppocr2-cls", "minilm-l3")
PROVIDER = "WasmExecutionProvider"
DRAWS = 400
"""Of sizes, until each plan has some."""
ROUNDS = 7
RUNS = 2000
ENGINE = Path(__file__).parents[2] / "web" / "sardonyx" / "executor.js"

Shapes = list[tuple[int, ...]]
Figures = dict[str, Any]


def wanted(id: str, plans: Sequence[Plan]) -> list[Shapes | None]:
    """Shapes of feeds for each plan, which holds for them; None where no sizes that were drawn are for it."""
    rng = np.random.default_rng(0)
    found: list[Shapes | None] = [None] * len(plans)
    for _ in range(DRAWS):
        sizes = draw(id, rng, 0.3)
        feeds = feeds_of(id, sizes, rng)
        shapes = [feeds[port.name].shape for port in plans[0].inputs]
        for number, plan in enumerate(plans):
            if found[number] is None and holds(plan, shapes):
                found[number] = shapes
        if all(found):
            break
    return found


def in_python(plans: Sequence[Plan], shapes: Sequence[Shapes | None]) -> dict[str, float]:
    """Microseconds to find a plan that stands first, and one that stands last: the slowest of all plans."""
    fits = [Fit([port.shape for port in plan.inputs], plan.symbols, plan.guards) for plan in plans]
    times: dict[str, list[float]] = {"first": [], "last": []}
    for number, each in enumerate(shapes):
        if each is None:
            continue
        others = [*fits[:number], *fits[number + 1 :]]
        for place, order in (("first", [fits[number], *others]), ("last", [*others, fits[number]])):

            def choose(order: list[Fit] = order, shapes: Shapes = each) -> dict[str, int]:
                return next(found for fit in order if (found := fit(shapes)) is not None)

            choose(), choose()  # the second time a fit compiles its test
            times[place].append(1e6 * statistics.median(timeit.repeat(choose, number=RUNS, repeat=ROUNDS)) / RUNS)
    return {place: max(values) for place, values in times.items()}


def in_javascript(node: str, told: Any, shapes: Sequence[Shapes | None], folder: Path) -> dict[str, float]:
    """The same in Node."""
    job = folder / "job.json"
    job.write_text(
        json.dumps({"engine": str(ENGINE), "target": told, "shapes": shapes, "runs": RUNS, "rounds": ROUNDS})
    )
    script = Path(__file__).with_name("choosing.mjs")
    done = subprocess.run([node, script, job], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def of_bundle(id: str, node: str | None, folder: Path) -> Figures:
    file = folder / f"{id}.sdx"
    with file.open("wb") as written:
        written.writelines(bundle_of(Source(path(id)), ["wasm"]))
    plans = InferenceSession(file, providers=[PROVIDER]).plans
    shapes = wanted(id, plans)
    found: Figures = {"what": "bundle", "plans": len(plans), "reached": len([*filter(None, shapes)])}
    found["python"] = in_python(plans, shapes)
    if node:
        told = Bundle(file.read_bytes()).manifest["targets"]["wasm"]
        found["javascript"] = in_javascript(node, told, shapes, folder)
    file.unlink()
    return found


def of_session(id: str) -> Figures:
    session = InferenceSession(path(id), providers=[PROVIDER])
    rng = np.random.default_rng(1)
    calls = 0
    while calls < 3:
        sizes = draw(id, rng, 0.1)
        if all(sizes.values()):
            session.run(None, feeds_of(id, sizes, rng))
            calls += 1
    plans = session.plans
    shapes = wanted(id, plans)
    reached = len([*filter(None, shapes)])
    return {"what": "session", "plans": len(plans), "reached": reached, "python": in_python(plans, shapes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=[*MODELS], metavar="ID,...")
    parser.add_argument("--node", default=None if lacks("node") else "node", help="a path (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for id in arguments.models:
            for row in (of_bundle(id, arguments.node, Path(folder)), of_session(id)):
                rows.append({"model": id, **row})
                if not arguments.json:
                    print(rendered(rows[-1]), flush=True)
    if arguments.json:
        print(json.dumps(rows, indent=1))


def rendered(row: Figures) -> str:
    times = "; ".join(
        f"{name} {row[key]['first']:.1f} us for the first, {row[key]['last']:.1f} us for the last"
        for key, name in (("python", "Python"), ("javascript", "JavaScript"))
        if key in row
    )
    return "{model}, {what}: {plans} plans, {reached} reached; ".format(**row) + times


if __name__ == "__main__":
    main()
