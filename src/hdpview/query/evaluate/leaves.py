"""Conditions on one attribute that need DuckDB, such as `hour(admitted) = 3` or `city LIKE 'N%'`.

They are evaluated over the points of the attribute, as in statements, and become sets of its values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from hdpview.domain import Attribute, Category, Ordered
from hdpview.errors import QueryError
from hdpview.query.evaluate.allowed import check
from hdpview.query.evaluate.database import complaint, lock, point_type, points_of, sandboxed_connection
from hdpview.query.evaluate.deadline import TOO_LONG, Expired, deadline
from hdpview.query.evaluate.expressions import UNDECLARED, far_beyond, looks_inside_days, shown
from hdpview.query.question.conditions import BIN, LOWEST, Condition, missing

if TYPE_CHECKING:
    import duckdb


def constant(node: exp.Expr) -> Any:
    """The value of an expression without attributes; None for NULL."""
    (value,) = _evaluated(node, f"SELECT {node.sql('duckdb')} AS value", {})
    value = float(value) if isinstance(value, Decimal) else value
    if isinstance(value, float) and not math.isfinite(value):
        raise QueryError(f"{shown(node)} has no value.")
    return value


def condition_on(attribute: Attribute, node: exp.Expr, negated: bool) -> Condition:
    """The values of an attribute for which an expression about it is true, or false if negated."""
    fine = looks_inside_days(node)
    points = points_of(attribute, fine)
    values = points.value
    other = attribute.unknown_code if isinstance(attribute, Category) and attribute.other else None
    if other is not None:
        values = pa.array([UNDECLARED if i == other else v for i, v in enumerate(values.to_pylist())])
    if isinstance(attribute, Ordered):
        far = [end if attribute.whole else float(end) for end in far_beyond(attribute)]
        values = pa.concat_arrays([values, pa.array(far).cast(values.type)])
    x = exp.cast(exp.column("x"), point_type(attribute, fine))
    test = node.transform(lambda part: x if isinstance(part, exp.Column) else part).sql("duckdb")
    listed = _evaluated(
        node,
        f"SELECT COALESCE({'NOT ' * negated}({test}), FALSE) FROM points ORDER BY i",
        {"i": np.arange(len(values)), "x": values},
    )
    holds = np.array(listed, dtype=bool)
    known = (points.share > 0) & (points.code < attribute.n_values)
    inside, code = holds[: len(known)][known], points.code[known]
    # Runs of points where the test holds, including values beyond the bounds on either side.
    low, high = holds[-2:] if isinstance(attribute, Ordered) else inside[[0, -1]]
    place = (np.arange(len(code)) - np.searchsorted(code, code)) / np.bincount(code)[code]
    starts = code * BIN + np.rint(place * BIN).astype(np.int64)
    ends = [LOWEST, *starts.tolist(), attribute.n_values * BIN, math.inf]
    changes = np.flatnonzero(np.diff([False, low, *inside, high, False])).tolist()
    ranges = [(ends[i], ends[j]) for i, j in zip(changes[::2], changes[1::2], strict=True)]
    condition = Condition(tuple(ranges), other)
    has_null = attribute.nullable and holds[np.searchsorted(points.code, attribute.n_values)]
    return condition | missing(attribute) if has_null else condition


@lru_cache(maxsize=1)
def _connection() -> duckdb.DuckDBPyConnection:
    connection = sandboxed_connection()
    lock(connection)
    return connection


def _evaluated(node: exp.Expr, statement: str, points: Mapping[str, Any]) -> list[Any]:
    """The value of an expression as the only column of a statement, if it is allowed."""
    import duckdb

    check(node)
    inner = node.find(exp.AggFunc, exp.Window, exp.Query)
    if inner is not None:
        raise QueryError(
            f"{shown(inner)} cannot be part of a condition on records. Use view.sql for whole statements."
        )
    try:
        with _connection().cursor() as cursor, deadline(cursor):
            if points:
                cursor.register("points", pa.table(dict(points)))
            return [row[0] for row in cursor.execute(statement).fetchall()]
    except Expired:
        raise QueryError(TOO_LONG) from None
    except duckdb.Error as problem:
        raise QueryError(f"{shown(node)} is not a condition on records: {complaint(problem)}") from None
