"""SQL over a view.

compose      statements that are several questions: UNION, ROLLUP, values of subqueries (subqueries)
relations    WITH and subqueries in FROM folded into one SELECT over the view
plan         its groups (axes, dates), aggregates, windows, and what is computed from them
execute      all groups at once: expressions of aggregates (arithmetic, limits), windows, order
rows         statements that ask for rows, over a table of records
scalar       expressions of single values, row by row (functions, patterns, constants)
"""

from __future__ import annotations

from sqlglot import exp

from hdpview.errors import HdpviewError, InternalError, QueryError, unknown_name
from hdpview.query.interval.answers import Kind, Reading
from hdpview.query.question.where import DIALECT, parse
from hdpview.query.sql.compose import answer
from hdpview.query.sql.constants import with_constants
from hdpview.query.sql.execute import Result, execute, is_end_of_interval
from hdpview.query.sql.plan import plan
from hdpview.query.sql.relations import WHAT_WORKS
from hdpview.query.sql.scalar import shown
from hdpview.view.data import ViewData

__all__ = ["Result", "run", "run_tree"]

# What the parser's own list takes for optional, and cannot be done without here.
_ALSO_REQUIRED: dict[type[exp.Expr], dict[str, bool]] = {
    exp.Count: {"this": True},
    exp.Select: {"expressions": True},
}


def run(
    view: ViewData,
    statement: str,
    confidence: float = 0.95,
    counts: Reading = "consistent",
    interval: Kind = "typical",
    dialect: str = DIALECT,
    with_intervals: bool = True,
) -> Result:
    """Answer one SELECT statement.

    dialect: the SQL it is written in: duckdb, postgres, snowflake, spark, …
    with_intervals: where False, nobody looks at intervals: their ends are NULL unless the statement itself
        uses them (DP_INTERVAL_LOW, DP_INTERVAL_HIGH), and the answer takes half the time.
    """
    if not isinstance(statement, str):
        raise QueryError(f"A statement is SQL text, not {type(statement).__name__}.")
    _check_dialect(dialect)
    return run_tree(view, parse(statement, dialect), confidence, counts, interval, with_intervals)


def run_tree(
    view: ViewData, tree: exp.Expr, confidence: float, counts: Reading, interval: Kind, with_intervals: bool
) -> Result:
    """As `run`, of a statement that is parsed already; the tree is left as it is."""
    try:
        _check_complete(tree)

        def ask(select: exp.Expr, is_looked_at: bool = with_intervals) -> Result:
            uses_ends = any(is_end_of_interval(node) for node in select.find_all(exp.Anonymous))
            kind = interval if is_looked_at or uses_ends else None
            return execute(plan(select, view.schema), view, confidence, counts, kind)

        return answer(with_constants(tree), ask, lambda select: ask(select, False))
    except RecursionError:
        raise QueryError("The statement is nested too deeply.") from None
    except HdpviewError:
        raise
    except Exception as problem:  # whatever else happens here is a mistake of ours, and has to be seen as one
        raise InternalError.of(problem, "your statement") from problem


def _check_complete(tree: exp.Expr) -> None:
    """Refuse trees that lack a part, such as `SUM()`: the parser lets them through."""
    for node in tree.walk():
        for name, is_required in {**node.arg_types, **_ALSO_REQUIRED.get(type(node), {})}.items():
            if is_required and node.args.get(name) in (None, []):
                raise QueryError(f"The statement is not complete: {shown(node)} lacks a part. {WHAT_WORKS}")


def _check_dialect(dialect: str) -> None:
    from sqlglot.dialects import DIALECTS

    known = sorted(name.lower() for name in DIALECTS if name != "Dialect")
    if dialect not in known:
        raise QueryError(unknown_name("dialect", str(dialect)[:60], known, "The dialects are"))
