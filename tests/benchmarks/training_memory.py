"""A step of training with and without a memory limit: what it stores, and what it takes.

    python -m tests.benchmarks.training_memory [--providers WASM] [--share 0.45] [--runs 9] [--write]

Three deep networks make a step (loss and gradients), free and with a limit of so much of the arena that it takes then.
Arenas are those that the sessions hold; times are medians, taken in turns in one process, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks import fresh
from tests.benchmarks.fresh import PROVIDERS, SIDES
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.turns import turns
from tests.training import deep

NETWORKS = {
    "MLP, 32 layers of 64, 1024 rows": lambda: deep.mlp(32, 64, 1024),
    "CNN, 32 convolutions of 8 channels, 6 pictures of 32 x 32": lambda: deep.cnn(32, 8, 32),
    "transformer, 12 layers of 64, 8 texts of 64 words": lambda: deep.transformer(12, 64, 64),
}
WARM = 2


def measure(name: str, provider: str, share: float, runs: int) -> dict[str, float]:
    """Bytes and milliseconds, free and limited, and the seconds until the first step is done."""
    from sardonyx import SessionOptions
    from sardonyx.training.api import CheckpointState, Module

    network = NETWORKS[name]()
    batch, found = network.batches()[0], dict[str, float]()
    modules: dict[str, Module] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        network.write(folder)
        for side in ("free", "limited"):
            options = SessionOptions()
            options.intra_op_num_threads = 1
            options.memory_limit = int(share * found["free bytes"]) if modules else 0
            begun = time.perf_counter()
            state = CheckpointState.load_checkpoint(folder / "checkpoint")
            made = Module(
                folder / "training_model.onnx", state, session_options=options, providers=[SIDES[provider][1]]
            )
            for _ in range(WARM):
                made(*batch)
                made.lazy_reset_grad()
                found.setdefault(f"{side} first", time.perf_counter() - begun)
            modules[side] = made
            found[f"{side} bytes"] = float(made.memory()[0].arena)
        times: dict[str, list[float]] = {side: [] for side in modules}
        for k in range(runs):
            for side in turns(modules, k):
                begun = time.perf_counter()
                modules[side](*batch)
                modules[side].lazy_reset_grad()
                times[side].append(1e3 * (time.perf_counter() - begun))
    return found | {side: statistics.median(known) for side, known in times.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.benchmarks.training_memory", description=__doc__)
    arguments.add_argument("--providers", nargs="+", choices=PROVIDERS, default=["WASM", "NumPy"])
    arguments.add_argument("--share", type=float, default=0.45)
    arguments.add_argument("--runs", type=int, default=9)
    arguments.add_argument("--write", action="store_true", help="into README.md")
    args = arguments.parse_args()
    rows = []
    for provider in args.providers:
        for name in NETWORKS:
            told = fresh.call(__spec__.name, "measure", name, provider, args.share, args.runs)
            sizes = [told[f"{side} bytes"] / (1 << 20) for side in ("free", "limited")]
            figures = [told["free"], told["limited"]]
            rows.append(
                [
                    f"{name}: {provider}",
                    *(f"{size:.1f}" for size in sizes),
                    f"{sizes[1] / sizes[0]:.2f}",
                    *(f"{figure:.1f}" for figure in figures),
                    f"{figures[1] / figures[0]:.2f}",
                    *(f"{told[f'{side} first']:.1f}" for side in ("free", "limited")),
                ]
            )
    head = ["network", "MiB", "limited", "ratio", "ms", "limited", "ratio", "first step, s", "limited"]
    publish("training-memory", [*table(head, rows), "", processor()], args.write)


if __name__ == "__main__":
    main()
