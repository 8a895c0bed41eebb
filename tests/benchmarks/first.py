"""A first answer, measured in a process that has imported NumPy and no more: `startup` runs this file.

    python tests/benchmarks/first.py LIBRARY PROVIDER MODEL FEEDS

prints milliseconds from before the import of the library to the session class, to the session, and to the first
output, as JSON.
"""

import json
import pickle
import sys
from importlib import import_module
from time import perf_counter

import numpy as np  # noqa: F401 - which users of either library have imported


def answer(library: str, provider: str, model: str, feeds_file: str) -> list[float]:
    """Return the moments, in milliseconds."""
    with open(feeds_file, "rb") as file:
        feeds = pickle.load(file)
    moments = [perf_counter()]
    module = import_module(library)
    options, make = module.SessionOptions(), module.InferenceSession
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    moments.append(perf_counter())
    session = make(model, options, providers=[provider])
    moments.append(perf_counter())
    session.run(None, feeds)
    moments.append(perf_counter())
    if provider not in session.get_providers():
        raise RuntimeError(f"{provider} does not work on this machine")
    return [1e3 * (later - moments[0]) for later in moments[1:]]


if __name__ == "__main__":
    given = sys.argv[1:5]
    if sys.argv[5:] == ["--stages"]:
        from tests.benchmarks.stages import sampled

        with sampled() as found:
            answer(*given)
        print(json.dumps(found))
    else:
        print(json.dumps(answer(*given)))
