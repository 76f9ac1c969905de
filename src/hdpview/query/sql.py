"""SQL over a view: statements of the form SELECT COUNT(*) FROM view [WHERE …]."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.answers import Answers, answer
from hdpview.query.predicates import boxes_of_tree, parse
from hdpview.view.data import ViewData

_WHAT_WORKS = "Write SELECT COUNT(*) FROM view, with a WHERE condition if you like."
_PARTS = {"from", "from_", "where", "kind", "expressions"}


@dataclass(frozen=True, eq=False)
class SqlResult:
    """Rows of a result: one aggregate, named `column`."""

    column: str
    answers: Answers


def run(view: ViewData, statement: str, confidence: float = 0.95) -> SqlResult:
    """Answer one SQL statement."""
    tree = parse(statement)
    if not isinstance(tree, exp.Select):
        raise QueryError(f"Only SELECT statements can be answered. {_WHAT_WORKS}")
    present = {key for key, part in tree.args.items() if part}
    if present - _PARTS or tree.args.get("kind"):
        extra = sorted(key.strip("_").upper() for key in present - _PARTS) or ["KIND"]
        raise QueryError(f"{extra[0]} is not something this view can answer. {_WHAT_WORKS}")
    _check_table(tree)
    column = _aggregate(tree)
    where = tree.args.get("where")
    boxes = boxes_of_tree(where.this, view.schema) if where is not None else [{}]
    return SqlResult(column, answer(view, [boxes], confidence))


def _check_table(tree: exp.Select) -> None:
    source = tree.args.get("from_") or tree.args.get("from")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.name.lower() != "view" or table.db:
        raise QueryError(f"The one table here is called view. {_WHAT_WORKS}")


def _aggregate(tree: exp.Select) -> str:
    if len(tree.expressions) != 1:
        raise QueryError(f"Select one COUNT(*). {_WHAT_WORKS}")
    selected = tree.expressions[0]
    inner = selected.unalias()
    if not isinstance(inner, exp.Count) or not isinstance(inner.this, (exp.Star, exp.Literal)) or inner.args.get("expressions"):
        raise QueryError(f"{inner.sql(dialect='duckdb')[:60]} is not COUNT(*). {_WHAT_WORKS}")
    return selected.alias or "count"
