"""One exception tree; every message says what is wrong and what to do next.

HdpviewError
├── SchemaError      the public description of the table does not hold together
├── DataError        the table cannot be read as the schema says (names and types only, never values)
│   └── LossError    so much of the table would be lost that a build has to be confirmed
├── BudgetError      a privacy budget is invalid or would be exceeded
├── MethodError      a method cannot build a view of this domain with these settings
├── QueryError       a question cannot be answered, with the nearest one that can
├── ViewFileError    a .pview file is broken, foreign or from a later version
└── InternalError    a mistake of this library, not of whoever called it
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

_MOST_QUOTED = 60  # characters
_LONGEST_NAME = 200  # characters of a name that is worth comparing with known ones
# Packages that `pip install hdpview` leaves out → the extra that installs them.
_EXTRAS = {"ibis": "build", "numba": "build", "opendp": "build", "vl_convert": "plot"}
_NEEDED_FOR = {"build": "Building views", "plot": "Saving pictures as PNG, SVG or PDF"}


class HdpviewError(Exception):
    """Anything this library raises on purpose. The message is one clear sentence or two."""


class SchemaError(HdpviewError):
    """The schema is not a valid public description of a table."""


class DataError(HdpviewError):
    """The table cannot be read as the schema says. Carries names and types, never values."""


class LossError(DataError):
    """A build would lose much of a table, and nobody has accepted that. Nothing was spent.

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
    """A build loses a little of a table: less than would stop it."""


class BudgetError(HdpviewError):
    """A privacy budget is invalid or would be exceeded."""


class MethodError(HdpviewError):
    """A method cannot build a view of this domain with these settings."""


class QueryError(HdpviewError):
    """A question that this view cannot answer."""


class ViewFileError(HdpviewError):
    """A file that is not a valid .pview."""


class InternalError(HdpviewError):
    """A mistake of this library. The message says how to report it."""

    @classmethod
    def of(cls, problem: Exception, what: str) -> InternalError:
        """What to say of an error that nobody raised on purpose."""
        return cls(
            f"This is a mistake in hdpview, not in {what} ({type(problem).__name__}). "
            f"Please report it with {what} and the version of hdpview; CONTRIBUTING.md says where."
        )


def missing_extra(problem: ModuleNotFoundError) -> HdpviewError | None:
    """The error that says which extra to install, if the missing module belongs to one; else None."""
    module = (problem.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    if extra is None:
        return None
    return HdpviewError(
        f"{_NEEDED_FOR[extra]} needs {module!r}, which is not installed. "
        f"Install it with: pip install 'hdpview[{extra}]'"
    )


def check_installed(*modules: str) -> None:
    """Raise an error that says what to install if one of these modules of an extra is missing."""
    for module in modules:
        if find_spec(module) is None:
            problem = ModuleNotFoundError(f"No module named {module!r}", name=module)
            raise missing_extra(problem) or problem


def unknown_name(kind: str, name: str, known: Iterable[str], where: str) -> str:
    """Words for an unknown name: what was asked, the closest known one, and what there is.

    >>> unknown_name("attribute", "educaton", ["age", "education"], "This view has")
    "Unknown attribute 'educaton'. Did you mean 'education'? This view has: age, education."
    """
    names = list(known)
    close = get_close_matches(name, names, n=1) if len(name) <= _LONGEST_NAME else []
    hint = f" Did you mean {quoted(close[0])}?" if close else ""
    listed = ", ".join(map(shortened, names[:20])) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
    return f"Unknown {kind} {quoted(name)}.{hint} {where}: {listed}."


def shortened(text: str) -> str:
    """A text cut to 60 characters: messages quote what people wrote, however long that was."""
    return text if len(text) <= _MOST_QUOTED else text[: _MOST_QUOTED - 1] + "…"


def quoted(value: object) -> str:
    """A value as a message shows it, in at most about 60 characters."""
    if isinstance(value, str):
        return repr(shortened(value))
    try:
        return shortened(repr(value))
    # a whole number of thousands of digits has no repr, and foreign objects may do anything
    except Exception:
        return f"this {type(value).__name__}"
