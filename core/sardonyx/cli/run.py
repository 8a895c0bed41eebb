"""run a model once, or often, and keep its outputs as .npy files

An input comes from a file, --input image=cat.jpg, or is random where only its shape is given, --shape ids=1x128
(floats in 0..1, small integers). The name may be left out where the model has one input. Files are .npy arrays, or
pictures: PNG, and with Pillow whatever it reads. A picture is resized to the input's height and width, laid out as
NCHW, NHWC, CHW, HWC or HW with 1 or 3 channels as the input's shape says, and scaled to 0..1 unless it is uint8.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.text import count, duration

if TYPE_CHECKING:
    import numpy as np

TOP = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.feeds import add_shape

    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--input", action="append", metavar="INPUT=FILE", help="a .npy file or a picture")
    add_shape(parser, "shape of an input to fill with random numbers")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where each output becomes a .npy file")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times and tell the times")
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    show(args, collect(args), render)


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Run the model; the facts, as `--json` prints them, times in seconds."""
    from sardonyx import InferenceSession
    from sardonyx.cli.compilation import tally
    from sardonyx.cli.devices import chosen
    from sardonyx.cli.feeds import feeds
    from sardonyx.errors import InvalidArgument

    if args.repeat < 1:
        raise InvalidArgument(f"--repeat {args.repeat}: run it at least once")
    start = time.perf_counter()
    session = InferenceSession(args.model, providers=chosen(args.provider))
    feed = feeds(session.get_inputs(), args.input, args.shape)
    results = session.run(None, feed)
    first = time.perf_counter() - start
    times = []
    for _ in range(args.repeat if args.repeat > 1 else 0):
        start = time.perf_counter()
        results = session.run(None, feed)
        times.append(time.perf_counter() - start)
    labels = session.get_modelmeta().custom_metadata_map.get("classes", "").split(",")
    ports = session.get_outputs()
    files = write(args.output, [port.name for port in ports], results) if args.output else [None] * len(ports)
    return {
        "model": str(args.model),
        "placement": tally(session.plans[0])["placement"],
        "first": first,
        "times": times,
        "outputs": [
            {"name": port.name, "type": port.type, "file": file, **summary(array, labels)}
            for port, array, file in zip(ports, results, files, strict=True)
        ],
    }


def summary(array: np.ndarray, labels: Sequence[str] = ()) -> dict[str, Any]:
    """Shape, extremes and mean of an output, and its largest entries where it looks like probabilities.

    >>> import numpy as np
    >>> summary(np.array([[0.25, 0.75]], np.float32), ["cat", "dog"])["top"]
    [{'index': 1, 'label': 'dog', 'probability': 0.75}, {'index': 0, 'label': 'cat', 'probability': 0.25}]
    """
    import numpy as np

    facts: dict[str, Any] = {"shape": list(array.shape), "min": None, "max": None, "mean": None, "top": []}
    if not array.size or array.dtype.kind not in "fiub":
        return facts
    values = array.astype(np.float64)
    facts.update(zip(("min", "max", "mean"), map(_number, (values.min(), values.max(), values.mean()))))
    row = values.reshape(-1)
    vector = array.dtype.kind == "f" and row.size == array.shape[-1] > 1 if array.ndim else False
    if vector and row.min() >= 0 and abs(row.sum() - 1) < 1e-2:
        for index in np.argsort(-row, kind="stable")[:TOP].tolist():
            label = labels[index] if len(labels) == row.size else None
            facts["top"].append({"index": index, "label": label, "probability": float(row[index])})
    return facts


def _number(value: float) -> float | str:
    """A number for JSON, which has no nan and no infinity."""
    return float(value) if value - value == 0 else str(float(value))


def write(folder: Path, names: Sequence[str], arrays: Sequence[np.ndarray]) -> list[str]:
    """Write each array into the folder, which is made; the files' paths."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for stem, array in zip(file_names(names), arrays, strict=True):
        path = folder / f"{stem}.npy"
        np.save(path, array.astype(str) if array.dtype.kind == "O" else array)
        paths.append(str(path))
    return paths


def file_names(names: Sequence[str]) -> list[str]:
    """File names for outputs: letters, digits, `_`, `-` and inner dots, all different even where case is not seen.

    >>> file_names(["y", "a/b:0", "../Y", ""])
    ['y', 'a_b_0', 'Y_2', 'output']
    """
    taken: set[str] = set()
    result = []
    for name in names:
        stem = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).strip("._")[:100] or "output"
        unique, number = stem, 1
        while unique.lower() in taken:
            number += 1
            unique = f"{stem}_{number}"
        taken.add(unique.lower())
        result.append(unique)
    return result


def render(screen: Screen, data: dict[str, Any]) -> None:
    from statistics import median

    from sardonyx.cli.devices import short_name

    screen.heading(f"{Path(data['model']).name}")
    times = data["times"]
    spread = f"{duration(median(times))} in the middle, {duration(min(times))} at best" if times else ""
    screen.facts(
        {
            "Nodes": ", ".join(f"{n:,} on {short_name(name)}" for name, n in data["placement"].items() if n),
            "First run": f"{duration(data['first'])}, with reading and compiling",
            count(len(times), "more run").capitalize(): spread,
        }
    )
    screen.heading("Outputs")
    screen.table(
        ["Name", "Type", "Shape", ">Min", ">Max", ">Mean"],
        [
            [
                item["name"],
                item["type"],
                "x".join(map(str, item["shape"])) or "scalar",
                *(_figure(item[name]) for name in ("min", "max", "mean")),
            ]
            for item in data["outputs"]
        ],
    )
    for item in data["outputs"]:
        if item["top"]:
            screen.heading(f"Most probable in {item['name']}")
            rows = [[top["label"] or top["index"], f"{top['probability']:.2%}"] for top in item["top"]]
            screen.table(["Class", ">Probability"], rows)
    files = [item["file"] for item in data["outputs"] if item["file"]]
    if files:
        screen.heading("Written")
        for file in files:
            screen.line(file)


def _figure(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.5g}"
