"""What holds where processes end, and where they fork, whatever threads do meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import sardonyx
from sardonyx.common import forks, threads
from sardonyx.common.garbage import paused
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU
from tests.support import require

ENDING = """
import builtins, threading, time
import numpy as np
import sardonyx
from tests.engine.graphs import model

session = sardonyx.InferenceSession(model('''
g (float[N, 256] x, float[256, 256] w) => (float[N, 256] y) {{
  a = MatMul (x, w)  b = Tanh (a)  c = MatMul (b, w)  y = Softmax (c)
}}'''), providers=["{provider}"])
fed = {{"x": np.zeros((512, 256), np.float32), "w": np.zeros((256, 256), np.float32)}}
session.run(None, fed)


def forever():
    while True:
        session.run(None, fed)


class Late:
    def __del__(self, session=session, fed=fed):  # names of modules are gone by then
        try:
            print(session.run(None, fed)[0].shape)
        except Exception as error:
            print(error)


if {is_late}:
    builtins.late = Late()
else:
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.2)
"""


FORKING = """
import os, signal, threading, time, warnings
import numpy as np
import sardonyx
from tests.engine.graphs import model

warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
TEXT = "g (float[N, 64] x, float[64, 64] w) => (float[N, 64] y) { a = MatMul (x, w)  y = Tanh (a) }"
FUNCTIONS = ("Tanh", "Sin", "Exp", "Cos", "Sigmoid", "Erf", "Neg", "Abs")
shared = []


def work(number):
    text = TEXT.replace("Tanh", FUNCTIONS[number % len(FUNCTIONS)])
    session = sardonyx.InferenceSession(model(text), providers=["PROVIDER"])
    for each in [session, *shared]:
        for rows in (1, 2, 3):
            fed = {"x": np.ones((rows, 64), np.float32), "w": np.eye(64, dtype=np.float32)}
            assert each.run(None, fed)[0].shape == (rows, 64)
    shared[:] = [session]


def forever(number):
    while True:
        work(number)
        number += 1


for number in range(2):
    threading.Thread(target=forever, args=(number,), daemon=True).start()
for number in range(12):
    time.sleep(0.004 * number)
    if (child := os.fork()) == 0:
        signal.alarm(60)  # ends a child that waits
        work(number)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, number
os._exit(0)
"""


@pytest.mark.parametrize("is_late", [False, True], ids=["daemons", "finalizer"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_interpreter_ends_while_runs_go_on(provider: str, is_late: bool) -> None:
    script = ENDING.format(provider=provider, is_late=is_late)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    if is_late:
        assert "(512, 256)" in done.stdout or (provider == WEBGPU and "the interpreter ends" in done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_is_free_of_what_other_threads_hold() -> None:
    """Its collector runs, and its BLAS has as many threads as before."""
    before = [setting.get() for setting in threads.blas()]
    inside, over = threading.Barrier(2), threading.Event()

    def hold() -> None:
        with paused(), threads.OneThread():
            inside.wait(10)
            over.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    assert not gc.isenabled()
    try:
        assert in_child(gc.isenabled)
        assert in_child(lambda: [setting.get() for setting in threads.blas()] == before)
        with paused():
            assert in_child(lambda: not gc.isenabled())
    finally:
        over.set()
        thread.join(30)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_a_child_makes_sessions_whatever_other_threads_were_making(provider: str) -> None:
    script = FORKING.replace("PROVIDER", provider)
    environment = os.environ | {"SARDONYX_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


CHILD = """
import os, signal, warnings
import numpy as np
import pytest
import sardonyx
from sardonyx.errors import EPFail
from tests.engine.graphs import model

warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
data = model("g (float[N, 64] x) => (float[N, 64] y) { y = Tanh (x) }")
session, x = sardonyx.InferenceSession(data, providers=["WebGpuExecutionProvider"]), np.ones((3, 64), np.float32)
session.run(None, {"x": x})
if (child := os.fork()) == 0:
    signal.alarm(60)  # ends a child that waits
    with pytest.warns(RuntimeWarning, match="forked from.* goes on with CPUExecutionProvider"):
        (found,) = session.run(None, {"x": x})
    np.testing.assert_allclose(found, np.tanh(x), rtol=1e-5)
    with pytest.raises(EPFail, match='by "spawn"'):
        sardonyx.InferenceSession(data, providers=["WebGpuExecutionProvider"])
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
session.run(None, {"x": x})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_leaves_the_gpu_to_its_parent() -> None:
    require("webgpu")
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_waits_for_blocks_of_others_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "PATIENCE", 0.2)
    inside, over = threading.Event(), threading.Event()

    def hold(seconds: float) -> None:
        with forks.Whole():
            inside.set()
            over.wait(seconds)

    for seconds in (0.05, 10):
        inside.clear()
        thread = threading.Thread(target=hold, args=(seconds,))
        thread.start()
        assert inside.wait(10)
        began = time.monotonic()
        with forks.Whole():  # one's own is not waited for
            assert in_child(lambda: len(forks._inside) == 1)
        took = time.monotonic() - began
        assert thread.is_alive() == (seconds == 10), took
        over.set()
        thread.join(10)
        over.clear()
    assert not forks._inside
    assert not forks.is_near()


def in_child(check: Callable[[], bool]) -> bool:
    """What a check says in a child process."""
    if (child := os.fork()) == 0:
        signal.alarm(60)  # ends a child that waits
        os._exit(not check())
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("provider", [NUMPY, WASM])
def test_where_the_system_starts_no_thread_one_does_it_all(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    text = "g (float[N, 512] x, float[512, 512] w) => (float[N, 512] y) { a = MatMul (x, w)  y = Tanh (a) }"
    rng = np.random.default_rng(0)
    fed = {"x": rng.random((300, 512), np.float32) / 512, "w": rng.random((512, 512), np.float32)}
    sardonyx.InferenceSession(model(text), providers=[provider]).run(None, fed)
    options = sardonyx.SessionOptions()
    options.intra_op_num_threads = 13  # so that no other test has started them
    monkeypatch.setenv("SARDONYX_CACHE", "0")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert not threads.can_start(1)
    session = sardonyx.InferenceSession(model(text.replace("Tanh", "Sin")), options, providers=[provider])
    with pytest.warns(RuntimeWarning, match="runs have 1 of 13 threads: can't start new thread"):
        found = [session.run(None, fed)[0]]
    found += [session.run(None, fed)[0] for _ in range(4)]
    for each in found:
        np.testing.assert_allclose(each, np.sin(fed["x"].astype(float) @ fed["w"].astype(float)), rtol=1e-4)
