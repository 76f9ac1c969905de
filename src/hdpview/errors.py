"""All exceptions. Every message names the problem and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

_MAX_QUOTED = 60  # characters of a value in a message
_MAX_NAME = 200  # characters of a name that is compared with known ones
# Modules that `pip install hdpview` leaves out, and the extra that installs them.
_EXTRAS = {"numba": "build", "opendp": "build", "pyspark": "spark", "vl_convert": "plot"}
_NEEDED_FOR = {"build": "Building views", "plot": "Saving PNG, SVG or PDF files", "spark": "engine='spark'"}


class HdpviewError(Exception):
    """Base of all errors that hdpview raises on purpose, with a message for people."""


class SchemaError(HdpviewError):
    """The schema is not a valid public description of a table."""


class DataError(HdpviewError):
    """The table does not match the schema. The message has names and types, never values."""


class LossError(DataError):
    """A build would lose much of a table, and this was not accepted. Nothing was spent.

    warnings: what would be lost, as sentences for the curator, the blocking ones first.
    """

    def __init__(self, warnings: Sequence[Any]) -> None:
        self.warnings = tuple(warnings)
        listed = "\n".join(f"  {each}" for each in warnings if each.is_blocking)
        super().__init__(
            f"A build would lose much of this table. Nothing was spent.\n{listed}\nCorrect the schema, or "
            "accept the losses (accept_losses=True, --accept-losses)."
        )


class LossWarning(UserWarning):
    """A build loses a little of a table, too little to stop it."""


class BudgetError(HdpviewError):
    """A privacy budget is invalid or would be exceeded."""


class MethodError(HdpviewError):
    """A method cannot build a view of this domain with these settings."""


class QueryError(HdpviewError):
    """A question that this view cannot answer."""


class ViewFileError(HdpviewError):
    """A file that is not a valid .pview."""


class InternalError(HdpviewError):
    """A bug in hdpview. The message says how to report it."""

    @classmethod
    def of(cls, problem: Exception, what: str) -> InternalError:
        """The error to raise for an unexpected one; `what` names what the user passed."""
        return cls(
            f"This is a bug in hdpview, not in {what} ({type(problem).__name__}). "
            f"Please report it with {what} and the version of hdpview; see CONTRIBUTING.md."
        )


def missing_extra(problem: ModuleNotFoundError) -> HdpviewError | None:
    """The error that names the extra to install, if the missing module belongs to one; else None."""
    module = (problem.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return HdpviewError(
        f"{_NEEDED_FOR[extra]} needs {module!r}, which is not installed. "
        f"Install it with: pip install 'hdpview[{extra}]'"
    )


def check_installed(*modules: str) -> None:
    """Raise an error that says what to install if one of these modules is missing."""
    for module in modules:
        if find_spec(module) is None:
            problem = ModuleNotFoundError(f"No module named {module!r}", name=module)
            raise missing_extra(problem) or problem


def unknown_name(kind: str, name: str, known: Iterable[str], where: str) -> str:
    """Message for an unknown name, with the closest known one and a list of all.

    >>> unknown_name("attribute", "educaton", ["age", "education"], "This view has")
    "Unknown attribute 'educaton'. Did you mean 'education'? This view has: age, education."
    """
    names = list(known)
    by_lower_case = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), by_lower_case, n=1) if len(name) <= _MAX_NAME else []
    hint = f" Did you mean {quoted(by_lower_case[close[0]])}?" if close else ""
    further = f", … ({len(names)} in total)" if len(names) > 20 else ""
    listed = ", ".join(map(shortened, names[:20])) + further
    return f"Unknown {kind} {quoted(name)}.{hint} {where}: {listed}."


def shortened(text: str) -> str:
    """A text cut to 60 characters, for messages."""
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"


def quoted(value: object) -> str:
    """A value for a message, in at most about 60 characters."""
    if isinstance(value, str):
        return repr(shortened(value))
    try:
        return shortened(repr(value))
    # Integers of thousands of digits have no repr, and foreign objects may raise anything.
    except Exception:
        return f"this {type(value).__name__}"
