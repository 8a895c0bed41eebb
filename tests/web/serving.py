"""The demonstration's own server, for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from web.demo import app as demo


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address at which the pages are, with what lies in `folder`."""
    from waitress import wasyncore
    from waitress.server import create_server

    connections: dict[int, Any] = {}
    server = create_server(demo.create_app(folder), host="127.0.0.1", port=0, threads=8, map=connections)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()

    def end() -> None:
        for channel in [*server.active_channels.values()]:
            channel.handle_close()  # which closes the files that are on their way, as `close` does not
        wasyncore.close_all(connections)  # the loop ends when it has none

    try:
        yield f"http://127.0.0.1:{server.effective_port}/"
    finally:
        server.trigger.pull_trigger(end)
        thread.join(60)
        server.task_dispatcher.shutdown()
