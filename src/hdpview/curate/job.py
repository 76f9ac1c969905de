"""A build that the page starts, watches and may cancel, in a thread, one at a time; and uses of its view."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hdpview.build import build
from hdpview.curate.curation import Curation
from hdpview.curate.forms import Building, command_line
from hdpview.domain import Schema
from hdpview.errors import BudgetError, HdpviewError, InternalError, ViewFileError
from hdpview.privacy.ledger import Receipt
from hdpview.pview import PView
from hdpview.view.diagnosis import in_brief
from hdpview.view.save import Saver


class CancelledError(HdpviewError):
    """The curator cancelled a build."""


class BuildJob:
    """The build under way, or the last one. state: idle, running, done, failed or cancelled."""

    def __init__(self, curation: Curation) -> None:
        self.curation = curation
        self.state, self.stage, self.message = "idle", "", ""
        self.fraction: float | None = None
        self.view: PView | None = None
        self.path: Path | None = None
        self._receipt: Receipt | None = None
        self._cancelled = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def command(self, asked: Building) -> dict[str, Any]:
        """The equivalent command."""
        curation = self.curation
        stated = {"schema": curation.schema_path.name, "epsilon": asked.epsilon, "delta": asked.delta.strip()}
        chosen = {"no_person": asked.no_person, "focus": [",".join(group) for group in asked.groups]}
        options = {**stated, **asked.who(), **chosen, **curation.ledger_options, "o": asked.output}
        return {"command": command_line("build", curation.data, **options)}

    def begin(self, asked: Building) -> dict[str, Any]:
        """Start a build, or ask first if much of a column would be lost. Raises an error, before anything is
        spent, if it cannot start.
        """
        asked.exact()
        _, schema = self.curation.schema_of(asked.document)
        if not asked.confirmed:
            warnings = self.curation.warnings_about(schema)
            if blocking := [str(warning) for warning in warnings if warning.is_blocking]:
                return {"asks": blocking}
        self.curation.save_schema(asked.document)
        with self._starting:
            if self.state == "running":
                raise BudgetError("A build is under way. Wait for it, or cancel it.")
            saver = Saver(self.curation.folder / checked_name(asked.output, ".pview"))
            saver.check(force=False)
            self.state, self.stage, self.message, self.fraction = "running", "reading the table", "", None
            self.view, self.path, self._receipt = None, None, None
            self._cancelled.clear()
            self._thread = threading.Thread(
                target=self._run, args=(schema, asked, saver), name="hdpview build", daemon=True
            )
            self._thread.start()
        return {"asks": []}

    def status(self) -> dict[str, Any]:
        """How far the build is, and its result."""
        state = {key: getattr(self, key) for key in ("state", "stage", "fraction", "message")}
        if self.state in ("done", "failed", "cancelled"):
            state["ledger"] = self.curation.budget()
        if self.state == "done" and self.view is not None and self.path is not None:
            name = self.path.name
            state["result"] = {
                "view": name,
                "path": str(self.path),
                "bytes": self.path.stat().st_size if self.path.exists() else None,
                "about": str(self.view),
                "private": self.view.manifest.is_private,
                "findings": in_brief(self.view.diagnosis()),
                "commands": {
                    "explore": command_line("explore", name),
                    "publish": command_line("publish", name, o=_beside(name, ".html")),
                    "serve": command_line("serve", name),
                    "card": command_line("info", name, "--card", o=_beside(name, "-card.html")),
                },
            }
        return state

    def cancel(self) -> dict[str, Any]:
        """Ask the build to stop at its next step."""
        self._cancelled.set()
        return {}

    def wait(self) -> None:
        """Wait until the build has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, schema: Schema, asked: Building, saver: Saver) -> None:
        try:
            view = self._built(schema, asked, saver)
            self.stage, self.fraction = "writing the view", None
            elsewhere = saver.save(view)
        except HdpviewError as problem:
            bug = "Internal error: " if isinstance(problem, InternalError) else ""
            self.message = self._after(f"{bug}{problem}")
            self.state = "cancelled" if isinstance(problem, CancelledError) else "failed"
        except Exception as problem:  # the message may quote values
            self.message = self._after(f"The build failed ({type(problem).__name__}).")
            self.state = "failed"
        else:
            self.view, self.path, self.message = view, saver.target, elsewhere or ""
            self.state = "done"

    def _built(self, schema: Schema, asked: Building, saver: Saver) -> PView:
        settings: dict[str, Any] = {"focus": asked.groups} if asked.groups else {}

        def charged(receipt: Receipt) -> None:
            self._receipt = receipt
            saver.keep(receipt)

        return build(
            self.curation.data,
            schema,
            asked.epsilon,
            delta=asked.delta.strip() or None,
            privacy_unit=asked.privacy_unit or None,
            max_rows=asked.max_rows,
            no_person=asked.no_person,
            ledger=self.curation.ledger.path,
            table=self.curation.table,
            accept_losses=asked.confirmed,
            progress=self._progress,
            on_warning=str,  # the page shows them
            on_charge=charged,
            **settings,
        )

    def _progress(self, fraction: float | None, text: str) -> None:
        self.fraction, self.stage = fraction, text
        if self._cancelled.is_set():
            raise CancelledError("Cancelled.")

    def _after(self, words: str) -> str:
        """The reason why a build ended, and whether it cost anything."""
        if self._receipt is None:
            return f"{words} Nothing was spent."
        paid = self._receipt
        return (
            f"{words} Epsilon {float(paid.epsilon):g} was already charged to {paid.table!r} and stays spent, "
            "because noise may have been drawn."
        )


