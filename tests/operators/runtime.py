"""onnxruntime in a process of its own, since some calls end the process that it is in."""

from __future__ import annotations

import atexit
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from onnx import helper

from sardonyx.common import dtypes

LIMIT = 300
"""Seconds that an answer may take."""
Answer = tuple[list[Any] | None, str]
"""Results, or why there are none."""


class Runtime:
    """What runs models elsewhere; after an end it begins anew."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, models: Sequence[bytes], feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs of the first of these models that loads; RuntimeError if none does, or it fails."""
        if self.process is None:
            command = [sys.executable, "-m", "tests.operators.runtime"]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        late = threading.Timer(LIMIT, self.process.kill)
        late.start()
        try:
            send(stdin, (list(models), dict(feeds)))
            results, said = pickle.load(stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            self.close()
            raise RuntimeError("onnxruntime ended its process") from error
        finally:
            late.cancel()
        if results is None:
            raise RuntimeError(said)
        return list(results)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


RUNTIME = Runtime()
atexit.register(RUNTIME.close)


def send(stream: BinaryIO, item: Any) -> None:
    pickle.dump(item, stream)
    stream.flush()


def answer(models: Sequence[bytes], feeds: Mapping[str, Any]) -> Answer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session, said = None, ""
    for model in models:
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            break
        except Exception as error:
            said = str(error)
    if session is None:
        return None, said
    try:
        found = session.run(None, feeds)
    except Exception as error:
        return None, str(error)
    return [seen_as(x, output.type) for x, output in zip(found, session.get_outputs(), strict=True)], ""


def seen_as(x: Any, kind: str) -> Any:
    """The bits of a type that NumPy lacks as that type."""
    known = [dtype for dtype in dtypes.ALL if kind == f"tensor({dtype.onnx_name})"]
    if not known or known[0] is dtypes.string:
        return x
    dtype = helper.tensor_dtype_to_np_dtype(known[0].number)
    return x if x.dtype == dtype else x.view(dtype)


def main() -> None:
    while True:
        try:
            models, feeds = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        send(sys.stdout.buffer, answer(models, feeds))


if __name__ == "__main__":
    main()
