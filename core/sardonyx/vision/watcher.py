"""Frame after frame to what is in it: of a camera, a video, a folder, or whatever else gives frames."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.passes.vision.classification import OUTPUTS as CLASSES
from sardonyx.passes.vision.detection import OUTPUTS as BOXES
from sardonyx.passes.vision.segmentation import OUTPUTS as MASK
from sardonyx.passes.vision.task import CLASSIFY, DETECT, SEGMENT, task_of
from sardonyx.plans.bundle.recall import open_bundle
from sardonyx.plans.plan_cache import Facts
from sardonyx.plans.plan_cache import Source as ModelSource
from sardonyx.plans.signature import is_bundle_at
from sardonyx.vision.classifier import Classifier
from sardonyx.vision.detector import Detector
from sardonyx.vision.frames import CAMERA, Frame, Frames, frames_of
from sardonyx.vision.newest import TICK, Newest
from sardonyx.vision.runner import ModelLike
from sardonyx.vision.segmenter import Segmenter

Viewer: TypeAlias = "Detector | Classifier | Segmenter"
Look: TypeAlias = Callable[[Frame], Any]
Source: TypeAlias = "str | int | os.PathLike[str] | Iterable[Frame]"

VIEWERS: dict[str, Any] = {DETECT: Detector, CLASSIFY: Classifier, SEGMENT: Segmenter}
PATIENCE = 10.0
"""Seconds without a frame after which a camera is given up."""
RECENT = 30
"""Frames over which the rate is a mean."""


@record(frozen=True)
class Seen:
    """A frame, uint8 [height, width, 3], and what is in it.

    `found` is what `Detector.detect`, `Classifier.classify` or `Segmenter.segment` gives, or the function that looks.
    `number` counts frames that were looked at, from 0. `seconds` is what looking took, `latency` the time from when
    the frame came to when this is known, `rate` frames per second of late; `dropped` counts frames that came since the
    last one and were not looked at.
    """

    frame: Frame
    found: Any
    number: int
    seconds: float
    latency: float
    rate: float
    dropped: int


def viewer_of(model: ModelLike, task: str = "", **options: Any) -> Viewer:
    """A Detector, a Classifier or a Segmenter with these options, by what the model or the bundle is.

    `task` says "detect", "classify" or "segment" where that is not certain. Raises InvalidArgument as those do.
    """
    if task and task not in VIEWERS:
        raise InvalidArgument(f"task={task!r}: write {', '.join(VIEWERS)}")
    viewer: Viewer = VIEWERS[task or _task_of(model, options)](model, **options)
    return viewer


def _task_of(model: ModelLike, options: dict[str, Any]) -> str:
    if not is_bundle_at(model):
        return task_of(ModelSource(model).read(), options.get("image"))
    names = tuple(each.name for each in Facts.from_data(open_bundle(model).manifest["model"]).outputs)
    found = {BOXES: DETECT, CLASSES: CLASSIFY, MASK: SEGMENT}.get(names)
    if found is None:
        raise InvalidArgument(f"the bundle gives {', '.join(names)}, and not {', '.join(BOXES)} of a picture")
    return found


class Watcher:
    """An iterator of `Seen`; what it was opened for is closed at its end, by `close`, or where a `with` block ends.

    Of a live source the newest frame is looked at, and those that came meanwhile are dropped; of others each is.
    At most `rate` frames are looked at in a second, 0 for as many as can be. `viewer` is what looks, None for a
    function.
    """

    def __init__(self, look: Look, frames: Frames, rate: float = 0.0, viewer: Viewer | None = None) -> None:
        if rate < 0:
            raise InvalidArgument(f"rate={rate:g}: write a number of frames per second, 0 for as many as can be")
        self.viewer = viewer
        self.name = frames.name
        self.isstopped = False
        self._look = look
        self._newest = Newest(frames.each, frames.name, PATIENCE) if frames.live else None
        self._frames = frames.each
        self._pause = 1 / rate if rate else 0.0
        self._due = time.monotonic()
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._number = 0

    def __iter__(self) -> Iterator[Seen]:
        return self

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __next__(self) -> Seen:
        while not self.isstopped and (left := self._due - time.monotonic()) > 0:
            time.sleep(min(left, TICK))
        self._due = time.monotonic() + self._pause
        taken = None if self.isstopped else self._taken()
        if taken is None:
            self.close()
            raise StopIteration
        frame, came, dropped = taken
        start = time.perf_counter()
        found = self._look(frame)
        end = time.perf_counter()
        self._ends.append(end)
        rate = (len(self._ends) - 1) / (end - self._ends[0]) if len(self._ends) > 1 else 1 / max(end - came, 1e-9)
        seen = Seen(frame, found, self._number, end - start, end - came, rate, dropped)
        self._number += 1
        return seen

    def _taken(self) -> tuple[Frame, float, int] | None:
        if self._newest is not None:
            return self._newest.take()
        frame = next(self._frames, None)
        return None if frame is None else (frame, time.perf_counter(), 0)

    def stop(self) -> None:
        """Give nothing any more, once the frame that is looked at is done: also a handler of a signal may say so."""
        self.isstopped = True
        if self._newest is not None:
            self._newest.stop()

    def close(self) -> None:
        """End the source; nothing is given any more."""
        if self._newest is not None:
            self._newest.close()
        elif hasattr(self._frames, "close"):
            self._frames.close()
        self._newest, self._frames = None, iter(())


def watch(
    model: ModelLike | Viewer | Look,
    source: Source = CAMERA,
    *,
    task: str = "",
    rate: float = 0.0,
    newest: bool | None = None,
    **options: Any,
) -> Watcher:
    """What a model sees in each frame of a source.

    `model` is a file or a bundle, whose `options` are those of `viewer_of`; a Detector, a Classifier or a Segmenter;
    or a function of a frame. `source` is one that `frames_of` takes, or an iterable of frames, uint8 [height, width,
    3]. `newest` says whether frames that come while one is looked at are dropped: None, those of cameras and videos.

    Raises NoSuchFile where there is no such source; the iterator raises Fail where a camera is missing or is lost.

    >>> import numpy as np
    >>> frames = [np.full((4, 6, 3), level, np.uint8) for level in (0, 255)]
    >>> [(seen.number, seen.found) for seen in watch(lambda frame: int(frame.mean()), frames)]
    [(0, 0), (1, 255)]
    """
    viewer: Viewer | None = None
    if isinstance(model, (Detector, Classifier, Segmenter)):
        viewer = model
    elif not callable(model):
        viewer = viewer_of(model, task, **options)
    if isinstance(source, (str, int, os.PathLike)):
        frames = frames_of(source, paced=newest is not False)
    else:
        frames = Frames("the source", iter(source), False)
    if newest is not None:
        frames = Frames(frames.name, frames.each, newest)
    return Watcher(look_of(viewer or model), frames, rate, viewer)


def look_of(viewer: Any) -> Look:
    """The function of a frame that a viewer has; a function is its own."""
    match viewer:
        case Detector():
            return viewer.detect
        case Classifier():
            return viewer.classify
        case Segmenter():
            return viewer.segment
    look: Look = viewer
    return look
