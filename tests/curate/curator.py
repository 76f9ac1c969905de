"""A curator at the page in a real browser, and the command that serves it."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from playwright.sync_api import Browser, Page

from hdpview.curate.curation import Curation
from hdpview.curate.server import create_app

BUILD_MS = 240_000  # for a build to end, on a machine that does much else


@contextmanager
def served(data: Path) -> Iterator[str]:
    """The address of the page about a table, answered by this process: nothing is imported or compiled
    again."""
    with contextlib.chdir(data.parent), socket.create_server(("127.0.0.1", 0)) as listener:
        token = "curator"
        app = create_app(Curation(data.name, Path()), token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            with app.state.opened.stack:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/?token={token}"
        finally:
            server.should_exit = True
            thread.join(timeout=60)


@contextmanager
def served_by_command(data: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """The same, while `hdpview curate` runs in the table's folder, in this environment or in ours."""
    command = [sys.executable, "-u", "-m", "hdpview", "curate", data.name, "--no-open"]
    with subprocess.Popen(
        command, cwd=data.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            assert found, line + (server.stdout.read() if server.poll() is not None else "")
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=60)


class Curator:
    """A person at the page, who also records console messages and requests."""

    def __init__(
        self, browser: Browser, url: str, width: int = 1180, height: int = 900, scheme: Any = "light"
    ):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.context.set_default_timeout(60_000)
        self.page: Page = self.context.new_page()
        self.url = url
        self.complaints: list[str] = []
        self.requested: set[str] = set()
        self.page.on("console", lambda message: self._note(message.text))
        self.page.on("pageerror", lambda problem: self._note(str(problem)))
        self.page.on("request", lambda request: self.requested.add(urlsplit(request.url).netloc or "inline"))

    def _note(self, words: str) -> None:
        # The browser logs every refusal that the page shows.
        if "Failed to load resource" not in words:
            self.complaints.append(words)

    def visit(self) -> Page:
        self.page.goto(self.url)
        self.checked()
        return self.page

    def checked(self) -> None:
        self.page.wait_for_selector("body[data-checked]:not([data-checked=''])")

    def type(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)
        self.checked()

    def said(self, column: str) -> str:
        return self.page.locator(f'[data-column="{column}"] .said').inner_text()

    def built(self) -> None:
        self.page.locator("#start").click()
        self.page.wait_for_selector("#result:not([hidden])", timeout=BUILD_MS)

    def do(self, deed: str) -> str:
        """Press one of the buttons below a view; returns its message."""
        self.page.locator(f"#{deed}").click()
        said = self.page.locator(f"#{deed}-said")
        self.page.locator(f"#{deed}:enabled").wait_for()
        return said.inner_text()

    def leave(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints
        assert self.requested <= {urlsplit(self.url).netloc, "inline"}
