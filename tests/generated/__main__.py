"""`python -m tests.generated`: see the package."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["SARDONYX_CACHE"] = "0"

from tests import generated
from tests.generated.digests import Feeds, digests
from tests.models import MODELS, inputs, path
from tests.operators.test_samples import CASES, TYPED, model_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=generated.__doc__)
    parser.add_argument("--output", type=Path, required=True, help="the file for the digests")
    parser.add_argument("--against", type=Path, help="digests of another tree to compare with")
    parser.add_argument("--only", default="", help="only samples and models whose name has this")
    arguments = parser.parse_args()
    found = {}
    for name, model, feeds in cases(arguments.only):
        found.update({f"{name}: {what}": digest for what, digest in digests(model, feeds)})
    arguments.output.write_text(json.dumps(found, indent=0))
    print(f"{len(found):,} digests in {arguments.output}")
    if not arguments.against:
        return 0
    before = json.loads(arguments.against.read_text())
    differ = [name for name in {**before, **found} if before.get(name) != found.get(name)]
    print("\n".join([*sorted(differ), f"{len(differ):,} of {len(before):,} differ"]))
    return 1 if differ else 0


def cases(word: str) -> Iterator[tuple[str, Any, Feeds]]:
    """The name, the model and the feeds of every sample and every model of the list."""
    for case in [*CASES, *TYPED]:
        if word in case.id:
            model, feeds = model_of(*case.values)
            yield case.id, model.SerializeToString(), feeds
    for name in MODELS:
        if word in name:
            yield name, str(path(name)), inputs(name)


if __name__ == "__main__":
    sys.exit(main())
