"""One exception tree; every message says what is wrong and what to do next.

HdpviewError
├── SchemaError      the public description of the table does not hold together
├── DataError        the table cannot be read as the schema says (names and types only, never values)
├── BudgetError      a privacy budget is invalid or would be exceeded
├── MethodError      a method cannot build a view of this domain with these settings
├── QueryError       a question cannot be answered, with the nearest one that can
└── ViewFileError    a .pview file is broken, foreign or from a later version
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class HdpviewError(Exception):
    """Anything this library raises on purpose. The message is one clear sentence or two."""


class SchemaError(HdpviewError):
    """The schema is not a valid public description of a table."""


class DataError(HdpviewError):
    """The table cannot be read as the schema says. Carries names and types, never values."""


class BudgetError(HdpviewError):
    """A privacy budget is invalid or would be exceeded."""


class MethodError(HdpviewError):
    """A method cannot build a view of this domain with these settings."""


class QueryError(HdpviewError):
    """A question that this view cannot answer."""


class ViewFileError(HdpviewError):
    """A file that is not a valid .pview."""


def unknown_name(kind: str, name: str, known: Iterable[str], where: str) -> str:
    """Words for an unknown name: what was asked, the closest known one, and what there is.

    >>> unknown_name("attribute", "educaton", ["age", "education"], "This view has")
    "Unknown attribute 'educaton'. Did you mean 'education'? This view has: age, education."
    """
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    shown = ", ".join(names[:20]) + (f", … ({len(names)} in all)" if len(names) > 20 else "")
    return f"Unknown {kind} {name!r}.{hint} {where}: {shown}."
