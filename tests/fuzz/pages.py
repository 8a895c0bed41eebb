"""Mutated bundles, run by the page runtime in Node."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sardonyx.common import dtypes
from sardonyx.common.convert import inward
from tests.fuzz.runner import PATIENCE, SECONDS, Outcome, case

SCRIPT = Path(__file__).with_name("bundles.mjs")
RUNTIME = SCRIPT.parents[2] / "web" / "sardonyx"


def run_all(first: int, count: int, kind: str) -> Iterator[Outcome]:
    """The outcomes of cases in order."""
    command = ["node", str(SCRIPT), str(RUNTIME), str(1000 * PATIENCE)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node,
    ):
        assert node.stdin
        assert node.stdout
        file = Path(folder) / "case.sdx"
        for number in range(first, first + count):
            seed, mutation, data = case(number, kind)
            file.write_bytes(data)
            feeds = {name: _told(np.asarray(array)) for name, array in seed.feeds.items()}
            told = {"file": str(file), "feeds": feeds, "seconds": SECONDS[kind]}
            print(json.dumps(told), file=node.stdin, flush=True)
            answer = json.loads(node.stdout.readline())
            yield Outcome(number, seed.name, mutation, answer["status"], answer["detail"])
        node.stdin.close()


def _told(array: np.ndarray) -> list[Any]:
    kind = dtypes.of(array.dtype)
    return [kind.name, inward(array, kind).ravel().tolist(), list(array.shape)]
