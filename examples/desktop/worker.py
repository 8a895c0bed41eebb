"""The thread that reads pictures, so that the window answers meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from subprocess import CalledProcessError
from threading import Thread

from PIL import Image
from reader import Reader, Reading


class Worker(Thread):
    """Goes on with the reader, or the pictures, that it was given last. What comes of it is put into `results`: readers
    when they are ready, readings, and messages for people."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.results: SimpleQueue[Reader | Reading | str] = SimpleQueue()
        self._jobs: SimpleQueue[Callable[[], Reader] | Iterator[Image.Image]] = SimpleQueue()
        self._reader: Reader | None = None
        self._pictures: Iterator[Image.Image] = iter(())
        self._last: Image.Image | None = None

    def load(self, make: Callable[[], Reader]) -> None:
        """Go on with the reader that this function makes."""
        self._jobs.put(make)

    def read(self, pictures: Iterator[Image.Image]) -> None:
        """Read these pictures, until others are given."""
        self._jobs.put(pictures)

    def run(self) -> None:
        while True:
            try:
                self._step()
            except CalledProcessError:
                self.results.put("pip cannot fetch the models; README.md says how to get them by hand.")
            except Exception as error:  # whatever it is, the window stays
                self.results.put(" ".join(str(error).split()) or type(error).__name__)
                self._pictures = iter(())

    def _step(self) -> None:
        """Read the next picture, or where there is none, wait to be asked for something."""
        picture = next(self._pictures, None) if self._jobs.empty() else None
        if picture is None:
            job = self._jobs.get()
            if not callable(job):
                self._pictures = job
                return
            self._reader = job()
            self.results.put(self._reader)
            picture = self._last
        if picture is None:
            return
        self._last = picture
        if self._reader is None:
            raise RuntimeError("No model is loaded.")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.results.put(self._reader.read(picture))
        if any("the GPU was lost" in str(each.message) for each in told):
            self.results.put("The GPU was lost, as sleep or a new driver does; it is open again.")
