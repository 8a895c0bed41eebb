"""find objects in pictures, and draw boxes around them

A detector in ONNX, or a bundle that `sardonyx compile --detect` made, gives boxes in pixels of each picture: left, top,
right and bottom. --detect and --image say what kind of detector it is, as for `sardonyx compile`; mostly neither is
needed. --draw FILE draws the boxes of one picture into a PNG.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.text import count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sardonyx.vision import Found

COLORS = ((230, 57, 70), (29, 132, 181), (42, 157, 80), (244, 162, 30), (131, 56, 236), (0, 150, 136))
"""Of boxes, by class."""
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
    from sardonyx.errors import InvalidArgument

    if args.draw and len(args.pictures) > 1:
        raise InvalidArgument(f"--draw {args.draw} draws one picture, and {len(args.pictures)} are given")
    show(args, collect(args), render)
    return 0


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Find, and draw; the facts, as `--json` prints them."""
    from sardonyx.cli.detections import one_picture, options
    from sardonyx.cli.pictures import encode
    from sardonyx.cli.writing import refuse_unwritable, writing
    from sardonyx.vision import Detector
    from sardonyx.vision.pixels import pixels_of

    if args.draw:
        refuse_unwritable("--draw", args.draw)
    image = one_picture(args.image)
    detector = Detector(args.model, image=image, providers=args.provider, **options(args.detect))
    found = []
    for path in args.pictures:
        pixels = pixels_of(path)
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
            args.draw.write_bytes(encode(drawn(pixels, objects), ".png"))
    return {"model": args.model, "pictures": found, "drawn": str(args.draw) if args.draw else None}


def drawn(pixels: NDArray[np.uint8], objects: Sequence[Found]) -> NDArray[np.uint8]:
    """A picture [height, width, 3] with the edges of boxes, a colour for each class, surer ones on top."""
    whole = pixels.copy()
    height, width = whole.shape[:2]
    line = max(1, round(max(height, width) / 300))
    for each in reversed(objects):
        left, right = (min(max(round(side), 0), width) for side in each.box[::2])
        top, bottom = (min(max(round(side), 0), height) for side in each.box[1::2])
        color = COLORS[each.number % len(COLORS)]
        whole[top : min(top + line, bottom), left:right] = color
        whole[max(bottom - line, top) : bottom, left:right] = color
        whole[top:bottom, left : min(left + line, right)] = color
        whole[top:bottom, max(right - line, left) : right] = color
    return whole


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
    if data["drawn"]:
        screen.heading("Written")
        screen.line(data["drawn"])
