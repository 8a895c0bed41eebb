"""How many threads BLAS has, as sessions ask for it: a setting of the process, so each test has one of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import warnings
import numpy as np
import threadpoolctl
from sardonyx import threads

if {searching}:
    threads._bundled = lambda: None
warnings.simplefilter("error")
counts = []
threads.limit_blas(0)
threads.limit_blas(1)
counts.append({{pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}})
try:
    threads.limit_blas(2)
except UserWarning as warning:
    print(warning)
print(counts)
"""


@pytest.mark.parametrize("searching", [False, True])
def test_one_thread(searching: bool) -> None:
    command = [sys.executable, "-c", SCRIPT.format(searching=searching)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    warning, counts = done.stdout.splitlines()
    assert warning == "intra_op_num_threads=2 holds for the whole process, not 1 any more"
    assert counts == "[{1}]"
