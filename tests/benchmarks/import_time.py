"""How long `import sardonyx` takes beside `import numpy`, which it needs: medians of fresh, interleaved interpreters.

python -m tests.benchmarks.import_time [--runs 15] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

from tests.benchmarks.turns import turns

TIMED = "from time import perf_counter as now; start = now(); import {}; print(now() - start)"


def milliseconds(module: str) -> float:
    """Import `module` in an interpreter of its own."""
    command = [sys.executable, "-I", "-c", TIMED.format(module)]
    return 1e3 * float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(runs: int) -> dict[str, float]:
    """Return the medians of `runs` imports each, in milliseconds, and their ratio."""
    times: dict[str, list[float]] = {"numpy": [], "sardonyx": []}
    for k in range(runs + 1):
        for module in turns(times, k):
            times[module].append(milliseconds(module))
    medians = {module: statistics.median(measured[1:]) for module, measured in times.items()}  # the first writes .pyc
    return medians | {"ratio": medians["sardonyx"] / medians["numpy"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="imports of each (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    result = measure(arguments.runs)
    if arguments.json:
        print(json.dumps(result))
    else:
        print(
            "import numpy {numpy:.1f} ms, import sardonyx {sardonyx:.1f} ms: {ratio:.2f} times as long".format(**result)
        )


if __name__ == "__main__":
    main()
