"""A step of training beside PyTorch on the CPU: loss, gradients and AdamW, on one thread each.

    python -m tests.benchmarks.training [--runs 15] [--write]

The CNN has three convolutions with BatchNormalization and 32 pictures of 32 x 32; the MLP has 256 rows of 256, and two
layers of 512. Both sides are in one process, in turns; times are medians. Memory is the most that a process of its own
had for ten steps, its library included. Losses after ten steps are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from tests.benchmarks import fresh
from tests.benchmarks.peak import resident
from tests.benchmarks.report import processor, publish, table
from tests.benchmarks.turns import turns

RATE = 1e-3
STEPS = 10
Step = Callable[[], float]


@dataclass(frozen=True)
class Case:
    """A network in ONNX, the shapes of its parameters, the shape of a batch, and its classes."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    batch: tuple[int, ...]
    classes: int = 10

    def parameters(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(0)
        found = {}
        for name, shape in self.shapes.items():
            fan = int(np.prod(shape[1:])) if len(shape) > 1 else 0
            drawn = random.standard_normal(shape) * (2 / fan) ** 0.5 if fan else np.zeros(shape)
            found[name] = (np.ones(shape) if name.endswith(("scale", "var")) else drawn).astype(np.float32)
        return found

    def trained(self) -> list[str]:
        return [name for name in self.shapes if not name.endswith(("mean", "var"))]

    def model(self) -> onnx.ModelProto:
        model = parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {self.text}')
        model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in self.parameters().items())
        return model

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(1)
        x = random.standard_normal(self.batch).astype(np.float32)
        return x, random.integers(0, self.classes, self.batch[0])


def _layer(number: int, channels: int, given: str) -> str:
    """A convolution, its normalization and a ReLU."""
    made = f"BatchNormalization <training_mode = 1> (c{number}, s{number}_scale, s{number}_bias, m{number}_mean, "
    return (
        f"c{number} = Conv <pads = [1,1,1,1]> ({given}, w{number}) "
        f"n{number}, mm{number}, vv{number} = {made} v{number}_var) r{number} = Relu (n{number}) "
    )


def _cnn() -> Case:
    widths = (3, 32, 64, 128)
    shapes: dict[str, tuple[int, ...]] = {}
    text, given = "cnn (float[N,3,32,32] x) => (float[N,10] y) { ", "x"
    for number, (before, after) in enumerate(pairwise(widths), 1):
        shapes[f"w{number}"] = (after, before, 3, 3)
        shapes |= {f"{name}": (after,) for name in _names(number)}
        text += _layer(number, after, given)
        given = f"r{number}"
        if number < 3:
            text += f"p{number} = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r{number}) "
            given = f"p{number}"
    text += f"g = GlobalAveragePool ({given}) f = Flatten (g) y = Gemm <transB = 1> (f, w, b) }}"
    return Case(text, {**shapes, "w": (10, 128), "b": (10,)}, (32, 3, 32, 32))


def _names(number: int) -> list[str]:
    return [f"s{number}_scale", f"s{number}_bias", f"m{number}_mean", f"v{number}_var"]


MLP = Case(
    "mlp (float[N,256] x) => (float[N,10] y) { h1 = Gemm <transB = 1> (x, w1, b1) r1 = Relu (h1) "
    "h2 = Gemm <transB = 1> (r1, w2, b2) r2 = Relu (h2) y = Gemm <transB = 1> (r2, w, b) }",
    {"w1": (512, 256), "b1": (512,), "w2": (512, 512), "b2": (512,), "w": (10, 512), "b": (10,)},
    (256, 256),
)
CASES = {"CNN": _cnn(), "MLP": MLP}


