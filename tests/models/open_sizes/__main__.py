"""python -m tests.models.open_sizes [ID ...]: make a bundle of each model, for each target, and say how it does.

Of each bundle: how many plans it has, its bytes and those of a further plan (deflated), and the seconds that it took.
Of 20 sizes that are drawn (8 small ones for a GPU, which a processor may play): at how many it agrees with onnxruntime,
how many both refuse (not), how many only onnxruntime refuses (more), or only the bundle (less), and at how many it is
wrong. Then what it takes, and what is to be said against it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import textwrap
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sardonyx import InferenceSession
from sardonyx.api.bundling import TARGETS, bundle_of
from sardonyx.errors import SardonyxError
from sardonyx.plans.bundle import Bundle
from sardonyx.plans.plan_cache import Source
from tests.models import path
from tests.models.oracle import session
from tests.support.needs import lacks, quieten_vulkan

from . import OPEN
from .trial import DRAWS, Outcome, trials

WIDTH = 80
HEAD = f"{'':8}{'plans':>5}{'MB':>8}{'kB/plan':>8}{'s':>6}  right not more less wrong"
COLUMNS = (Outcome.AGREED, Outcome.BOTH_REFUSED, Outcome.WE_TAKE_MORE, Outcome.WE_REFUSED, Outcome.WRONG)


@dataclass(frozen=True)
class Made:
    """A bundle in a file, and what is known of it."""

    file: Path
    nbytes: int
    seconds: float
    told: Mapping[str, Any]

    @classmethod
    def of(cls, id: str, target: str, folder: Path) -> Made:
        """Make the bundle of a model for a target."""
        file = folder / f"{id}-{target}.sdx"
        start = time.perf_counter()
        with file.open("wb") as written:
            written.writelines(bundle_of(Source(path(id)), [target]))
        seconds = time.perf_counter() - start
        data = file.read_bytes()
        return cls(file, len(data), seconds, Bundle(data).manifest["targets"][target])

    def __str__(self) -> str:
        plans = self.told["plans"]
        further = [len(zlib.compress(json.dumps(plan).encode())) for plan in plans[1:]]
        each = f"{sum(further) / len(further) / 1000:.1f}" if further else ""
        return f"{len(plans):5}{self.nbytes / 1e6:8.2f}{each:>8}{self.seconds:6.1f}"


def main(ids: list[str]) -> None:
    """Print what there is to say of each of these models."""
    quieten_vulkan()
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        for id in ids or OPEN:
            print(id)
            for target in TARGETS:
                if not lacks("webgpu") or target == "wasm":
                    _report(id, target, Path(folder))


def _report(id: str, target: str, folder: Path) -> None:
    title = f"  {target:6}"
    try:
        made = Made.of(id, target, folder)
    except SardonyxError as error:
        print(title)
        _say(str(error))
        return
    ours = InferenceSession(made.file, providers=[TARGETS[target]])
    found = list(trials(id, ours, session(id), *DRAWS[target]))
    counts = Counter(trial.outcome for trial in found)
    print(f"{title}{made}  ", " ".join(f"{counts[each] or '.':>4}" for each in COLUMNS), flush=True)
    for line in dict.fromkeys(plan["accepts"] for plan in made.told["plans"]):
        _say(line)
    for trial in found:
        if not trial.outcome.is_right:
            _say(f"! {trial}")
    made.file.unlink()


def _say(text: str) -> None:
    print(textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="      "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
