"""show what a model sees, frame by frame: camera, video or folder

MODEL is a detector, a classifier or a segmenter, in ONNX or as a bundle. SOURCE is `camera`, which is a Raspberry Pi's
own where picamera2 is installed, the number of one of OpenCV's, a folder, a picture, a video, or the address of a
stream. Of cameras and videos the newest frame counts: those that come while one is looked at are dropped.

Frames appear in the terminal, with --show window in a window, with --serve as a page on the network; --show lines
prints a line for each, and --json an object. Ctrl+C ends it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sardonyx.cli.tally import Tally
    from sardonyx.vision import Watcher

SHOWS = ("picture", "lines", "window")
SLOWLY = 1.0
"""Pictures of a folder in a second, where they are shown."""
NUMBER = 6
"""Columns for the number of a frame."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from sardonyx.cli.devices import add_provider

    parser.add_argument("model", metavar="MODEL", help="an .onnx file, or a bundle")
    parser.add_argument("source", metavar="SOURCE", nargs="?", default="camera", help="camera, if not given")
    parser.add_argument("--show", choices=SHOWS, help="picture in a terminal that can, else lines")
    parser.add_argument("--serve", metavar="[HOST:]PORT", help="as a page; of this machine alone without HOST")
    parser.add_argument("--rate", type=float, metavar="N", help="at most so many frames in a second")
    parser.add_argument("--all", action="store_true", help="look at every frame of a video, however long it takes")
    for task, text in (
        ("detect", "head=, threshold=, overlap=, classes=, labels= .."),
        ("classify", "most=, softmax=, labels="),
        ("segment", "threshold=, sigmoid=, output=, labels="),
    ):
        parser.add_argument(f"--{task}", nargs="?", const="", metavar="OPTIONS", help=f"what it is: {text}")
    parser.add_argument("--image", action="append", metavar="NAME:resize=640,...", help="how pictures become the input")
    add_provider(parser)


def run(args: argparse.Namespace) -> None:
    from sardonyx.cli.sightings import task
    from sardonyx.cli.tally import Tally
    from sardonyx.errors import InvalidArgument
    from sardonyx.vision.frames import frames_of
    from sardonyx.vision.watcher import Watcher, look_of, viewer_of

    if args.serve is not None and (args.show or args.json):
        raise InvalidArgument("--serve shows frames in a page; leave out --show and --json")
    if args.rate is not None and args.rate <= 0:
        raise InvalidArgument(f"--rate {args.rate:g}: write a number above 0")
    display, isslow = _display(args)
    name, options = task(args)
    frames = frames_of(args.source, paced=not args.all)
    rate = args.rate or (SLOWLY if isslow and not frames.live and not args.all else 0.0)
    viewer = viewer_of(args.model, name, providers=args.provider, **options)
    tally = Tally()
    with Watcher(look_of(viewer), frames, rate, viewer) as watcher, _stopping(watcher):
        display(watcher, tally)
    if not args.json:
        print(f"{frames.name}: {tally.summary()}")


@contextmanager
def _stopping(watcher: Watcher) -> Iterator[None]:
    """Within it Ctrl+C stops a watcher, which ends whatever shows it; once more, it is an error as usual.

    An exception would be lost in callbacks, of Tk and of code that is compiled.
    """

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.default_int_handler)
        watcher.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


Display: TypeAlias = "Callable[[Watcher, Tally], None]"


def _display(args: argparse.Namespace) -> tuple[Display, bool]:
    """What shows frames, and whether somebody looks at each."""
    from sardonyx.cli.screen import draws

    if args.json:
        return _objects, False
    if args.serve is not None:
        from sardonyx.cli.broadcast import Broadcast

        return Broadcast(args.serve).show, True
    if args.show == "window":
        from sardonyx.cli.window import show

        return show, True
    if args.show == "picture" or (args.show is None and draws() and _has_colors()):
        from sardonyx.cli.mosaic import show as mosaic

        return mosaic, True
    return _lines, False


def _has_colors() -> bool:
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") not in ("dumb", "linux")


def _objects(watcher: Watcher, tally: Tally) -> None:
    """An object for each frame, in a line of its own."""
    from sardonyx.cli.sightings import facts

    for seen in watcher:
        tally.note(seen)
        print(json.dumps(facts(seen, watcher.viewer, tally.temperature)), flush=True)


def _lines(watcher: Watcher, tally: Tally) -> None:
    """The labels of each frame, and on the right how long they took."""
    from sardonyx.cli.sightings import words
    from sardonyx.cli.text import clean, elided_end

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for seen in watcher:
        tally.note(seen)
        told = clean(", ".join(words(seen, watcher.viewer)) or "nothing")
        took = f"{1e3 * seen.seconds:.0f} ms"
        if width:
            room = max(width - NUMBER - len(took) - 4, 8)
            print(f"{seen.number:{NUMBER}}  {elided_end(told, room):{room}}  {took}", flush=True)
        else:
            print(f"{seen.number}: {told} ({took})", flush=True)
