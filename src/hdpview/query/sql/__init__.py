"""SQL over a view.

relations   WITH and subqueries folded into one SELECT over the view
plan        its groups (axes), aggregates and expressions
execute     all groups at once, then row by row what is computed from them
"""

from __future__ import annotations

from sqlglot import exp

from hdpview.domain import Schema
from hdpview.errors import QueryError, unknown_name
from hdpview.query.interval.answers import Kind, Reading
from hdpview.query.question.where import DIALECT, parse
from hdpview.query.sql.execute import Result, execute
from hdpview.query.sql.plan import Plan, plan
from hdpview.query.sql.relations import WHAT_WORKS
from hdpview.view.data import ViewData

__all__ = ["Result", "run"]


def run(
    view: ViewData,
    statement: str,
    confidence: float = 0.95,
    counts: Reading = "consistent",
    interval: Kind = "typical",
    dialect: str = DIALECT,
) -> Result:
    """Answer one SELECT statement. `dialect` names the SQL it is written in: duckdb, postgres, snowflake,
    spark, …
    """
    if not isinstance(statement, str):
        raise QueryError(f"A statement is SQL text, not {type(statement).__name__}.")
    _check_dialect(dialect)
    try:
        return execute(_planned(parse(statement, dialect), view.schema), view, confidence, counts, interval)
    except RecursionError:
        raise QueryError("The statement is nested too deeply.") from None


def _planned(tree: exp.Expr, schema: Schema) -> Plan:
    """The plan of a tree. The parser lets through trees that lack a part, such as COUNT(); they are refused
    like any other bad SQL.
    """
    try:
        return plan(tree, schema)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise QueryError(
            f"The statement is not complete: a function or clause lacks its arguments. {WHAT_WORKS}"
        ) from None


def _check_dialect(dialect: str) -> None:
    from sqlglot.dialects import DIALECTS

    known = sorted(name.lower() for name in DIALECTS if name != "Dialect")
    if dialect not in known:
        raise QueryError(unknown_name("dialect", str(dialect)[:60], known, "The dialects are"))
