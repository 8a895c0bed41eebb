"""A window that reads the text, and finds the objects, in a picture, on the screen, or in front of a camera.

python examples/desktop/app.py [PICTURE] [--models FOLDER] [--detector FILE] [--provider NAME] [--light] [--print]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from queue import Empty

try:
    import tkinter as tk
    from tkinter import filedialog, font, ttk

    from bar import Bar
    from PIL import Image
    from reader import FOLDER, Found, Reader, Reading, download
    from sources import camera, file, screen
    from worker import Worker

    from sardonyx.errors import SardonyxError
    from sardonyx.vision.drawing import color_of
except ModuleNotFoundError as error:
    remedies = {"tkinter": "on Debian, sudo apt install python3-tk", "PIL": "pip install pillow"}
    sys.exit(f"{error.name} is not installed; {remedies.get(error.name, f'pip install {error.name}')}")

DARK = {"back": "#15161b", "panel": "#1e2027", "line": "#2d303a", "ink": "#eceae6", "faint": "#9798a3"}
DARK |= {"accent": "#f08a5d", "on": "#1b1009", "over": "#292c35", "off": "#565862"}
LIGHT = {"back": "#f1eeea", "panel": "#ffffff", "line": "#dcd7d0", "ink": "#24211f", "faint": "#6f6a66"}
LIGHT |= {"accent": "#b5442a", "on": "#ffffff", "over": "#f0ebe5", "off": "#b3ada7"}
MAC = sys.platform == "darwin"
KEY, SIGN = ("Command", "⌘") if MAC else ("Control", "Ctrl+")
POLL = 30
"""Milliseconds between looks at what the worker made."""
HIDDEN = 350
"""Milliseconds for the window to leave the screen before that is taken."""
LIST = 320
"""Pixels that the list is wide at most, beside a picture."""
READING = "Reading ..."
DETECTORS = [("Detectors", "*.onnx *.sdx"), ("All files", "*")]
TYPES = [("Pictures", "*.png *.jpg *.jpeg *.webp *.bmp *.gif *.tif *.tiff"), ("All files", "*")]


class App:
    """The window; `worker` does the work."""

    def __init__(self, root: tk.Tk, worker: Worker, make: Callable[..., Reader], light: bool = False) -> None:
        self.root, self.worker, self._make = root, worker, make
        self._detector: dict[str, Path] = {}
        self.reading: Reading | None = None
        self._labels = True
        self._photo: tk.PhotoImage | None = None
        self._colors = LIGHT if light else DARK
        self._build()
        self._paint()
        self.load()
        self._poll()

    # ---- the window

    def _build(self) -> None:
        root = self.root
        root.title("Sardonyx reads")
        root.geometry("1120x720")
        root.minsize(480, 400)
        self._style = ttk.Style(root)
        self._style.theme_use("clam")
        family = font.nametofont("TkDefaultFont").actual("family")
        self._fonts = {size: font.Font(root, family=family, size=size) for size in (9, 10, 11, 13)}
        self._fonts[-13] = font.Font(root, family=family, size=13, weight="bold")
        self._bar = Bar(root, (14, 12, 14, 10))
        status = ttk.Frame(root, padding=(14, 8), style="Panel.TFrame")
        self._panel = panel = ttk.Frame(root, padding=(16, 14), style="Panel.TFrame")
        self.canvas = tk.Canvas(root, highlightthickness=0, takefocus=True)
        self._bar.pack(fill="x")
        status.pack(fill="x", side="bottom")
        panel.pack_propagate(False)
        self.canvas.pack(fill="both", expand=True)
        self._button("Open", "o", self.open)
        self._button("Screen", "r", self.take_screen)
        self._button("Camera", "k", lambda: self.show(camera()))
        self._button("Detector", "d", self.choose_detector)
        self._get = self._button("Get text models", "g", lambda: self.load(fetching=True))
        self._bar.show(self._get, False)
        self._button("Labels", "b", self.toggle_labels, atend=True)
        self._button("Light or dark", "t", self.toggle, atend=True)
        self._heading = ttk.Label(panel, text="Nothing yet", style="Heading.TLabel", font=self._fonts[-13])
        self._heading.pack(anchor="w")
        self._text = tk.Text(panel, wrap="word", relief="flat", borderwidth=0, highlightthickness=0, padx=0, pady=10)
        self._text.configure(font=self._fonts[11], state="disabled", cursor="arrow", spacing1=7)
        root.bind(f"<{KEY}-c>", lambda _: self.copy())
        self._copy = ttk.Button(panel, text=f"Copy text   {SIGN}C", command=self.copy, style="Panel.TButton")
        self._copy.state(["disabled"])
        self._copy.pack(side="bottom", fill="x")
        self._text.pack(fill="both", expand=True)
        self._device = ttk.Label(status, style="Accent.TLabel", font=self._fonts[10])
        self.status = ttk.Label(status, style="Panel.TLabel", font=self._fonts[10])
        self._time = ttk.Label(status, style="Panel.TLabel", font=self._fonts[10])
        status.columnconfigure(1, weight=1)
        self._device.grid(row=1, column=0, sticky="w", padx=(0, 14))
        self._time.grid(row=1, column=2, sticky="e")
        root.bind("<Escape>", lambda _: self.stop())
        root.bind("<Configure>", lambda event: self._arrange() if event.widget is root else None)
        self.canvas.bind("<Configure>", lambda _: self.draw())

    def _button(self, text: str, key: str, command: Callable[[], object], atend: bool = False) -> ttk.Button:
        self.root.bind(f"<{KEY}-{key}>", lambda _: command())
        return self._bar.add(text, f"{SIGN}{key.upper()}", command, atend)

    def _arrange(self) -> None:
        """Have the list stand beside the picture, or below it in a window that is narrow and high; in narrow ones what
        is said has lines of its own."""
        width, height = self.root.winfo_width(), self.root.winfo_height()
        if width <= 2 * LIST:
            self.status.grid(row=0, column=0, columnspan=3, sticky="w")
            self.status.configure(wraplength=width - 36)
        else:
            self.status.grid(row=1, column=1, columnspan=1, sticky="w")
            self.status.configure(wraplength=width // 2)
        if isbelow(width, height):
            self._panel.configure(height=height * 2 // 5)
            self._panel.pack(fill="x", side="bottom", before=self.canvas)
        else:
            self._panel.configure(width=min(LIST, width * 2 // 5))
            self._panel.pack(fill="y", side="right", before=self.canvas)

    def _paint(self) -> None:
        """Give everything its colours."""
        c, style = self._colors, self._style
        self.root.configure(background=c["back"])
        style.configure(".", background=c["back"], foreground=c["ink"], bordercolor=c["line"], font=self._fonts[10])
        button = {"background": c["panel"], "lightcolor": c["panel"], "darkcolor": c["panel"], "borderwidth": 1}
        style.configure("TButton", padding=(12, 7), relief="flat", focuscolor=c["accent"], **button)
        style.configure("Panel.TButton", background=c["over"], lightcolor=c["over"], darkcolor=c["over"])
        for part in ("background", "lightcolor", "darkcolor"):
            style.map("TButton", **{part: [("disabled", c["panel"]), ("active", c["over"])]})
        style.map("TButton", foreground=[("disabled", c["off"])], bordercolor=[("focus", c["accent"])])
        for name, colour in (("Panel", "faint"), ("Accent", "accent"), ("Heading", "ink")):
            style.configure(f"{name}.TFrame", background=c["panel"])
            style.configure(f"{name}.TLabel", background=c["panel"], foreground=c[colour])
        self.canvas.configure(background=c["back"])
        self._text.configure(background=c["panel"], foreground=c["ink"])
        self._text.tag_configure("share", foreground=c["faint"], font=self._fonts[9])
        self.draw()

    def draw(self) -> None:
        """Draw the picture as large as it fits, and what was found on it."""
        canvas, c = self.canvas, self._colors
        width, height = max(canvas.winfo_width(), 50), max(canvas.winfo_height(), 50)
        canvas.delete("all")
        if self.reading is None:
            text = f"Open a picture, take the screen,\nor point a camera at something.\n\n{SIGN}O   {SIGN}R   {SIGN}K"
            place = (width / 2, height / 2)
            canvas.create_text(*place, text=text, fill=c["faint"], font=self._fonts[13], justify="center")
            return
        picture = self.reading.picture
        scale = min((width - 28) / picture.width, (height - 28) / picture.height, 4)
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        shown = picture.resize(size, Image.Resampling.BILINEAR, reducing_gap=2)
        data = b"P6 %d %d 255\n" % size + shown.tobytes()  # Pillow's ImageTk would have to be told of when freezing
        self._photo = tk.PhotoImage(data=data, format="ppm", master=canvas)
        left, top = (width - size[0]) / 2, (height - size[1]) / 2
        canvas.create_image(left, top, image=self._photo, anchor="nw")
        for each in self.reading.found:
            corners = [(left + scale * x, top + scale * y) for x, y in each.polygon]
            canvas.create_polygon(*corners, outline=self._color(each), fill="", width=2, tags="box")
            if self._labels:
                self._label(each, *corners[0])

    def _color(self, found: Found) -> str:
        """That of an object's class, or of text."""
        return self._colors["accent"] if found.number is None else "#" + bytes(color_of(found.number)).hex()

    def _label(self, found: Found, left: float, top: float) -> None:
        """Above a text, and within an object, in whose picture it stays."""
        isobject = found.number is not None
        place, anchor = ((left + 5, top + 3), "nw") if isobject else ((left + 4, top - 2), "sw")
        fill = "#ffffff" if isobject else self._colors["on"]
        ink = self.canvas.create_text(*place, text=found.text, fill=fill, anchor=anchor, tags="label")
        self.canvas.itemconfigure(ink, font=self._fonts[9])
        around = self.canvas.bbox(ink)
        back = (around[0] - 5, around[1] - 1, around[2] + 4, around[3] + 1 if isobject else top + 1)
        self.canvas.tag_lower(self.canvas.create_rectangle(*back, fill=self._color(found), width=0), ink)

    # ---- what keys and buttons do

    def load(self, fetching: bool = False) -> None:
        """Have the worker make a reader, of text if its models are there."""

        def make() -> Reader:
            if fetching:
                download()
            return self._make(**self._detector)

        self.status["text"] = "Fetching the models ..." if fetching else "Loading the model ..."
        self.worker.load(make)

    def show(self, pictures: Iterator[Image.Image]) -> None:
        """Read these from now on."""
        self.status["text"] = READING
        self.worker.read(pictures)

    def stop(self) -> None:
        """Stay with what is shown."""
        self.status["text"] = ""
        self.worker.read(iter(()))

    def open(self) -> None:
        if name := filedialog.askopenfilename(parent=self.root, title="Open a picture", filetypes=TYPES):
            self.show(file(Path(name)))

    def choose_detector(self) -> None:
        """Find the objects, too, that a detector knows."""
        if name := filedialog.askopenfilename(parent=self.root, title="Choose a detector", filetypes=DETECTORS):
            self.detect(Path(name))

    def detect(self, detector: Path) -> None:
        """Find objects by this model from now on."""
        self._detector = {"detector": detector}
        self.load()

    def take_screen(self) -> None:
        """Read the screen without this window."""
        self.root.withdraw()
        self.root.after(HIDDEN, self._take_screen)

    def _take_screen(self) -> None:
        try:
            self.show(iter(list(screen())))
        except OSError as error:
            self.status["text"] = str(error)
        self.root.deiconify()

    def copy(self) -> None:
        """Put what was found into the clipboard, which stays as it is where that is nothing."""
        if not self.reading or not self.reading.found:
            self.status["text"] = "There is no text to copy."
            return
        self.root.clipboard_clear()
        self.root.clipboard_append("\n".join(each.text for each in self.reading.found))
        self.status["text"] = "Copied."

    def toggle(self) -> None:
        self._colors = DARK if self._colors is LIGHT else LIGHT
        self._paint()

    def toggle_labels(self) -> None:
        self._labels = not self._labels
        self.draw()

    # ---- what the worker made

    def _poll(self) -> None:
        """Take what the worker made; of several readings the last."""
        last = None
        try:
            while True:
                match self.worker.results.get_nowait():
                    case Reading() as last:
                        self.status["text"] = self.status["text"].removesuffix(READING)
                    case Reader() as reader:
                        self._ready(reader)
                    case message:
                        self.status["text"] = message
        except Empty:
            pass
        if last is not None:
            self.reading = last
            self.draw()
            self._list(last)
        self.root.after(POLL, self._poll)

    def _ready(self, reader: Reader) -> None:
        self._device["text"] = reader.device
        if self.status["text"] != READING:
            self.status["text"] = f"Ready: finds {reader.finds}."
        self._bar.show(self._get, not reader.readstext)

    def _list(self, reading: Reading) -> None:
        self._copy.state(["!disabled" if reading.found else "disabled"])
        self._heading["text"] = told(reading.found)
        self._time["text"] = f"{1e3 * reading.seconds:,.0f} ms" + ", with compiling" * reading.compiled
        self._text.configure(state="normal")
        self._text.delete("1.0", "end")
        for each in reading.found:
            mark = f"class{each.number}"
            self._text.tag_configure(mark, foreground=self._color(each))
            self._text.insert("end", "\u25a0 " * (each.number is not None), mark)
            self._text.insert("end", each.text, (), f"   {each.share:.0%}\n", "share")
        self._text.configure(state="disabled")


