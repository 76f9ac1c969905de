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
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Attribute, Category, Ordered
from hdpview.errors import QueryError
from hdpview.query.evaluate.allowed import check
from hdpview.query.evaluate.database import complaint, lock, point_type, points_of, sandboxed_connection
from hdpview.query.evaluate.deadline import TOO_LONG, Expired, deadline
from hdpview.query.evaluate.expressions import UNDECLARED, far_beyond, looks_inside_days, shown
from hdpview.query.question.conditions import Condition

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
    null = attribute.nullable and bool(holds[np.searchsorted(points.code, attribute.n_values)])
    if isinstance(attribute, Ordered):
        known = (points.share > 0) & (points.code < attribute.n_values)
        inside = holds[: len(points.code)][known]
        ranges = _ranges(attribute, points.code[known], points.value.filter(pa.array(known)), inside, holds)
        return Condition(ranges, null=null)
    codes = frozenset(np.flatnonzero(holds[: attribute.n_values]).tolist())
    return Condition((), codes, null, frozenset(() if other is None else {other}))


def _ranges(
    attribute: Ordered, code: NDArray[np.int64], value: pa.Array, inside: NDArray[np.bool_], holds: Any
) -> tuple[tuple[float, float], ...]:
    """Runs of points where a condition holds, including values beyond the bounds on either side."""
    edges = attribute.edges
    if attribute.whole:
        starts = value.cast(pa.int64()).to_numpy()
    else:
        first = np.searchsorted(code, np.arange(attribute.n_values + 1))
        place = (np.arange(len(code)) - first[code]) / np.diff(first)[code]
        starts = edges[code] + (edges[code + 1] - edges[code]) * place
    ends = [-math.inf, *starts.tolist(), edges[-1].item(), math.inf]
    ends[1] = edges[0].item()
    changes = np.flatnonzero(np.diff([False, holds[-2], *inside, holds[-1], False])).tolist()
    return tuple((ends[i], ends[j]) for i, j in zip(changes[::2], changes[1::2], strict=True))


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
