"""Synthetic records for those who ask for rows: a view has none.

They are drawn once per view, with a fixed seed: the same statement has the same answer for everybody, and a
condition finds the same records whatever else is asked.
"""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from sqlglot import exp

from hdpview.domain import Datetime
from hdpview.explore.postgres.catalog.tables import is_by_day
from hdpview.pview import PView
from hdpview.query.sql.rows import rows_of

MOST_RECORDS = 50_000
_SEED = 0


class Records:
    """Synthetic records of one view, drawn when they are first asked for."""

    def __init__(self, view: PView) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._table: pa.Table | None = None

    @property
    def table(self) -> pa.Table:
        """The records, as many as the view counts or as there may be."""
        with self._lock:
            if self._table is None:
                n = min(MOST_RECORDS, max(0, round(self._view.count(None).estimate)))
                self._table = self._as_typed(self._view.sample(n, seed=_SEED, as_="pyarrow"))
            return self._table

    def _as_typed(self, drawn: pa.Table) -> pa.Table:
        """Moments of attributes counted by days as dates, which is what their columns are announced as."""
        for a, attribute in enumerate(self._view.schema):
            if isinstance(attribute, Datetime) and is_by_day(attribute):
                days = drawn.column(a).cast(pa.date32(), safe=False)
                drawn = drawn.set_column(a, attribute.name, days)
        return drawn

    def answer(self, tree: exp.Expr) -> list[list[Any]]:
        """Rows of a statement over the table `view`."""
        return rows_of(tree, self._view.schema, self.table)

    def notice(self, name: str) -> str:
        """What people are told who see rows."""
        return (
            f"These are synthetic records drawn from the view {name!r}, not rows of the table; "
            f"there are {len(self.table):,} of them. Ask for counts, sums and means instead: they are "
            "more accurate."
        )
