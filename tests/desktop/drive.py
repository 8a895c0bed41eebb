"""Drives the window in a process of its own: python drive.py SCENE [ARGUMENT ...]; prints what is seen, as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
import tkinter as tk
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from app import KEY, App
from PIL import Image, ImageGrab, ImageTk
from reader import Reader
from sources import file
from worker import Worker

LIMIT = 300.0
"""Seconds for anything to happen, on a machine that is busy."""


class Driver:
    """The program, and hands and eyes for it."""

    def __init__(self, models: str = "", provider: str = "CPUExecutionProvider", make: Any = None) -> None:
        self.root, self.worker = tk.Tk(), Worker()
        make = make or partial(Reader, Path(models) if models else None, provider)
        self.app = App(self.root, self.worker, make)
        self.worker.start()

    def until(self, condition: Callable[[], object]) -> None:
        """Let the window live until something holds."""
        end = time.monotonic() + LIMIT
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(self.seen())
            self.root.update()
            time.sleep(0.01)
        self.root.update()

    def read(self, path: str) -> dict[str, Any]:
        """Show the picture of a file; what is seen then."""
        before = self.app.reading
        self.app.show(file(Path(path)))
        self.until(lambda: self.app.reading is not before)
        return self.seen()

    def says(self, text: str) -> str:
        """Wait for words in the status line; all of it."""
        self.until(lambda: text in self.app.status["text"])
        return str(self.app.status["text"])

    def press(self, key: str, modifier: str = f"{KEY}-") -> None:
        self.root.focus_force()
        self.root.update()
        self.root.event_generate(f"<{modifier}{key}>")
        self.root.update()

    def seen(self) -> dict[str, Any]:
        """What the window shows, in words and colours."""
        app = self.app
        found = app.reading.found if app.reading else []
        return {
            "texts": [each.text for each in found],
            "boxes": [around(app.canvas.coords(item)) for item in app.canvas.find_withtag("box")],
            "outlines": [app.canvas.coords(item) for item in app.canvas.find_withtag("box")],
            "labels": [app.canvas.itemcget(item, "text") for item in app.canvas.find_withtag("label")],
            "words": words(self.root),
            "status": app.status["text"],
        }

    def shot(self, path: str = "", widget: tk.Misc | None = None) -> np.ndarray:
        """The pixels of a widget, by default the canvas; those of the screen go to a file."""
        self.root.update()
        screen = ImageGrab.grab()
        if path:
            screen.save(path)
        what = widget or self.app.canvas
        left, top = what.winfo_rootx(), what.winfo_rooty()
        return np.asarray(screen.crop((left, top, left + what.winfo_width(), top + what.winfo_height())))


def words(widget: tk.Misc) -> list[str]:
    """The texts of a widget's labels, buttons and lists, and of those inside."""
    own = [str(widget["text"])] if widget.winfo_class() in ("TLabel", "TButton") else []
    if isinstance(widget, tk.Text):
        own = widget.get("1.0", "end").split("\n")
    return own + [word for child in widget.winfo_children() for word in words(child)]


def around(corners: list[float]) -> list[float]:
    """The box of an outline, whose corners are x and y in turn."""
    return [min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])]


def lower(pixels: np.ndarray, outline: list[float]) -> list[int]:
    """The colour in the middle of an outline's lower edge, which is between its third corner and its fourth."""
    return [int(part) for part in pixels[round(sum(outline[5:8:2]) / 2), round(sum(outline[4:8:2]) / 2)]]


def text(models: str, picture: str, target: str) -> dict[str, Any]:
    driver = Driver(models)
    seen = driver.read(picture)
    pixels = driver.shot(target)
    driver.press("c")
    copied = driver.root.clipboard_get()
    return {**seen, "lines": [lower(pixels, outline) for outline in seen["outlines"]], "copied": copied}


