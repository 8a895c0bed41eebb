"""Trains `digits.onnx` on scikit-learn's 8x8 digits, and measures it with onnxruntime: `python train.py`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

try:
    import draw
    import numpy as np
    import onnxruntime
    import torch
    from augment import MISSING_WAYS, disturb, inputs, rewrite, strokes, supplement, upscale
    from export import export
    from numpy.typing import NDArray
    from PIL import Image
    from preprocess import digit
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from torch import Tensor, nn
    from torch.nn import functional as F  # noqa: N812
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed; pip install torch onnx onnxruntime scikit-learn numpy pillow")

FOLDER = Path(__file__).parent
THREADS = 2
"""Sums depend on how the work is split: with another number the weights differ in their last bits, then in more."""

Test = tuple[Tensor, NDArray[np.int64]]


def network() -> nn.Sequential:
    """A small MobileNet: two plain convolutions, four depthwise separable ones, the mean over space, logits."""

    def convolve(inner: int, outer: int, kernel: int, groups: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inner, outer, kernel, padding=kernel // 2, groups=groups, bias=False)
        return [convolution, nn.BatchNorm2d(outer), nn.ReLU()]

    def separable(inner: int, outer: int) -> list[nn.Module]:
        return [*convolve(inner, inner, 3, groups=inner), *convolve(inner, outer, 1)]

    return nn.Sequential(
        *convolve(1, 16, 3),
        *convolve(16, 32, 3),
        nn.MaxPool2d(2),
        *separable(32, 64),
        *separable(64, 64),
        nn.MaxPool2d(2),
        *separable(64, 128),
        *separable(128, 128),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def train(fields: Tensor, labels: Tensor, *, variants: int, epochs: int, batch: int = 128) -> nn.Sequential:
    """The trained classifier; each epoch sees `variants` handwritings of every original, disturbed anew."""
    pool, targets = torch.cat([rewrite(fields) for _ in range(variants)]), labels.repeat(variants)
    model = network().to(memory_format=torch.channels_last)  # a third faster on CPUs
    batches = len(pool) // batch
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.006, total_steps=epochs * batches)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(pool))[: batches * batch].split(batch):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(disturb(pool[rows])), targets[rows], label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() / batches
        print(f"epoch {epoch} of {epochs}: loss {total:.4f}")
    return nn.Sequential(*model, nn.Softmax(dim=1)).eval()


def drawn(ways: list[tuple[int, int]], count: int) -> Test:
    """`count` drawings of each way of writing, with thin to thick pens, as inputs, and their labels."""
    rng = np.random.default_rng(1)
    images = [draw.draw(*way, rng, size=(140, 140), pen=rng.uniform(0.04, 0.12)) for way in ways * count]
    labels = np.array([label for label, _ in ways * count])
    return torch.from_numpy(np.concatenate([digit(image) for image in images])), labels


def probabilities(model: bytes, images: NDArray[np.float32]) -> NDArray[np.float32]:
    """onnxruntime's answer, [N, 10]."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (result,) = session.run(["probabilities"], {"image": images})
    return result


def measure(model: bytes, tests: dict[str, Test]) -> dict[str, float]:
    """The share of right answers in each test, printed as well."""
    accuracies = {}
    for name, (images, labels) in tests.items():
        right = probabilities(model, images.numpy()).argmax(axis=1) == labels
        accuracies[name] = float(right.mean())
        print(f"{name:20} {right.mean():7.2%}  {right.sum()} of {len(right)}")
    return accuracies


def show(model: bytes) -> None:
    """Prints what the model makes of each picture in this folder, in percent by digit."""
    print(f"{'':16}" + "".join(f"{label:6}" for label in range(10)))
    for path in sorted(FOLDER.glob("images/*.png")):
        (row,) = probabilities(model, digit(path))
        verdict = "" if str(row.argmax()) == path.name[0] else "  wrong"
        print(f"{path.name:16}" + "".join(f"{100 * p:6.1f}" for p in row) + verdict)


def main() -> None:
    """Trains, writes the model and ten held-out pictures, and prints the model's accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variants", type=int, default=20, help="handwritings of each original")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--output", type=Path, default=FOLDER / "digits.onnx")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)

    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images.reshape(-1, 8, 8), labels, test_size=0.2, random_state=0, stratify=labels)
    images, held_images, labels, held_labels = split
    more_images, more_labels = supplement(count=100)
    begin = time.perf_counter()
    classifier = train(
        torch.cat([upscale(images), upscale(more_images)]),
        torch.from_numpy(np.concatenate([labels, more_labels])),
        variants=options.variants,
        epochs=options.epochs,
    )
    print(f"trained on {len(images)} + {len(more_images)} images in {time.perf_counter() - begin:.0f} s")

    held = upscale(held_images)
    clean = inputs(strokes(held))
    ways = [(label, way) for label, skeletons in draw.SKELETONS.items() for way in range(len(skeletons))]
    tests = {
        "held out": (clean, held_labels),
        "held out, augmented": (torch.cat([disturb(rewrite(held)) for _ in range(10)]), np.tile(held_labels, 10)),
        "drawn, ways unseen": drawn([way for way in ways if way not in MISSING_WAYS], count=60),
        "drawn, ways seen": drawn(MISSING_WAYS, count=60),
    }
    accuracies = measure(export(classifier, {}), tests)
    metadata = {
        "classes": ",".join(str(label) for label in range(10)),
        "accuracy": f"{accuracies['held out']:.4f}",
        "description": "Handwritten digits: 28x28, white on black, 20 pixels tall, centred by mass, to probabilities",
    }
    model = export(classifier, metadata)
    options.output.write_bytes(model)
    print(f"{options.output.name}: {len(model)} bytes")

    for label in range(10):
        first = clean[int(np.flatnonzero(held_labels == label)[0]), 0].numpy()
        picture = Image.fromarray(np.rint(first * 255).astype(np.uint8))
        picture.save(FOLDER / "images" / f"{label}_heldout.png", optimize=True)
    show(model)


if __name__ == "__main__":
    main()
