"""A build that the page starts, watches and may cancel: in a thread, one at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from hdpview.build import build
from hdpview.curate.curation import Curation
from hdpview.curate.forms import BudgetForm, Names, Text, command_line
from hdpview.domain import Schema
from hdpview.errors import BudgetError, HdpviewError, InternalError
from hdpview.privacy.ledger import Receipt
from hdpview.pview import PView
from hdpview.view.save import Saver


class CancelledError(HdpviewError):
    """The curator cancelled a build."""


class BuildRequest(BudgetForm):
    """A build to start. output: name of the file in the curation's folder. focus: groups of attributes."""

    output: Text
    no_person: list[Text] = []
    focus: Annotated[list[Names], Field(max_length=100)] = []

    @property
    def groups(self) -> list[tuple[str, ...]]:
        return [tuple(group) for group in self.focus if group]

    def command(self, curation: Curation) -> str:
        """The equivalent command."""
        stated = {"schema": curation.schema_path.name, "epsilon": self.epsilon, "delta": self.delta.strip()}
        chosen = {"no_person": self.no_person, "focus": [",".join(group) for group in self.groups]}
        options = {**stated, **self.who(), **chosen, **curation.ledger_options, "o": self.output}
        return command_line("build", curation.data, **options)


class BuildJob:
    """The build under way, or the last one. state: idle, running, done, failed or cancelled."""

    def __init__(self, curation: Curation) -> None:
        self.curation = curation
        self.state, self.stage, self.message = "idle", "", ""
        self.fraction: float | None = None
        self.accept_losses = False
        self.view: PView | None = None
        self.path: Path | None = None
        self._receipt: Receipt | None = None
        self._cancelled = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, schema: Schema, request: BuildRequest) -> None:
        """Start a build. Raises an error, before anything is spent, if it cannot start."""
        with self._starting:
            if self.state == "running":
                raise BudgetError("A build is under way. Wait for it, or cancel it.")
            saver = Saver(self.curation.folder / checked_name(request.output, ".pview"))
            saver.check(force=False)
            self.state, self.stage, self.message, self.fraction = "running", "reading the table", "", None
            self.view, self.path, self._receipt = None, None, None
            self._cancelled.clear()
            self._thread = threading.Thread(
                target=self._run, args=(schema, request, saver), name="hdpview build", daemon=True
            )
            self._thread.start()

    def cancel(self) -> None:
        """Ask the build to stop at its next step."""
        self._cancelled.set()

    def wait(self) -> None:
        """Wait until the build has ended."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, schema: Schema, request: BuildRequest, saver: Saver) -> None:
        try:
            view = self._built(schema, request, saver)
            self.stage, self.fraction = "writing the view", None
            elsewhere = saver.save(view)
        except HdpviewError as problem:
            self.state = "cancelled" if isinstance(problem, CancelledError) else "failed"
            bug = "Internal error: " if isinstance(problem, InternalError) else ""
            self.message = self._after(f"{bug}{problem}")
        except Exception as problem:  # the message may quote values
            self.state = "failed"
            self.message = self._after(f"The build failed ({type(problem).__name__}).")
        else:
            self.view, self.path = view, saver.target
            self.state, self.message = "done", elsewhere or ""

    def _built(self, schema: Schema, request: BuildRequest, saver: Saver) -> PView:
        settings: dict[str, Any] = {"focus": request.groups} if request.groups else {}

        def charged(receipt: Receipt) -> None:
            self._receipt = receipt
            saver.keep(receipt)

        return build(
            self.curation.data,
            schema,
            request.epsilon,
            delta=request.delta.strip() or None,
            privacy_unit=request.privacy_unit or None,
            max_rows=request.max_rows,
            no_person=request.no_person,
            ledger=self.curation.ledger.path,
            table=self.curation.table,
            accept_losses=self.accept_losses,
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