def objects(models: str, detector: str, picture: str, *targets: str) -> dict[str, Any]:
    """A detector is chosen while a page is shown; then the window is light, and then narrow."""
    driver = Driver(models)
    seen = {"before": driver.read(picture)}
    before = driver.app.reading
    driver.app.detect(Path(detector))
    driver.until(lambda: driver.app.reading is not before)
    pixels = driver.shot(targets[0])
    seen["after"] = driver.seen()
    seen["lines"] = [lower(pixels, outline) for outline in seen["after"]["outlines"]]
    driver.press("t")
    driver.shot(targets[1])
    driver.root.geometry("640x400")
    driver.until(lambda: driver.root.winfo_width() == 640)
    driver.shot(targets[2])
    seen["narrow"] = driver.seen()
    seen["size"] = Image.open(picture).size
    seen["canvas"] = [driver.app.canvas.winfo_width(), driver.app.canvas.winfo_height()]
    return seen


def digit(picture: str, other: str, broken: str) -> dict[str, Any]:
    """Keys, colours and errors."""
    driver = Driver()
    seen = {"first": driver.read(picture), "second": driver.read(other)}
    seen["dark"] = int(np.median(driver.shot()[:10]))
    driver.press("t")
    seen["light"] = int(np.median(driver.shot()[:10]))
    driver.press("b")
    seen["bare"] = driver.seen()
    for name in (broken, broken + ".png"):
        driver.app.show(file(Path(name)))
        seen[Path(name).suffix] = driver.says("cannot be read")
    return {**seen, "after": driver.read(picture)}


def layout(picture: str, *sizes: str) -> dict[str, Any]:
    """Where things are in windows of these sizes, with all buttons and a long message, dark and light."""
    driver = Driver()
    driver.read(picture)
    driver.until(lambda: driver.app._device["text"])
    seen: dict[str, Any] = {}
    for color in ("dark", "light"):
        for size in sizes:
            driver.app.status["text"] = "What is said is long. " * 5
            driver.root.geometry(size)
            driver.until(partial(sized, driver.root, size))
            seen[f"{size} {color}"] = {
                "buttons": {str(button["text"]): place(button) for button in inside(driver.root, "TButton")},
                "labels": [place(label) for label in inside(driver.root, "TLabel") if label["text"]],
                "needs": [label.winfo_reqwidth() for label in inside(driver.root, "TLabel") if label["text"]],
                "canvas": place(driver.app.canvas),
                "list": place(driver.app._text),
            }
        driver.press("t")
    driver.app._bar.show(driver.app._get, False)
    return {"places": seen, "texts": words(driver.app._bar)}


def sized(root: tk.Tk, size: str) -> bool:
    """Whether a window has this size."""
    return f"{root.winfo_width()}x{root.winfo_height()}" == size


def inside(widget: tk.Misc, kind: str) -> list[Any]:
    """The widgets of a kind in another that can be seen."""
    children = widget.winfo_children()
    own = [child for child in children if child.winfo_class() == kind and child.winfo_ismapped()]
    return own + [found for child in children for found in inside(child, kind)]


def place(widget: tk.Misc) -> list[int]:
    """Left, top, right and bottom within the window."""
    root = widget.winfo_toplevel()
    left, top = widget.winfo_rootx() - root.winfo_rootx(), widget.winfo_rooty() - root.winfo_rooty()
    return [left, top, left + widget.winfo_width(), top + widget.winfo_height()]


def contrast(pixels: np.ndarray) -> int:
    """How far the ink of a button is from its ground, without its edges."""
    inner = pixels[6:-6, 6:-6].astype(np.int64).sum(axis=2)
    return int(np.abs(inner - np.median(inner)).max())


def copying(picture: str, blank: str) -> dict[str, Any]:
    """The button that copies, in both colours: before anything was read, after a digit, and after an empty page."""
    driver = Driver()
    driver.root.clipboard_clear()
    driver.root.clipboard_append("kept")
    seen: dict[str, Any] = {}
    for name, path in (("before", ""), ("read", picture), ("blank", blank)):
        if path:
            driver.read(path)
        driver.press("c")
        seen[name] = {"status": driver.app.status["text"], "copied": driver.root.clipboard_get(), "contrast": []}
        for _ in range(2):
            driver.press("t")
            seen[name]["contrast"].append(contrast(driver.shot(widget=driver.app._copy)))
        driver.app._copy.invoke()
    return seen


