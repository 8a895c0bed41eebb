"""read the text in pictures

DET finds lines, a DBNet; REC reads each, a model whose classes are letters, which its metadata or --letters tells: such
as the two models of PP-OCR. Lines are printed from top to bottom. --draw FILE draws around the lines of one picture.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen, show
from sardonyx.cli.text import clean, count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider

    parser.add_argument("det", metavar="DET", help="the .onnx file that finds lines")
    parser.add_argument("rec", metavar="REC", help="the .onnx file that reads them")
    parser.add_argument("pictures", metavar="PICTURE", nargs="+", help="files of pictures")
    parser.add_argument("--letters", type=Path, metavar="FILE", help="the letters of REC, one in a line")
    parser.add_argument("--longest", type=int, default=960, metavar="N", help="pixels in which lines are sought (960)")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="the picture with its lines, as PNG")
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    from sardonyx.cli.pictures import refuse_several

    refuse_several("--draw", args.draw, args.pictures)
    show(args, collect(args), render)


def collect(args: argparse.Namespace) -> dict[str, Any]:
    """Read, and draw; the facts, as `--json` prints them."""
    from sardonyx.cli.pictures import encode
    from sardonyx.cli.writing import refuse_unwritable, writing
    from sardonyx.vision import Reader
    from sardonyx.vision.drawing import outlined
    from sardonyx.vision.pixels import pixels_of

    if args.draw:
        refuse_unwritable("--draw", args.draw)
    letters = _letters(args.letters) if args.letters else None
    reader = Reader(args.det, args.rec, letters=letters, longest=args.longest, providers=args.provider)
    found = []
    for path in args.pictures:
        pixels = pixels_of(path)
        start = time.perf_counter()
        lines = reader.read(pixels)
        seconds = time.perf_counter() - start
        listed = [{"text": line.text, "score": line.score, "polygon": [[*p] for p in line.polygon]} for line in lines]
        found.append({"picture": path, "size": [*pixels.shape[1::-1]], "ms": 1e3 * seconds, "lines": listed})
    if args.draw:
        with writing("--draw", args.draw):
            args.draw.write_bytes(encode(outlined(pixels, [line.polygon for line in lines]), ".png"))
    return {"models": [args.det, args.rec], "pictures": found, "drawn": str(args.draw) if args.draw else None}


def _letters(path: Path) -> list[str]:
    from sardonyx.errors import InvalidArgument

    try:
        return path.read_text("utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--letters {path}: the file cannot be read: {error}") from error


def render(screen: Screen, data: dict[str, Any]) -> None:
    for told in data["pictures"]:
        if len(data["pictures"]) > 1:
            screen.heading(Path(told["picture"]).name)
        for line in told["lines"]:
            screen.line(clean(line["text"]))
        screen.line("")
        screen.line(f"{count(len(told['lines']), 'line')} in {told['ms']:.0f} ms", quiet=True)
    if data["drawn"]:
        screen.heading("Written")
        screen.line(data["drawn"])
