"""python -m tests.models.floated ID [PROVIDER ...]: how near a model of dynamic int8 comes to its float form.

The float form has the same weights and rounds nothing; onnxruntime runs it, and NumPy its Fourier transforms, in
float64. Of each runtime (onnxruntime, and providers: NumPy and WASM unless some are named) the means of six inputs:

size        by how many elements the output is longer or shorter
sums        how far the sums are off that are rounded to integers, such as durations
tensors     the errors of the tensors that become 8 bits, durations given (the geometric mean)
free        the cosine of the outputs, of sounds that of their spectra
timed       the same where runs are given the durations of the float form
given       the same where they are given its Fourier transforms besides
"""

from __future__ import annotations

import sys

import numpy as np

from tests.engine.providers import NUMPY, WASM
from tests.models import MODELS

from .trial import ORT, Distance, Runtime, Trial, mean_error

SEEDS = 6
HEAD = f"{'':30}{'size':>7}{'sums':>8}{'tensors':>9}{'free':>8}{'timed':>8}{'given':>8}"


def main(arguments: list[str]) -> None:
    match arguments:
        case [id, *providers] if id in MODELS:
            names = [ORT, *(providers or [NUMPY, WASM])]
        case _:
            sys.exit(__doc__)
    runtimes = [Runtime(name, exact) for exact in (False, True) for name in names]
    trial = Trial(id, range(SEEDS))
    print(HEAD)
    for runtime in runtimes:
        print(row(runtime, trial.distances(runtime)), flush=True)


def row(runtime: Runtime, distances: list[Distance]) -> str:
    name = f"{runtime.name.removesuffix('ExecutionProvider')}, {'float form' if runtime.exact else 'int8'}"
    size = np.mean([one.longer for one in distances])
    sums = np.mean([one.sums for one in distances])
    cosines = [np.mean([getattr(one, kind) for one in distances]) for kind in ("free", "timed", "given")]
    return f"{name:30}{size:7.0f}{sums:8.4f}{mean_error(distances):9.4f}" + "".join(f"{c:8.4f}" for c in cosines)


main(sys.argv[1:])
