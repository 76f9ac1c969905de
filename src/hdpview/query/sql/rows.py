"""Statements that ask for rows, over a table of records, by the same conditions and expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Attribute, Ordered, Schema
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import Condition
from hdpview.query.sql.aggregates import is_aggregate
from hdpview.query.sql.axes import AxisReader
from hdpview.query.sql.constants import with_constants
from hdpview.query.sql.execute import is_end_of_interval
from hdpview.query.sql.functions import OrderTerm, places_in_order
from hdpview.query.sql.relations import Relation, fold
from hdpview.query.sql.scalar import UNKNOWN, evaluate

_SUMMARIES = (exp.Group, exp.Having, exp.Distinct, exp.Window, exp.SetOperation)


def asks_for_rows(tree: exp.Expr) -> bool:
    """Whether a statement has neither groups nor aggregates anywhere, so that its result is rows."""
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    return isinstance(inner, exp.Select) and not any(
        isinstance(node, _SUMMARIES) or is_aggregate(node) or is_end_of_interval(node)
        for node in inner.walk()
    )


def rows_of(tree: exp.Expr, schema: Schema, records: pa.Table) -> list[list[Any]]:
    """Rows of a statement, as if these records were the table `view`. records: a column per attribute."""
    return _Rows(schema, records).answer(fold(with_constants(tree), schema))


class _Rows:
    def __init__(self, schema: Schema, table: pa.Table) -> None:
        self.schema, self.table = schema, table

    def answer(self, relation: Relation) -> list[list[Any]]:
        found = self._matching(relation)
        if not relation.order:
            found = _cut(found, relation)
        columns = [self._values(node, found) for _, node in relation.columns]
        if relation.order:
            order = _cut(self._ordered(relation, found), relation)
            columns = [[column[i] for i in order] for column in columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def _matching(self, relation: Relation) -> NDArray[np.int64]:
        """Places of the records that satisfy all conditions."""
        reader = AxisReader(self.schema)
        inside = np.ones(len(self.table), dtype=bool)
        for condition in relation.where:
            boxes = reader.boxes(condition)
            inside &= np.logical_or.reduce(
                [self._inside(box) for box in boxes] or [np.zeros(len(self.table), dtype=bool)]
            )
        return np.flatnonzero(inside)

    def _inside(self, box: Box) -> NDArray[np.bool_]:
        found = np.ones(len(self.table), dtype=bool)
        for a, condition in box.items():
            found &= _holds(self.schema.attributes[a], self.table.column(a), condition)
        return found

    def _values(self, node: exp.Expr, rows: Sequence[int] | NDArray[np.int64]) -> list[Any]:
        """An expression's values in these records."""
        inner = node.unnest()
        if isinstance(inner, exp.Column):
            taken = self.table.column(inner.name).take(pa.array(rows, pa.int64()))
            values: list[Any] = taken.to_pylist()
            return values
        names = list(dict.fromkeys(column.name for column in node.find_all(exp.Column)))
        content = {name: self._values(exp.column(name, quoted=True), rows) for name in names}

        def lookup_in(row: int) -> Callable[[exp.Expr], Any]:
            return lambda part: content[part.name][row] if isinstance(part, exp.Column) else UNKNOWN

        return [evaluate(node, lookup_in(row)) for row in range(len(rows))]

    def _ordered(self, relation: Relation, rows: NDArray[np.int64]) -> list[int]:
        """Places among `rows` in the order asked for."""
        terms = [OrderTerm.of(term, self._values(term.this, rows)) for term in relation.order]
        return places_in_order(len(rows), terms)


def _cut(rows: Any, relation: Relation) -> Any:
    end = None if relation.limit < 0 else relation.offset + relation.limit
    return rows[relation.offset : end]


def _holds(attribute: Attribute, column: pa.ChunkedArray, condition: Condition) -> NDArray[np.bool_]:
    """Which values of a column satisfy a condition on its attribute."""
    missing = column.is_null().to_numpy(zero_copy_only=False)
    found = missing & condition.null
    if isinstance(attribute, Ordered):
        moments = pa.types.is_temporal(column.type)
        values = column.cast(pa.timestamp("us")).cast(pa.int64()) if moments else column
        numbers = values.fill_null(0).to_numpy()
        for low, high in condition.ranges:
            found |= ~missing & (numbers >= low) & (numbers < high)
        return np.asarray(found)
    labels: list[Any] = [False, True] if attribute.kind == "boolean" else list(attribute.value_labels())
    chosen = pa.array([labels[code] for code in sorted(condition.codes)], column.type)
    listed: NDArray[np.bool_] = pc.is_in(column, value_set=chosen).to_numpy()
    return np.asarray(found | (listed & ~missing))
