"""Where pages train: in a worker of the session, which leaves the page's thread free, or on that thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from onnx import helper

from sardonyx.plans.bundle import Bundle
from tests.support.browser import Chromium
from tests.web.test_objects import TASKS
from tests.web.test_training import Arrays, batches_of, drawn, made, mlp, network, plain, wanted

pytestmark = pytest.mark.slow
CREATE = """async ([options, batch]) => {
    const { Tensor, TrainingSession } = await import("/sardonyx/training.js");
    const tensor = ([type, elements, dims]) => new Tensor(
        type, type === "int64" ? BigInt64Array.from(elements, BigInt) : Float32Array.from(elements), dims);
    globalThis.feeds = Object.fromEntries(Object.entries(batch).map(([name, array]) => [name, tensor(array)]));
    globalThis.session = await TrainingSession.create("/data/model.sdx", { target: "wasm", threads: 1, ...options });
    return session.trainer.constructor.name;
}"""
STEPS = """async (count) => {
    const losses = [];
    for (let k = 0; k < count; k++) {
        await new Promise((resolve) => setTimeout(resolve)); // a step is a task, if it is this thread's
        losses.push((await session.trainStep(feeds, ["loss"])).loss.data[0]);
        await session.optimizerStep();
        await session.lazyResetGrad();
    }
    return losses;
}"""
RELEASE = "() => session.release()"
ERROR = "() => session.trainStep(feeds).then(() => null, ({ name, message }) => `${name}: ${message}`)"


@contextmanager
def visit(chromium: Chromium, model: bytes, policy: str = "") -> Iterator[Any]:
    chromium.site.data["model.sdx"] = model
    chromium.site.policy = policy
    page = chromium.browser.new_page()
    try:
        page.goto(f"{chromium.site.address}/support/page.html")
        page.evaluate(f"() => {{ {TASKS} }}")
        yield page
    finally:
        chromium.site.policy = ""
        page.close()


def arrays(batch: Arrays) -> dict[str, Any]:
    return {name: plain(array) for name, array in batch.items()}


def workers(page: Any) -> set[str]:
    return {worker.url.rpartition("/")[2] for worker in page.workers}


@pytest.mark.parametrize(
    ("options", "policy", "kind"),
    [({}, "", "RemoteTrainer"), ({"worker": False}, "", "Trainer"), ({}, "worker-src 'none'", "Trainer")],
    ids=["unasked", "here", "refused"],
)
def test_where_a_page_trains(
    chromium: Chromium, options: dict[str, bool], policy: str, kind: str, rng: np.random.Generator
) -> None:
    """The worker ends with its session."""
    p, batches = drawn(rng), batches_of(rng)
    with visit(chromium, made(mlp(p), ["wasm"]), policy) as page:
        assert page.evaluate(CREATE, [options, arrays(batches[0])]) == kind
        assert workers(page) == ({"training_host.js"} if kind == "RemoteTrainer" else set())
        _, losses = wanted(p, batches, 3 * [[0]], 0.001, list(p))
        np.testing.assert_allclose(page.evaluate(STEPS, 3), losses, 1e-4)
        page.evaluate(RELEASE)
        assert page.evaluate(ERROR) == "Error: this session was released"
        for _ in range(100):
            if not page.workers:
                break
            page.wait_for_timeout(100)
        assert not page.workers


def test_sessions_have_workers_of_their_own(chromium: Chromium, rng: np.random.Generator) -> None:
    """A bundle that cannot be used leaves none."""
    p, batches = drawn(rng), batches_of(rng)
    bundle = made(mlp(p), ["wasm"])
    with visit(chromium, bundle) as page:
        page.evaluate(CREATE, [{}, arrays(batches[0])])
        page.evaluate("() => (globalThis.first = session)")
        page.evaluate(CREATE, [{}, arrays(batches[0])])
        assert len(page.workers) == 2
        damaged = bytearray(bundle)
        damaged[Bundle(bundle).sections["w0"].offset] ^= 1
        chromium.site.data["model.sdx"] = bytes(damaged)
        refused = f"(given) => ({CREATE})(given).then(() => null, ({{ message }}) => message)"
        told = page.evaluate(refused, [{}, arrays(batches[0])])
        assert told == "/data/model.sdx is damaged: section w0 does not match its checksum; fetch it anew"
        page.evaluate("() => first.release()")
        for _ in range(100):
            if len(page.workers) == 1:
                break
            page.wait_for_timeout(100)
        assert len(page.workers) == 1
        _, losses = wanted(p, batches, [[0]], 0.001, list(p))
        np.testing.assert_allclose(page.evaluate(STEPS, 1), losses, 1e-4)


def test_threads_change_nothing(chromium: Chromium, rng: np.random.Generator) -> None:
    p, batches = drawn(rng), batches_of(rng)
    _, losses = wanted(p, batches, 4 * [[2]], 0.001, list(p))
    with visit(chromium, made(mlp(p), ["wasm"])) as page:
        for threads in (1, 3):
            page.evaluate(CREATE, [{"threads": threads}, arrays(batches[2])])
            np.testing.assert_allclose(page.evaluate(STEPS, 4), losses, 1e-4)
            assert workers(page) == {"training_host.js"} | ({"helper.js"} if threads > 1 else set())
            page.evaluate(RELEASE)


def heavy(rng: np.random.Generator) -> bytes:
    """Two convolutions for pictures of 64 x 64: a step takes a tenth of a second."""
    parameters = {
        name: (rng.normal(size=shape) / 50).astype("f4")
        for name, shape in {"c": (48, 3, 5, 5), "d": (48, 48, 5, 5), "w": (48, 10)}.items()
    }
    nodes = [
        helper.make_node("Conv", ["image", "c"], ["1"], pads=[2] * 4),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "d"], ["3"], pads=[2] * 4),
        helper.make_node("GlobalAveragePool", ["3"], ["4"]),
        helper.make_node("Flatten", ["4"], ["5"]),
        helper.make_node("MatMul", ["5", "w"], ["scores"]),
    ]
    return network(parameters, nodes, ["N", 3, 64, 64], "scores")


def test_the_thread_of_the_page_stays_free(chromium: Chromium, rng: np.random.Generator) -> None:
    """No task takes 50 ms while steps take more; on the page's own thread they are such tasks."""
    batch = {"image": rng.normal(size=(2, 3, 64, 64)).astype("f4"), "labels": rng.integers(0, 10, 2)}
    with visit(chromium, made(heavy(rng), ["wasm"])) as page:
        found = {}
        for worker in (True, False):
            page.evaluate(CREATE, [{"worker": worker}, arrays(batch)])
            page.evaluate(STEPS, 1)
            found[worker] = []
            for _ in range(3):  # other programs may take the processor from the page now and then
                page.wait_for_timeout(200)
                page.evaluate("tasks.length = 0")
                page.evaluate(STEPS, 3)
                page.wait_for_timeout(200)
                found[worker].append(page.evaluate("tasks"))
                if not found[worker][-1]:
                    break
            page.evaluate(RELEASE)
        assert found[True][-1] == []
        assert all(len(tasks) >= 2 for tasks in found[False]), found
