"""From a frame to boxes: all of it in a plan, beside onnxruntime with OpenCV and NumPy around it.

    python -m tests.benchmarks.vision [--sides 320,640] [--runs 15] [--write]

The network is YOLOv8n of nudenet, the frame a portrait cut to its size. On the other side OpenCV letterboxes, without
antialiasing, and suppresses, and NumPy decodes. One thread each, in turns; medians. Sardonyx has antialiasing, as
unasked, and then none (`antialias=no`). The last columns are the networks alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks import fresh
from tests.benchmarks.report import machine, publish, table
from tests.benchmarks.turns import turns
from tests.packages.installed import modules, sample

FRAMES = {"640 x 480": (480, 640), "1920 x 1080": (1080, 1920)}
THRESHOLD, OVERLAP = 0.25, 0.45
PAD = 114


def theirs(path: str, side: int) -> tuple[Callable[[NDArray[np.uint8]], int], Callable[[], Any]]:
    """From a frame to the number of boxes, by onnxruntime and OpenCV; and a run of the network alone."""
    import cv2

    cv2.setNumThreads(1)
    session = fresh.session(fresh.ONNXRUNTIME, path)

    def found(frame: NDArray[np.uint8]) -> int:
        height, width = frame.shape[:2]
        scale = min(side / height, side / width)
        size = round(width * scale), round(height * scale)
        left, top = (side - size[0]) // 2, (side - size[1]) // 2
        whole = np.full((side, side, 3), PAD, np.uint8)
        whole[top : top + size[1], left : left + size[0]] = cv2.resize(frame, size, interpolation=cv2.INTER_LINEAR)
        (rows,) = session.run(None, {"images": cv2.dnn.blobFromImage(whole, 1 / 255)})
        columns = rows[0]
        shares = columns[4:]
        best = shares.max(0)
        sure = np.flatnonzero(best > THRESHOLD)
        cx, cy, w, h = columns[:4, sure]
        boxes = np.stack([(cx - w / 2 - left) / scale, (cy - h / 2 - top) / scale, w / scale, h / scale], 1)
        labels = shares[:, sure].argmax(0)
        return len(cv2.dnn.NMSBoxesBatched(boxes.tolist(), best[sure].tolist(), labels.tolist(), THRESHOLD, OVERLAP))

    blank = np.zeros((1, 3, side, side), np.float32)
    return found, lambda: session.run(None, {"images": blank})


def ours(path: str, side: int, antialias: bool) -> tuple[Callable[[NDArray[np.uint8]], int], Callable[[], Any]]:
    """From a frame to the number of boxes, by a Detector on WASM; and a run of the network alone."""
    from sardonyx import SessionOptions, vision

    options = SessionOptions()
    options.intra_op_num_threads = 1
    image = vision.Picture("images", size=(side, side), fit="contain", pad=PAD, antialias=antialias)
    detector = vision.Detector(
        path, image=image, threshold=THRESHOLD, overlap=OVERLAP, providers=["WasmExecutionProvider"], session=options
    )
    session = fresh.session("WASM", path)
    blank = np.zeros((1, 3, side, side), np.float32)
    return lambda frame: len(detector.detect(frame)), lambda: session.run(None, {"images": blank})


def measure(path: str, packages: str, portrait: str, side: int, height: int, width: int, runs: int) -> dict[str, Any]:
    """Milliseconds of both sides, the whole way and the network alone, and how many boxes there are."""
    from PIL import Image, ImageOps

    sys.path.append(packages)
    frame = np.asarray(ImageOps.fit(Image.open(portrait).convert("RGB"), (width, height), centering=(0.5, 0.3)))
    sides = {"theirs": theirs(path, side), "ours": ours(path, side, True), "plain": ours(path, side, False)}
    counts = {name: whole(frame) for name, (whole, _) in sides.items()}
    times: dict[str, list[float]] = {name: [] for each in sides for name in (each, f"{each} alone")}
    for k in range(runs + 2):
        for name in turns(sides, k):
            whole, alone = sides[name]
            begun = time.perf_counter()
            whole(frame)
            between = time.perf_counter()
            alone()
            if k > 1:
                times[name].append(1e3 * (between - begun))
                times[f"{name} alone"].append(1e3 * (time.perf_counter() - between))
    return {"counts": counts, **{name: statistics.median(each) for name, each in times.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.vision", description=__doc__)
    parser.add_argument("--sides", default="320,640", help="of the network's input")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="into README.md")
    args = parser.parse_args()
    folder = modules("nudenet")
    path = str(Path(folder) / "nudenet" / "320n.onnx")
    rows = []
    for side in map(int, args.sides.split(",")):
        for name, (height, width) in FRAMES.items():
            told = fresh.call(
                __spec__.name, "measure", path, str(folder), str(sample("portrait.jpg")), side, height, width, args.runs
            )
            assert len({*told["counts"].values()}) == 1, told["counts"]
            figures = [f"{told['theirs']:.1f}"]
            for own in ("ours", "plain"):
                figures += [f"{told[own]:.1f}", f"{told[own] / told['theirs']:.2f}"]
            figures += [f"{told['theirs alone']:.1f}", f"{told['ours alone']:.1f}"]
            figures.append(f"{told['ours alone'] / told['theirs alone']:.2f}")
            rows.append([f"{name} to {side} x {side}", *figures])
    head = ["frame", "onnxruntime and OpenCV, ms", "Sardonyx, ms", "ratio", "without antialiasing, ms", "ratio"]
    head += ["network alone: onnxruntime, ms", "Sardonyx, ms", "ratio"]
    publish("vision", [*table(head, rows), "", machine()], args.write)


if __name__ == "__main__":
    main()
