"""Frames in a window, by Tk: boxes, labels, and how it goes."""

from __future__ import annotations

from typing import Any

from sardonyx.cli.sightings import boxes, drawn, words
from sardonyx.cli.tally import Tally
from sardonyx.cli.text import clean
from sardonyx.errors import Fail
from sardonyx.vision import Seen, Watcher
from sardonyx.vision.drawing import color_of
from sardonyx.vision.newest import Newest

BACK, INK, FAINT = "#15161b", "#eceae6", "#9798a3"
SIZE = (960, 640)
LEAST = (320, 240)
POLL = 10
"""Milliseconds between two looks at whether there is a frame."""
MOST = 4
"""How many times as large a picture is shown at most."""


def show(watcher: Watcher, tally: Tally) -> None:
    """Frames until the window is closed, or Escape or q is pressed; Fail where there is no Tk or no screen."""
    try:
        import tkinter as tk
    except ImportError:
        raise Fail("--show window: Python has no Tk; on Debian, sudo apt install python3-tk") from None
    try:
        root = tk.Tk()
    except tk.TclError as error:
        raise Fail(f"--show window: there is no screen ({error}); leave it out, or say --serve 8000") from None
    window = Window(root, watcher, tally)
    try:
        root.mainloop()
    finally:
        window.close()
    if window.error is not None:
        raise window.error


class Window:
    """A canvas with the newest frame, and two lines below; a thread looks at frames meanwhile."""

    def __init__(self, root: Any, watcher: Watcher, tally: Tally) -> None:
        import tkinter as tk

        self.error: Exception | None = None
        self._root, self._watcher, self._tally, self._viewer = root, watcher, tally, watcher.viewer
        self._seen: Seen | None = None
        self._photo: Any = None
        root.title(f"Sardonyx: {watcher.name}")
        root.geometry("x".join(map(str, SIZE)))
        root.minsize(*LEAST)
        root.configure(background=BACK)
        self._status = self._line(tk, FAINT)
        self._words = self._line(tk, INK)
        self.canvas = tk.Canvas(root, background=BACK, highlightthickness=0)
        self.canvas.pack(fill="both", expand=True)
        self.canvas.bind("<Configure>", lambda _: self.draw())
        for key in ("<Escape>", "q"):
            root.bind(key, lambda _: root.destroy())
        self._words["text"] = "Waiting for the first frame ..."
        self._newest = Newest(watcher, watcher.name, float("inf"))
        self._poll()

    def _line(self, tk: Any, ink: str) -> Any:
        label = tk.Label(self._root, background=BACK, foreground=ink, anchor="w", padx=14, pady=5)
        label.pack(side="bottom", fill="x")
        return label

    def _poll(self) -> None:
        """Show what is new; an error ends the window."""
        if self._watcher.isstopped:
            self._root.destroy()
            return
        try:
            if self._newest.is_ready() and (taken := self._newest.take()) is not None:
                self._seen = taken[0]
                self._tally.note(self._seen)
                self.draw()
        except Exception as error:  # raised again where the window was opened
            self.error = error
            self._root.destroy()
            return
        self._root.after(POLL, self._poll)

    def draw(self) -> None:
        """Draw the frame as large as it fits, with labels at its boxes."""
        import tkinter as tk

        seen, canvas = self._seen, self.canvas
        if seen is None:
            return
        height, width = seen.frame.shape[:2]
        scale = min(canvas.winfo_width() / width, canvas.winfo_height() / height, MOST)
        size = max(1, round(height * scale)), max(1, round(width * scale))
        data = b"P6 %d %d 255\n" % size[::-1] + drawn(seen, self._viewer, *size).tobytes()
        self._photo = tk.PhotoImage(data=data, format="ppm", master=canvas)
        left, top = (canvas.winfo_width() - size[1]) / 2, (canvas.winfo_height() - size[0]) / 2
        canvas.delete("all")
        canvas.create_image(left, top, image=self._photo, anchor="nw")
        for each in reversed(boxes(seen, self._viewer)):
            text = f"{clean(each.label)} {each.score:.0%}"
            ink = canvas.create_text(0, 0, text=text, fill="white", anchor="nw", tags="label")
            right = left + size[1] - canvas.bbox(ink)[2] - 4
            canvas.moveto(ink, max(left, min(left + scale * each.box[0], right)) + 4, top + scale * each.box[1] + 2)
            around = canvas.bbox(ink)
            color = "#" + bytes(color_of(each.number)).hex()
            back = canvas.create_rectangle(
                around[0] - 4, around[1] - 2, around[2] + 4, around[3] + 1, fill=color, width=0
            )
            canvas.tag_lower(back, ink)
        self._words["text"] = clean(", ".join(words(seen, self._viewer)) or "nothing")
        self._status["text"] = self._tally.status(seen)

    def close(self) -> None:
        """Look at no more frames."""
        self._newest.close()
