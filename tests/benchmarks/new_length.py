"""What a sequence length that a session has not seen costs: nothing is compiled, memory is laid out and bound anew.

    python -m tests.benchmarks.new_length [--provider NAME] [--lengths 40] [--json]

Each length runs twice; the median difference between first and second run is what the new length added, as seen from
outside. `bind_ms` is the same from inside: the median time that the executor took to lay out and bind.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any
from unittest import mock

import numpy as np

import sardonyx
from sardonyx.runtime.frames import Frame
from tests import models
from tests.support.needs import quieten_vulkan

PROVIDERS = ("NumpyExecutionProvider", "WasmExecutionProvider", "WebGpuExecutionProvider")


def measure(provider: str, count: int) -> dict[str, Any]:
    """Milliseconds of first and second runs, and how many plans were made, for one provider."""
    session = sardonyx.InferenceSession(models.path("minilm-l3"), providers=[provider])
    rng = np.random.default_rng(0)

    def run(length: int) -> float:
        feeds = {"input_ids": rng.integers(1000, 30000, (1, length)), "attention_mask": np.ones((1, length), np.int64)}
        start = time.perf_counter()
        session.run(None, feeds)
        return 1e3 * (time.perf_counter() - start)

    run(4)
    bound: list[float] = []
    bind = Frame.bind

    def timed(frame: Frame, number: int, symbols: dict[str, int]) -> None:
        start = time.perf_counter()
        bind(frame, number, symbols)
        bound.append(1e3 * (time.perf_counter() - start))

    with mock.patch.object(Frame, "bind", timed):
        pairs = [(run(length), run(length)) for length in rng.permutation(np.arange(5, 5 + count)).tolist()]
    return {
        "provider": provider,
        "first_ms": statistics.median(first for first, _ in pairs),
        "second_ms": statistics.median(second for _, second in pairs),
        "added_ms": statistics.median(first - second for first, second in pairs),
        "bind_ms": statistics.median(bound),
        "plans": session.compiled,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=PROVIDERS)
    parser.add_argument("--lengths", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    quieten_vulkan()
    rows = [measure(name, arguments.lengths) for name in PROVIDERS if arguments.provider in (None, name)]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            "{provider}: {first_ms:.2f} ms for a new length, {second_ms:.2f} ms for a known one: "
            "{added_ms:.2f} ms added, {bind_ms:.2f} ms to bind, {plans} plan made".format(**row)
        )


if __name__ == "__main__":
    main()
