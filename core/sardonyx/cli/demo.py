"""recognise handwritten digits, on every device of this machine

Without images it takes its own. Any picture of one digit will do, dark on light or light on dark: PNG, and with Pillow
whatever it reads. The fastest device answers, the others show how long they take; a GPU that is only emulated takes
part when --provider names it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sardonyx.cli.devices import State, add_provider, chosen, short_name, states
from sardonyx.cli.gallery import gallery
from sardonyx.cli.screen import Screen, draws, show
from sardonyx.cli.text import count
from sardonyx.common.units import duration, nbytes

RUNS = 3
"""How often each picture is recognised; the time shown is the middle one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", nargs="*", metavar="IMAGE", help="pictures of one digit each")
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    from sardonyx import demo
    from sardonyx.demo import digits, pictures

    paths = [Path(image) for image in args.images] or demo.samples()
    names = [str(path) if args.images else path.name for path in paths]
    inputs = [digits.digit(pictures.read(path)) for path in paths]
    labels = [None if args.images else int(name[0]) for name in names]
    model = (demo.assets() / demo.MODEL).read_bytes()
    data = collect(model, names, inputs, labels, chosen(args.provider))
    show(args, data, lambda screen, data: render(screen, data, inputs))


def collect(
    model: bytes,
    names: Sequence[str],
    inputs: Sequence[np.ndarray],
    labels: Sequence[int | None],
    providers: Sequence[str] | None,
) -> dict[str, Any]:
    """What the model makes of each input on each device; the facts, as `--json` prints them, times in seconds."""
    from sardonyx.errors import EPFail
    from sardonyx.model.serde.reader import read

    graph, metadata = (parsed := read(model)).graph, parsed.metadata
    total = sum(1 for _ in graph.all_nodes())
    candidates = [([each.name], each) for each in states()] if providers is None else [(list(providers), None)]
    devices = [_device(names, each, model, total, inputs) for names, each in candidates]
    best = min((device for device in devices if device["answers"]), key=lambda device: device["median"], default=None)
    if best is None:
        raise EPFail("; ".join(f"{', '.join(device['providers'])}: {device['problem']}" for device in devices))
    answers = best["answers"]
    for device in devices:
        digits = [answer["digit"] for answer in device.pop("answers")]
        device["same"] = digits == [answer["digit"] for answer in answers] if digits else None
    return {
        "model": {"bytes": len(model), "nodes": total, **metadata},
        "images": [
            {"name": name, "label": label, **answer} for name, label, answer in zip(names, labels, answers, strict=True)
        ],
        "devices": devices,
        "best": devices.index(best),
    }


def _device(
    providers: list[str], found: State | None, model: bytes, total: int, inputs: Sequence[np.ndarray]
) -> dict[str, Any]:
    """One device's answers, its times and what it ran; `problem` says why there are none."""
    facts: dict[str, Any] = {"providers": providers, "hardware": "", "problem": "", "answers": []}
    if found is not None:
        facts["hardware"] = found.title
        facts["problem"] = found.problem
        if found.software and not found.problem:
            short = short_name(found.name).lower()
            facts["problem"] = f"{found.title} emulates a GPU on the CPU; --provider {short} uses it"
        if facts["problem"]:
            return facts
    try:
        return {**facts, **_measured(providers, model, total, inputs)}
    except Exception as error:
        if found is None:
            raise
        return {**facts, "problem": " ".join(str(error).split())}  # the other devices can do without this one


def _measured(providers: list[str], model: bytes, total: int, inputs: Sequence[np.ndarray]) -> dict[str, Any]:
    from sardonyx import InferenceSession
    from sardonyx.cli.compilation import tally

    start = time.perf_counter()
    session = InferenceSession(model, providers=providers)
    session.run(None, {"image": inputs[0]})
    start_up = time.perf_counter() - start
    answers = [_answer(session, x) for x in inputs]
    counts = tally(session.plans[0])
    return {
        "start_up": start_up,
        "median": median(answer["seconds"] for answer in answers),
        "folded": total - sum(counts["placement"].values()),
        **counts,
        "answers": answers,
    }


def _answer(session: Any, x: np.ndarray) -> dict[str, Any]:
    """The two most probable digits, and the time of an inference."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        (probabilities,) = session.run(["probabilities"], {"image": x})
        times.append(time.perf_counter() - start)
    first, second = np.argsort(-probabilities[0], kind="stable")[:2].tolist()
    return {
        "digit": first,
        "probability": float(probabilities[0, first]),
        "runner_up": {"digit": second, "probability": float(probabilities[0, second])},
        "seconds": median(times),
    }


def render(screen: Screen, data: dict[str, Any], inputs: Sequence[np.ndarray]) -> None:
    images, devices, model = data["images"], data["devices"], data["model"]
    best = devices[data["best"]]
    screen.heading(f"Handwritten digits, recognised by {_title(best)}")
    if draws():
        captions = [f"{image['digit']} {image['probability']:4.0%}" for image in images]
        screen.picture(gallery([x[0, 0] for x in inputs], captions, screen.width))
    screen.table(
        ["Picture", ">Digit", ">Probability", ">Runner-up", ">Time", ""],
        [
            [
                image["name"],
                image["digit"],
                f"{image['probability']:.1%}",
                f"{image['runner_up']['digit']} {image['runner_up']['probability']:6.1%}",
                _milliseconds(image["seconds"]),
                "" if image["label"] in (None, image["digit"]) else f"is a {image['label']}",
            ]
            for image in images
        ],
    )
    screen.heading("Devices")
    ran = [device for device in devices if not device["problem"]]
    screen.table(
        ["Device", ">Start-up", ">Per picture", ">Launches", "Nodes", "Answers"],
        [
            [
                _title(device),
                duration(device["start_up"]),
                _milliseconds(device["median"]),
                device["launches"],
                _nodes(device),
                "shown" if device is best else "the same" if device["same"] else "different",
            ]
            for device in ran
        ],
    )
    unused = [device for device in devices if device["problem"]]
    if unused:
        screen.line("")
    for device in unused:
        screen.line(f"{_names(device)} is not used: {device['problem']}", quiet=True)
    screen.heading("Model")
    right = sum(image["label"] == image["digit"] for image in images)
    labelled = sum(image["label"] is not None for image in images)
    screen.facts(
        {
            "Here": f"{right} of {labelled} right" if labelled else "",
            "Held out": f"{float(model['accuracy']):.1%} right, when it was trained" if "accuracy" in model else "",
            "Size": f"{nbytes(model['bytes'])}, {count(model['nodes'], 'node')}",
        }
    )


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def _names(device: dict[str, Any]) -> str:
    return " and ".join(map(short_name, device["providers"]))


def _title(device: dict[str, Any]) -> str:
    return f"{_names(device)} on {device['hardware']}" if device["hardware"] else _names(device)


def _nodes(device: dict[str, Any]) -> str:
    """Where the nodes went."""
    placed = [(short_name(name), number) for name, number in device["placement"].items() if number]
    texts = [f"{number} on {name}" if len(placed) > 1 else str(number) for name, number in placed]
    return ", ".join([*texts, f"{device['folded']} folded away"] if device["folded"] > 0 else texts)