def ours(case: Case, folder: Path) -> Step:
    """A step here, which gives the loss."""
    from sardonyx import SessionOptions
    from sardonyx.training import artifacts, onnxblock
    from sardonyx.training.api import CheckpointState, Module, Optimizer

    artifacts.generate_artifacts(
        case.model(),
        case.trained(),
        loss=artifacts.LossType.CrossEntropyLoss,
        optimizer=onnxblock.optim.AdamW(eps=1e-8, weight_decay=0.01, adam_mode=0),
        artifact_directory=folder,
    )
    options = SessionOptions()
    options.intra_op_num_threads = 1
    state = CheckpointState.load_checkpoint(folder / "checkpoint")
    module = Module(folder / "training_model.onnx", state, session_options=options)
    optimizer = Optimizer(folder / "optimizer_model.onnx", module)
    optimizer.set_learning_rate(RATE)
    x, labels = case.data()

    def step() -> float:
        loss = module(x, labels)
        optimizer.step()
        module.lazy_reset_grad()
        return float(loss)

    return step


def theirs(case: Case) -> Step:
    """A step of PyTorch, which gives the loss."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    p = {name: torch.tensor(array) for name, array in case.parameters().items()}
    for name in case.trained():
        p[name].requires_grad_()
    optimizer = torch.optim.AdamW([p[name] for name in case.trained()], lr=RATE, weight_decay=0.01)
    x, labels = map(torch.tensor, case.data())

    def network(h: Any) -> Any:
        if "s1_scale" not in p:
            h = functional.relu(functional.linear(h, p["w1"], p["b1"]))
            return functional.linear(functional.relu(functional.linear(h, p["w2"], p["b2"])), p["w"], p["b"])
        for number in (1, 2, 3):
            scale, bias, mean, variance = (p[name] for name in _names(number))
            h = functional.conv2d(h, p[f"w{number}"], padding=1)
            h = functional.relu(functional.batch_norm(h, mean, variance, scale, bias, True, 0.1, 1e-5))
            h = functional.max_pool2d(h, 2) if number < 3 else h
        return functional.linear(h.mean((2, 3)), p["w"], p["b"])

    def step() -> float:
        loss: Any = functional.cross_entropy(network(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    return step


def measure(name: str, runs: int) -> dict[str, float]:
    """Milliseconds of a step of both sides, and their losses after ten."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        steps = {"theirs": theirs(case), "ours": ours(case, Path(folder))}
        losses = {side: [step() for _ in range(STEPS)][-1] for side, step in steps.items()}
        times: dict[str, list[float]] = {side: [] for side in steps}
        for k in range(runs):
            for side in turns(steps, k):
                begun = time.perf_counter()
                steps[side]()
                times[side].append(1e3 * (time.perf_counter() - begun))
    medians = {side: statistics.median(known) for side, known in times.items()}
    return {**medians, **{f"loss of {side}": loss for side, loss in losses.items()}}


def memory(name: str, side: str) -> float:
    """MiB that ten steps added to a process with NumPy and onnx."""
    case = CASES[name]
    before = resident("VmRSS")
    with tempfile.TemporaryDirectory() as folder:
        step = theirs(case) if side == "theirs" else ours(case, Path(folder))
        for _ in range(STEPS):
            step()
    return resident("VmHWM") - before


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.benchmarks.training", description=__doc__)
    arguments.add_argument("--runs", type=int, default=15)
    arguments.add_argument("--write", action="store_true", help="into README.md")
    args = arguments.parse_args()
    rows = []
    for name in CASES:
        told = fresh.call(__spec__.name, "measure", name, args.runs)
        np.testing.assert_allclose(told["loss of ours"], told["loss of theirs"], rtol=1e-4)
        peaks = [fresh.call(__spec__.name, "memory", name, side) for side in ("theirs", "ours")]
        figures = [told["theirs"], told["ours"]]
        rows.append(
            [
                name,
                *(f"{figure:.1f}" for figure in figures),
                f"{figures[1] / figures[0]:.2f}",
                *(f"{peak:.0f}" for peak in peaks),
                f"{peaks[1] / peaks[0]:.2f}",
            ]
        )
    head = ["network", "PyTorch, ms", "Sardonyx, ms", "ratio", "PyTorch, MiB", "Sardonyx, MiB", "ratio"]
    publish("training", [*table(head, rows), "", processor()], args.write)


if __name__ == "__main__":
    main()