def isbelow(width: int, height: int) -> bool:
    """Whether the list is below the picture."""
    return width <= 2 * LIST and width < height


def told(found: list[Found]) -> str:
    """How many objects and texts there are."""
    objects = sum(each.number is not None for each in found)
    parts = [(objects, "object"), (len(found) - objects, "text")]
    counts = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in parts if count]
    return ", ".join(counts) if len(counts) > 1 else f"{counts[0] if counts else 'Nothing'} found"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", nargs="?", type=Path, help="a picture to begin with")
    parser.add_argument("--models", type=Path, help=f"the folder with the models of text; else {FOLDER}")
    parser.add_argument("--detector", type=Path, help="a detector, whose objects are found, too")
    parser.add_argument("--provider", help="an execution provider; else the GPU's if there is one, or the CPU's")
    parser.add_argument("--light", action="store_true", help="dark ink on light ground")
    parser.add_argument("--print", action="store_true", help="print what the picture says, without a window")
    args = parser.parse_args(arguments)
    make = partial(Reader, args.models, args.provider, detector=args.detector)
    if args.print:
        if args.picture is None:
            parser.error("--print wants a picture")
        try:
            print(*(each.text for each in make().read(next(file(args.picture))).found), sep="\n")
        except (OSError, SardonyxError) as error:
            sys.exit(str(error))
        return
    try:
        root, worker = tk.Tk(), Worker()
    except tk.TclError as error:
        sys.exit(f"There is no screen for a window ({error}); --print reads a picture without one")
    app = App(root, worker, make, args.light)
    if args.picture:
        app.show(file(args.picture))
    worker.start()
    root.mainloop()


if __name__ == "__main__":
    main()
