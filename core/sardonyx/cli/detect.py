"""find objects in pictures, and draw boxes around them

A detector in ONNX, or a bundle that `sardonyx compile --detect` made, gives boxes in pixels of each picture: left, top,
right and bottom. --detect and --image say what kind of detector it is, as for `sardonyx compile`; mostly neither is
needed. --draw FILE draws the boxes of one picture into a PNG.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.text import count

SHOWN = 20
"""Boxes of a picture that are listed; --json has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider

    parser.add_argument("model", metavar="MODEL", help="an .onnx file, or a bundle")
    parser.add_argument("pictures", metavar="PICTURE", nargs="+", help="files of pictures")
    parser.add_argument(
        "--detect",
        default="",
        metavar="head=yolov8,...",
        help="head=, threshold=, overlap=, classes=, labels= ..",
    )
    parser.add_argument("--image", action="append", metavar="NAME:resize=640,...", help="how pictures become the input")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="the picture with its boxes, as PNG")
    add_provider(parser)


def run(args: argparse.Namespace) -> int:
    from sardonyx.cli.pictures import refuse_several

    refuse_several("--draw", args.draw, args.pictures)
    data = collect(args)
    show(args, data, render)
    return 1 if data["failed"] else 0


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Find, and draw; the facts, as `--json` prints them: `failed` has the pictures that cannot be read.

    Raises InvalidArgument or NoSuchFile where there is no other picture.
    """
    from sardonyx.cli.detections import one_picture, options
    from sardonyx.cli.pictures import encode
    from sardonyx.cli.writing import refuse_unwritable, writing
    from sardonyx.errors import SardonyxError
    from sardonyx.vision import Detector
    from sardonyx.vision.drawing import boxed
    from sardonyx.vision.pixels import pixels_of

    if args.draw:
        refuse_unwritable("--draw", args.draw)
    image = one_picture(args.image)
    detector = Detector(args.model, image=image, providers=args.provider, **options(args.detect))
    found, failed = [], []
    for path in args.pictures:
        try:
            pixels = pixels_of(path)
        except SardonyxError as error:
            if len(args.pictures) == 1:
                raise
            failed.append({"picture": path, "reason": str(error)})
            continue
        plans, start = detector.session.compiled, time.perf_counter()
        objects = detector.detect(pixels)
        seconds, iscompiled = time.perf_counter() - start, detector.session.compiled > plans
        listed = [
            {"label": each.label, "number": each.number, "score": each.score, "box": [*each.box]} for each in objects
        ]
        facts = {"size": [*pixels.shape[1::-1]], "ms": 1e3 * seconds, "compiled": iscompiled}
        found.append({"picture": path, **facts, "objects": listed})
    if args.draw:
        with writing("--draw", args.draw):
            args.draw.write_bytes(encode(boxed(pixels, objects), ".png"))
    return {
        "model": args.model,
        "pictures": found,
        "failed": failed,
        "drawn": str(args.draw) if args.draw else None,
    }


def render(screen: Screen, data: dict[str, Any]) -> None:
    for told in data["pictures"]:
        screen.heading(f"{Path(told['picture']).name}, {told['size'][0]} x {told['size'][1]}")
        objects = told["objects"]
        if objects:
            rows = [
                [each["label"], f"{100 * each['score']:.1f}%", *(f"{side:.0f}" for side in each["box"])]
                for each in objects[:SHOWN]
            ]
            screen.table(["", ">Sure", ">Left", ">Top", ">Right", ">Bottom"], rows)
        if len(objects) > SHOWN:
            screen.line(f"and {len(objects) - SHOWN} more, which --json lists", quiet=True)
        more = ", compiling" if told["compiled"] else ""
        screen.line(f"{count(len(objects), 'object')} in {told['ms']:.0f} ms{more}", quiet=True)
    if data["failed"]:
        screen.heading(f"{count(len(data['failed']), 'picture')} not read")
        for each in data["failed"]:
            screen.line(each["reason"])
    if data["drawn"]:
        screen.heading("Written")
        screen.line(data["drawn"])
