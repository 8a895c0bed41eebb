"""run a model, and show or keep its outputs

An input comes from a file, --input image=cat.jpg, and is random otherwise: token ids within the vocabulary, masks of
1, other integers in 0..9, floats in 0..1. Sizes that the model leaves open are 1 unless --shape tells them, for an
input, ids=1x128, or for a dimension by its name, sequence=128. The name may be left out where the model has one input.

Files are .npy, .npz, .json, .wav, or pictures: PNG, and with Pillow whatever it reads. A .npz or .json file without
name gives several inputs. A picture is resized to the input's height and width, which --shape tells where the model
does not, laid out as NCHW, NHWC, CHW, HWC or HW with 1 or 3 channels, and scaled to 0..1 unless it is uint8.
--normalize imagenet subtracts the mean and divides by the standard deviation that most classifiers want, --mean and
--std do so with any others. Sound is scaled to -1..1 and mixed to one channel where the input has one; it is not
resampled.

--output names a file, by whose suffix all outputs (.npz, .json) or the only one (.npy, .png, .jpg, .wav) are written,
or a folder, which gets a file for each.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, progress, show
from sardonyx.cli.text import clean, count, elided, shape
from sardonyx.cli.writing import refuse_unwritable, writing
from sardonyx.common.units import duration

KERNELS = 5
"""How many kernels of a profile are shown."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider
    from sardonyx.cli.feeds import add_input, add_shape
    from sardonyx.cli.normalization import add_normalization

    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    add_input(parser)
    add_shape(parser)
    add_normalization(parser)
    parser.add_argument("--labels", type=Path, metavar="FILE", help="names of the classes, a line for each, or JSON")
    parser.add_argument(
        "--top", type=int, metavar="N", help="show the N highest of each output that scores classes (5)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="file or folder that gets the outputs")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run N times and tell the times")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="where a Chrome trace of the runs is written")
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    show(args, collect(args), render)


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Run the model; the facts, as `--json` prints them, times in seconds."""
    from sardonyx import InferenceSession, SessionOptions
    from sardonyx.cli import files, normalization, results
    from sardonyx.cli.compilation import tally
    from sardonyx.cli.devices import chosen
    from sardonyx.cli.feeds import feeds, sample_rate
    from sardonyx.errors import InvalidArgument
    from sardonyx.model.serde.reader import read

    if args.repeat < 1:
        raise InvalidArgument(f"--repeat {args.repeat}: run it at least once")
    if args.top is not None and args.top < 1:
        raise InvalidArgument(f"--top {args.top}: show at least 1")
    given_labels = results.listed(args.labels) if args.labels else []
    providers = chosen(args.provider)
    model = read(args.model)
    if args.profile:
        refuse_unwritable("--profile", args.profile)
    if args.output:
        files.refuse(args.output, len(model.graph.outputs))
    fed = feeds(model, args.input, args.shape, args.seed, normalization.asked(args))
    options = SessionOptions()
    options.enable_profiling = args.profile is not None
    options.profile_file_prefix = str(args.profile)
    start = time.perf_counter()
    session = InferenceSession(args.model, options, providers)
    given = fed.present
    with fed.blamed():
        found = session.run(None, given)
    first = time.perf_counter() - start
    times = []
    more = args.repeat if args.repeat > 1 else 0
    with progress("Running", more, hidden=args.json) as step:
        for _ in range(more):
            start = time.perf_counter()
            found = session.run(None, given)
            times.append(time.perf_counter() - start)
            step()
    ports = session.get_outputs()
    outputs = dict(zip((port.name for port in ports), found, strict=True))
    names = given_labels or results.labels(model.metadata)
    shown = [
        {"name": port.name, "type": port.type, **results.summary(port.name, outputs[port.name], names, args.top)}
        for port in ports
    ]
    if given_labels and all(each["label"] is None for item in shown for each in item["top"]):
        sizes = ", ".join(f"{item['name']} is {shape(item['shape'])}" for item in shown)
        fed.notes.append(f"{args.labels} has {count(len(names), 'name')}, which fit no output: {sizes}")
    rate = sample_rate(model.metadata) or fed.rate
    return {
        "model": str(args.model),
        "inputs": [
            {
                "name": name,
                "shape": list(value.shape) if hasattr(value, "shape") else None,
                "source": fed.sources[name],
            }
            for name, value in fed.values.items()
        ],
        "assumed": fed.assumed,
        "notes": fed.notes,
        "placement": tally(session.plans[0])["placement"],
        "first": first,
        "times": times,
        "outputs": shown,
        "files": files.write(args.output, outputs, rate) if args.output else [],
        "profile": _profile(session, args.profile) if args.profile else None,
    }


def _profile(session: Any, path: Path) -> dict[str, Any]:
    """Write the profile; its file, and the milliseconds of each kernel, all runs together."""
    import json
    import os

    from sardonyx.runtime.profile import KERNEL, NODE, milliseconds

    with writing("--profile", path):
        os.replace(session.end_profiling(), path)
    totals: dict[str, float] = {}
    for event in json.loads(path.read_text(encoding="utf-8")):
        if event.get("cat") == NODE:
            name = event["name"].removesuffix(KERNEL)
            totals[name] = totals.get(name, 0) + milliseconds(event)
    return {"file": str(path), "kernels": dict(sorted(totals.items(), key=lambda item: -item[1]))}


def render(screen: Screen, data: dict[str, Any]) -> None:
    from statistics import median

    from sardonyx.cli import results
    from sardonyx.cli.devices import short_name

    screen.heading(Path(data["model"]).name)
    times = data["times"]
    spread = f"{duration(median(times))} in the middle, {duration(min(times))} at best" if times else ""
    screen.facts(
        {
            "Nodes": ", ".join(f"{n:,} on {short_name(name)}" for name, n in data["placement"].items() if n),
            "First run": f"{duration(data['first'])}, with reading and compiling",
            count(len(times), "more run").capitalize(): spread,
        }
    )
    for note in data["notes"]:
        screen.line(f"Note: {note}")
    screen.heading("Inputs")
    rows = [[item["name"], shape(item["shape"]), item["source"]] for item in data["inputs"]]
    screen.table(["Name", "Shape", "From"], rows)
    if data["assumed"]:
        screen.line("")
        taken = ", ".join(f"{name} = 1" for name in data["assumed"])
        screen.line(f"Taking {taken}; --shape says otherwise.", quiet=True)
    screen.heading("Outputs")
    results.render(screen, data["outputs"])
    if data["profile"]:
        kernels = list(data["profile"]["kernels"].items())
        screen.heading("Kernels that took longest")
        total = sum(data["profile"]["kernels"].values()) or 1
        rows = [[elided(clean(name), 56), f"{ms:.3g} ms", f"{ms / total:.0%}"] for name, ms in kernels[:KERNELS]]
        screen.table(["Kernel", ">Time", ">Share"], rows)
    written = data["files"] + ([data["profile"]["file"]] if data["profile"] else [])
    if written:
        screen.heading("Written")
        for file in written:
            screen.line(file)
