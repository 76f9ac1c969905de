"""The explorer inside a notebook: served by a thread of this process, shown in a frame."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Mapping

import uvicorn

from hdpview.errors import ViewFileError
from hdpview.explore.listening import bound_socket
from hdpview.explore.page_answers import warm_up
from hdpview.explore.page_server import create_app
from hdpview.pview import PView

_START_SECONDS = 20.0
_NOTEBOOKS = ("'self'", "http://127.0.0.1:*", "http://localhost:*", "vscode-webview:")


class Explorer:
    """A running explorer: `url` opens it in a browser, `stop()` ends it. A notebook shows it as a frame."""

    def __init__(self, views: Mapping[str, PView], port: int, height: int) -> None:
        warm_up(views.values())
        self._listener = bound_socket("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._height = height
        config = uvicorn.Config(
            create_app(views, framed_by=_NOTEBOOKS),
            log_level="warning",
            access_log=False,
            limit_concurrency=200,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._listener],), name="hdpview explorer", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self._listener.close()
                raise ViewFileError("The explorer did not start.")
            time.sleep(0.01)

    def stop(self) -> None:
        """End the explorer. An open page keeps its last content."""
        self._server.should_exit = True
        self._thread.join(timeout=_START_SECONDS)
        self._listener.close()

    def _repr_html_(self) -> str:
        size = f'width="100%" height="{self._height}" style="border:0"'
        return f'<iframe src="{html.escape(self.url)}" {size} title="hdpview explorer"></iframe>'

    def __repr__(self) -> str:
        return f"hdpview explorer at {self.url}"


def explore(view: PView | Mapping[str, PView], port: int = 0, height: int = 900) -> Explorer:
    """Serve a view, or several by name, on this machine for as long as the process lives; port 0 takes a free
    one.

    >>> explore(view)   # doctest: +SKIP
    """
    return Explorer({"view": view} if isinstance(view, PView) else dict(view), port, height)