def fetch(picture: str) -> dict[str, Any]:
    """The models of text are fetched, at first in vain; the picture that is shown is read again."""
    driver = Driver()
    seen = {"digit": driver.read(picture)}
    os.environ["PIP_NO_INDEX"] = "1"
    driver.press("g")
    seen["failed"] = driver.says("pip cannot fetch")
    del os.environ["PIP_NO_INDEX"]
    before = driver.app.reading
    driver.press("g")
    driver.until(lambda: driver.app.reading is not before)
    return {**seen, "text": driver.seen()}


def screen(picture: str) -> dict[str, Any]:
    """Another window is on the screen."""
    driver = Driver()
    other = tk.Toplevel(driver.root)
    other.geometry("1160x760+0+0")
    photo = ImageTk.PhotoImage(Image.open(picture).resize((1160, 760)), master=other)
    tk.Label(other, image=photo, borderwidth=0).pack()
    driver.root.lift()
    driver.until(lambda: driver.app.status["text"].startswith("Ready"))
    driver.press("r")
    driver.until(lambda: driver.app.reading)
    driver.until(lambda: driver.root.state() == "normal")
    return driver.seen()


def camera(picture: str) -> dict[str, Any]:
    """No camera is to be had, then one gives two pictures, then one is stopped."""
    driver = Driver()
    sys.modules["cv2"] = None  # type: ignore[assignment]
    driver.press("k")
    seen: dict[str, Any] = {"missing": driver.says("pip install")}
    frame = np.asarray(Image.open(picture).convert("RGB"))[:, :, ::-1]
    frames, released = [(True, frame), (True, frame), (False, None)], []

    def endless() -> tuple[bool, np.ndarray]:
        time.sleep(0.02)
        return True, frame

    def opencv(read: Callable[[], Any]) -> Any:
        capture = SimpleNamespace(read=read, set=lambda name, value: None, release=lambda: released.append(True))
        names = {"CAP_PROP_BUFFERSIZE": 38, "COLOR_BGR2RGB": 4, "cvtColor": lambda seen, code: seen[:, :, ::-1].copy()}
        return SimpleNamespace(VideoCapture=lambda number: capture, **names)

    sys.modules["cv2"] = opencv(lambda: frames.pop(0))
    driver.press("k")
    seen["gone"] = driver.says("gives no picture any more")
    driver.until(lambda: released)
    sys.modules["cv2"] = opencv(endless)
    driver.press("k")
    before = driver.app.reading
    driver.until(lambda: driver.app.reading is not before)
    driver.press("Escape", "")
    driver.until(lambda: len(released) == 2)
    return {**seen, **driver.seen()}


def slow(picture: str) -> dict[str, Any]:
    """A model that takes a second."""

    class Slow(Reader):
        def read(self, picture: Image.Image) -> Any:
            time.sleep(1)
            return super().read(picture)

    driver = Driver(make=lambda: Slow(None, "NumpyExecutionProvider"))
    driver.until(lambda: driver.app.status["text"].startswith("Ready"))
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        driver.root.after(20, tick)

    tick()
    return {**driver.read(picture), "ticks": len(ticks)}


def lost(picture: str) -> dict[str, Any]:
    """The GPU goes away between two pictures, twice."""
    from sardonyx_webgpu import provider

    driver = Driver(provider="WebGpuExecutionProvider")
    seen: dict[str, Any] = {"before": driver.read(picture)}
    for name in ("first", "second"):
        provider.device({}).gpu._device.destroy()
        driver.read(picture)
        driver.says("The GPU was lost")
        seen[name] = driver.seen()
    return {**seen, "after": driver.read(picture)}


SCENES = {scene.__name__: scene for scene in (text, objects, digit, layout, copying, fetch, screen, camera, slow, lost)}

if __name__ == "__main__":
    print(json.dumps(SCENES[sys.argv[1]](*sys.argv[2:])))
