"""Frames as a page on the network: pictures one after another in one answer (MJPEG), by Flask and waitress.

    /        the page
    /frames  multipart/x-mixed-replace of JPEG
    /state   JSON: number, words, status, ended

Each viewer gets the newest frame when the last has left for it. Frames are made JPEG only where somebody looks.
"""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sardonyx.cli.sightings import boxes, drawn, words
from sardonyx.cli.tally import Tally
from sardonyx.cli.text import clean
from sardonyx.common import extras
from sardonyx.errors import Fail, InvalidArgument
from sardonyx.vision import Seen, Watcher
from sardonyx.vision.drawing import color_of
from sardonyx.vision.newest import TICK
from sardonyx.vision.watcher import Viewer

if TYPE_CHECKING:
    from flask import Flask, Response

LOOPBACK = "127.0.0.1"
OWN = ("localhost", LOOPBACK, "[::1]")
"""Names under which a machine asks itself; a page elsewhere whose name was made to lead here has another."""
VIEWERS = 8
"""Who may look at once: each holds a thread."""
LARGEST = 1280
"""Pixels of the longer side of what is sent."""
QUALITY = 80
AGAIN = 5.0
"""Seconds after which a frame is sent once more, so that viewers who have left are noticed."""
KEPT = 1 << 17
"""Bytes that the system keeps for a viewer who is slow."""
BOUNDARY = "frame"
POLICY = "default-src 'none'; img-src 'self' data:; connect-src 'self'"
POLICY += "; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def address(text: str) -> tuple[str, int]:
    """Host and port of `--serve`.

    >>> address("8000"), address("0.0.0.0:80"), address("[::1]:8000")
    (('127.0.0.1', 8000), ('0.0.0.0', 80), ('::1', 8000))
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InvalidArgument(f"--serve {text}: write a port, or HOST:PORT, as in 8000 or 0.0.0.0:8000")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


class Broadcast:
    """The newest frame, and the server that hands it out; Fail where a package is missing or the port is taken."""

    def __init__(self, where: str) -> None:
        self._host, self._port = address(where)
        try:
            from waitress import create_server
        except ImportError:
            raise Fail(f"--serve {where}: {extras.missing('waitress')}") from None
        try:
            import flask  # noqa: F401
        except ImportError:
            raise Fail(f"--serve {where}: {extras.missing('flask')}") from None
        try:
            import PIL  # noqa: F401
        except ImportError:
            raise Fail(f"--serve {where}: {extras.missing('pillow')}") from None
        self._changed = threading.Condition()
        self._encoding = threading.Lock()
        self._seen: Seen | None = None
        self._jpeg: tuple[int, bytes] = -1, b""
        self._viewer: Viewer | None = None
        self._status = ""
        self._ended = False
        self._seats = threading.BoundedSemaphore(VIEWERS)
        try:
            listening = _socket(self._host, self._port)
        except OSError as error:
            raise Fail(f"--serve {where}: {error.strerror or error}; take another host or port") from error
        self._port = listening.getsockname()[1]
        # a viewer's last frame has left before the next is made: none wait in the server
        options: dict[str, Any] = {"threads": VIEWERS + 4, "ident": "sardonyx", "outbuf_high_watermark": 1}
        self._server = create_server(self.app(), sockets=[listening], **options)

    @property
    def address(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}/"

    def show(self, watcher: Watcher, tally: Tally) -> None:
        """Hand out frames until Ctrl+C; the last one stays where the source ends."""
        threading.Thread(target=self._server.run, name="sardonyx serves", daemon=True).start()
        print(f"Frames of {watcher.name} at {self.address} (Ctrl+C ends it)", flush=True)
        self._viewer = watcher.viewer
        try:
            for seen in watcher:
                tally.note(seen)
                with self._changed:
                    self._seen, self._status = seen, tally.status(seen)
                    self._changed.notify_all()
            self._ended = True
            while not watcher.isstopped:
                time.sleep(TICK)
        finally:
            self._ended = True
            self._server.close()

    def app(self) -> Flask:
        """The page, the frames and the state."""
        from flask import Flask, Response, abort, jsonify, request

        app = Flask("sardonyx.cli", static_folder=None)
        page = files("sardonyx.cli").joinpath("broadcast.html").read_text("utf-8")
        is_loopback = self._host in (LOOPBACK, "localhost", "::1")

        @app.before_request
        def only_for_this_machine() -> None:
            if is_loopback and request.host.rpartition(":")[0] not in OWN and request.host not in OWN:
                abort(403)

        @app.after_request
        def with_headers(response: Response) -> Response:
            response.headers.update(HEADERS)
            return response

        @app.get("/")
        def index() -> Response:
            return Response(page, mimetype="text/html")

        @app.get("/state")
        def state() -> Response:
            seen = self._seen
            told = [clean(word) for word in words(seen, self._viewer)] if seen else []
            number = seen.number if seen else -1
            return jsonify(number=number, words=told, status=self._status, ended=self._ended)

        @app.get("/frames")
        def frames() -> Response:
            if not self._seats.acquire(blocking=False):
                abort(503, f"{VIEWERS} are looking already")
            return Response(self._stream(), mimetype=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

        return app

    def _stream(self) -> Iterator[bytes]:
        """The parts of an answer without end; the boundary comes behind each, since browsers wait for it."""
        edge = f"--{BOUNDARY}\r\n".encode()
        last = -1
        try:
            yield edge
            while True:
                if (seen := self._after(last)) is None:
                    continue
                last = seen.number
                data = self._encoded(seen)
                yield b"Content-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n%b\r\n%b" % (len(data), data, edge)
        finally:
            self._seats.release()

    def _after(self, number: int) -> Seen | None:
        """The newest frame, when it is newer than this one, or a while later."""
        with self._changed:
            self._changed.wait_for(lambda: self._seen is not None and self._seen.number > number, AGAIN)
            return self._seen

    def _encoded(self, seen: Seen) -> bytes:
        """A frame as JPEG, made once for all viewers."""
        with self._encoding:
            if self._jpeg[0] != seen.number:
                self._jpeg = seen.number, jpeg(seen, self._viewer)
            return self._jpeg[1]


def _socket(host: str, port: int) -> socket.socket:
    """A socket that keeps little for each viewer: connections have its options."""
    family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(os.name != "nt"))  # on Windows it means to share
    found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KEPT)
    try:
        found.bind(where)
    except OSError:
        found.close()
        raise
    return found


def jpeg(seen: Seen, viewer: Viewer | None) -> bytes:
    """A frame with boxes and their labels, or under its mask."""
    from PIL import Image, ImageDraw, ImageFont

    height, width = seen.frame.shape[:2]
    scale = min(1.0, LARGEST / max(height, width))
    image = Image.fromarray(drawn(seen, viewer, max(1, round(scale * height)), max(1, round(scale * width))))
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(max(13, round(max(image.size) / 40)))
    for each in reversed(boxes(seen, viewer)):
        text = f" {clean(each.label)} {each.score:.0%} "
        right = image.width - draw.textlength(text, font)
        corner = max(0.0, min(scale * each.box[0], right)), scale * each.box[1]
        draw.rectangle(draw.textbbox(corner, text, font), fill=color_of(each.number))
        draw.text(corner, text, fill="white", font=font)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=QUALITY)
    return stream.getvalue()
