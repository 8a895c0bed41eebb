"""What holds where processes end, and where they fork, whatever threads do meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import sardonyx
from sardonyx.common import threads
from sardonyx.common.garbage import paused
from tests.engine.graphs import model
from tests.engine.providers import NUMPY, PROVIDERS, WASM, WEBGPU

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
        thread.join()
    assert gc.isenabled()


def in_child(check: Callable[[], bool]) -> bool:
    """What a check says in a child process."""
    if (child := os.fork()) == 0:
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
