"""Trains `shapes.onnx` on drawn scenes, and measures it with onnxruntime: `python train.py`."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Sequence
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    from draw import MOST, SHAPES, SIDE, scene
    from network import Detector, loss
    from numpy.typing import NDArray
    from torch import Tensor
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed; pip install torch onnx onnxruntime numpy pillow")

FOLDER = Path(__file__).parent
THREADS = 1
"""Sums depend on how the work is split: with another number the weights differ in their last bits, then in more."""
OPSET = 17
HELD = 500
"""Scenes that are measured and never trained on."""
THRESHOLD, OVERLAP = 0.4, 0.45

Scenes = tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int64]]


def drawn(count: int, seed: int) -> Scenes:
    """Pictures [N, S, S, 3], boxes [N, MOST, 4] and their classes [N, MOST], zeros where there are fewer."""
    rng = np.random.default_rng(seed)
    pictures = np.zeros((count, SIDE, SIDE, 3), np.uint8)
    boxes, numbers = np.zeros((count, MOST, 4), np.float32), np.zeros((count, MOST), np.int64)
    for k in range(count):
        pictures[k], found, named = scene(rng)
        boxes[k, : len(found)], numbers[k, : len(named)] = found, named
    return pictures, boxes, numbers


def disturbed(pictures: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Inputs [B, 3, S, S] and boxes: a batch mirrored, turned over, its colours exchanged, inverted, lit otherwise."""
    images = pictures[:, torch.randperm(3)] / 255
    if torch.rand(()) < 0.5:
        images = images.flip(3)
        boxes = torch.where(
            boxes[..., 2:3] > 0, torch.tensor([SIDE, 0, SIDE, 0]) - boxes * torch.tensor([1, -1, 1, -1]), 0
        )
        boxes = boxes[..., [2, 1, 0, 3]]
    count = len(images)
    images = torch.where(torch.rand(count, 1, 1, 1) < 0.3, 1 - images, images)
    return images * torch.empty(count, 1, 1, 1).uniform_(0.6, 1.2).clamp(max=1.1), boxes


def train(scenes: Scenes, *, epochs: int, batch: int = 32) -> Detector:
    pictures, boxes, numbers = (torch.from_numpy(each) for each in scenes)
    pictures = pictures.permute(0, 3, 1, 2)
    model = Detector(len(SHAPES), SIDE).to(memory_format=torch.channels_last)
    batches = len(pictures) // batch
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.006, total_steps=epochs * batches)
    for epoch in range(1, epochs + 1):
        total, begin = 0.0, time.perf_counter()
        for rows in torch.randperm(len(pictures))[: batches * batch].split(batch):
            images, moved = disturbed(pictures[rows], boxes[rows])
            optimizer.zero_grad()
            wrong = loss(model, images.contiguous(memory_format=torch.channels_last), moved, numbers[rows])
            wrong.backward()
            optimizer.step()
            schedule.step()
            total += wrong.item() / batches
        print(f"epoch {epoch} of {epochs}: loss {total:.4f}, {time.perf_counter() - begin:.0f} s", flush=True)
    return model.eval()


def export(model: Detector, metadata: dict[str, str]) -> bytes:
    """The ONNX file: `images` [1, 3, S, S] to `output0` [1, 4 + C, cells], both float32, as ultralytics names them."""
    file = io.BytesIO()
    names = {"input_names": ["images"], "output_names": ["output0"]}
    torch.onnx.export(model, (torch.zeros(1, 3, SIDE, SIDE),), file, opset_version=OPSET, dynamo=False, **names)
    proto = onnx.load_from_string(file.getvalue())
    proto.producer_name, proto.producer_version = "sardonyx", ""
    for node in proto.graph.node:
        node.name = "/".join(node.name.split("/")[-2:])  # the exporter repeats where a layer is in what
    onnx.helper.set_model_props(proto, metadata)
    onnx.checker.check_model(proto, full_check=True)
    return proto.SerializeToString()


def found_in(output: NDArray[np.float32], threshold: float) -> list[tuple[int, float, NDArray[np.float64]]]:
    """Class, score and box of what the model found, the surest first: greedy suppression, each class by itself."""
    scores = output[4:]
    best = scores.max(0)
    kept: list[tuple[int, float, NDArray[np.float64]]] = []
    for cell in np.flatnonzero(best > threshold)[np.argsort(-best[best > threshold], kind="stable")]:
        x, y, w, h = output[:4, cell].astype(np.float64)
        box, number = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]), int(scores[:, cell].argmax())
        if all(number != other or shared(box, there) <= OVERLAP for other, _, there in kept):
            kept.append((number, float(best[cell]), box))
    return kept


def shared(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The share of two boxes' union that both have."""
    inner = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return float(inner / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inner))


def measure(model: bytes, scenes: Scenes) -> dict[str, float]:
    """Mean average precision where boxes share half of their union (all points), recall and precision at THRESHOLD."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    listed: list[tuple[int, float, bool]] = []
    there = np.zeros(len(SHAPES))
    for picture, boxes, numbers in zip(*scenes):
        (output,) = session.run(None, {"images": picture.transpose(2, 0, 1)[None].astype(np.float32) / 255})
        real = [(number, box.astype(np.float64)) for number, box in zip(numbers.tolist(), boxes) if box[2] > 0]
        for number, _ in real:
            there[number] += 1
        for number, score, box in found_in(output[0], 0.01):
            shares = [shared(box, other) if number == named else 0 for named, other in real]
            hit = bool(shares) and max(shares) >= 0.5
            if hit:
                real.pop(int(np.argmax(shares)))
            listed.append((number, score, hit))
    sure = [hit for _, score, hit in listed if score > THRESHOLD]
    means = []
    for number, name in enumerate(SHAPES):
        hits = np.array([hit for kind, _, hit in sorted(listed, key=lambda each: -each[1]) if kind == number])
        means.append(average(hits, there[number]))
        print(f"{name:10} {means[-1]:7.2%} of {there[number]:.0f}")
    figures = {"map50": float(np.mean(means)), "recall": sum(sure) / there.sum(), "precision": sum(sure) / len(sure)}
    print(", ".join(f"{name} {figure:.2%}" for name, figure in figures.items()))
    return figures


def average(hits: NDArray[np.bool_], count: float) -> float:
    """The area under precision by recall, of hits in the order of their scores among `count` that are there."""
    right = np.cumsum(hits)
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    return float((precision * hits).sum() / count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains, writes the model, and prints how good it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenes", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=FOLDER / "shapes.onnx")
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)

    begin = time.perf_counter()
    scenes = drawn(options.scenes, seed=1)
    print(f"drew {options.scenes} scenes in {time.perf_counter() - begin:.0f} s", flush=True)
    model = train(scenes, epochs=options.epochs)
    print(f"trained in {time.perf_counter() - begin:.0f} s")
    held = drawn(HELD, seed=2)
    figures = measure(export(model, {}), held)
    metadata = {
        "names": str(dict(enumerate(SHAPES))),
        "task": "detect",
        "imgsz": str([SIDE, SIDE]),
        "stride": "32",
        "map50": f"{figures['map50']:.4f}",
        "description": "Drawn shapes: pictures in 0..1 to boxes and scores, in the layout of YOLOv8",
    }
    data = export(model, metadata)
    options.output.write_bytes(data)
    print(f"{options.output.name}: {len(data)} bytes")


if __name__ == "__main__":
    main()