def checked_name(name: str, ending: str) -> str:
    """A file's name without a folder, with this ending. Raises on anything else."""
    if not name.endswith(ending) or name == ending or Path(name).name != name or name.startswith("."):
        raise HdpviewError(f"Name a file in the working folder that ends in {ending}, without a path.")
    return name


def _beside(view: str, ending: str) -> str:
    return view.removesuffix(".pview") + ending


class BuiltView:
    """Uses of the view that was built. The servers that it opens end with `stack`."""

    def __init__(self, job: BuildJob) -> None:
        self.stack = ExitStack()
        self._job, self._lock = job, threading.Lock()

    def _built(self) -> tuple[str, PView]:
        if self._job.view is None or self._job.path is None:
            raise ViewFileError("There is no view yet. Build one first.")
        return self._job.path.name, self._job.view

    def card(self) -> str:
        """The privacy card, as a page."""
        return self._built()[1].privacy_card().html

    def explore(self) -> dict[str, Any]:
        """Open an explorer."""
        from hdpview.explore.notebook import explore

        name, view = self._built()
        with self._lock:
            running = explore({name: view})
            self.stack.callback(running.stop)
        return {"url": running.url}

    def serve(self) -> dict[str, Any]:
        """Open a database server."""
        from hdpview.explore.postgres import PostgresServer, ServerSettings

        name, view = self._built()
        with self._lock:
            server = PostgresServer({name.removesuffix(".pview"): view}, ServerSettings(port=0))
            port = self.stack.enter_context(server).port
        return {"port": port, "command": f"psql -h 127.0.0.1 -p {port} -U analyst hdpview"}

    def publish(self) -> dict[str, Any]:
        """Write the published page."""
        name, view = self._built()
        page = _beside(name, ".html")
        if (self._job.curation.folder / page).exists():
            raise HdpviewError(f"{page} already exists. Move it away first.")
        return self._written(page, view.publish)

    def keep_card(self) -> dict[str, Any]:
        """Write the privacy card."""
        name, view = self._built()
        return self._written(_beside(name, "-card.html"), view.privacy_card().save)

    def _written(self, name: str, save: Callable[[Path], object]) -> dict[str, Any]:
        target = self._job.curation.folder / checked_name(name, ".html")
        save(target)
        return {"path": str(target.resolve()), "bytes": target.stat().st_size}
