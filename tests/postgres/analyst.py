"""The analyst's questions, and their answers in Python, which every client must receive."""

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

from hdpview.explore.postgres.statements import split
from hdpview.pview import PView

SCRIPT = Path(__file__).parents[2] / "examples" / "analyst.sql"
QUESTIONS = [statement.text for statement in split(SCRIPT.read_text(encoding="utf-8"))]

Answers = list[list[list[Any]]]  # rows by question


def python_answers(view: PView) -> Answers:
    return [python_rows(view, question.replace("FROM admissions", "FROM view")) for question in QUESTIONS]


def python_rows(view: PView, question: str) -> list[list[Any]]:
    """The answer to a question of the table `view`, in PostgreSQL's SQL, without intervals."""
    table = view.sql(question, dialect="postgres", as_="pyarrow")
    names = [name for name in table.column_names if not name.endswith(("_lower", "_upper"))]
    return [[row[name] for name in names] for row in table.to_pylist()]


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether a value that came through a client, perhaps as text, is the one that Python has: numbers to
    twelve digits, of which clients print at least as many, or to the nine decimals that SQL gives."""
    if ours is None or theirs is None or theirs == "":
        return ours is None and theirs in (None, "")
    if isinstance(ours, bool):
        return str(theirs).lower() in (("t", "true", "1") if ours else ("f", "false", "0"))
    if isinstance(ours, date):
        day = ours if isinstance(ours, datetime) else datetime(ours.year, ours.month, ours.day)
        return str(theirs)[:10] == day.date().isoformat()
    if isinstance(ours, (int, float)):
        return math.isclose(ours, float(theirs), rel_tol=1e-12, abs_tol=1e-9)
    return ours == str(theirs)


def assert_same(ours: list[list[Any]], theirs: list[list[Any]], question: str) -> None:
    assert len(ours) == len(theirs), question
    for own, other in zip(ours, theirs, strict=True):
        assert len(own) == len(other), (question, own, other)
        assert all(map(is_same, own, other)), (question, own, other)
