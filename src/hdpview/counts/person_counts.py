"""Exact numbers of persons: in total, and per value of an attribute. Private side. [P18]"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdpview.counts.contributions import Contributions, bounded_sql
from hdpview.counts.encode import code_sql
from hdpview.counts.ingest import ReadOptions, all_rows_sql, read_with
from hdpview.counts.sources import OpenSource
from hdpview.domain import Schema
from hdpview.errors import DataError, unknown_name
from hdpview.privacy.exact import Exact


def check_people(people: Sequence[str], schema: Schema, limits: Contributions, engine: str) -> None:
    """Raise if persons cannot be counted by these attributes."""
    if isinstance(people, str) or len(set(people)) < len(people):
        raise DataError('people must list different attributes by name, such as ["ward", "year"].')
    for name in people:
        if name not in schema.names:
            raise DataError(f"people: {unknown_name('attribute', name, schema.names, 'The schema has')}")
    if people and (limits.unit is None or limits.count is not None or engine != "local"):
        raise DataError(
            "people counts persons, so it needs privacy_unit (the column that identifies the person), rows "
            "of one record each, and engine='local'."
        )


def person_counts(source: Any, schema: Schema, options: ReadOptions, people: Sequence[str]) -> list[Exact]:
    """All persons, shape (1,), and per attribute the persons of each code, shape (size,).

    A person counts once per code, in at most max_rows random codes. [P18]
    """
    limits = options.limits

    def count(opened: OpenSource) -> list[Exact]:
        rows = all_rows_sql(opened.types, schema, options)
        (everybody,) = opened.rows(f"SELECT count(DISTINCT unit) AS n FROM ({rows}) AS own")
        counts = [Exact(np.array([everybody["n"]]))]
        for a in map(schema.names.index, people):
            pairs = f"SELECT DISTINCT unit, {code_sql(a, schema.attributes[a])} AS code FROM ({rows}) AS own"
            # Depends on the salt and that person's own codes only. [P18]
            chosen = bounded_sql(pairs, ["code"], ["code"], limits, f"{options.salt}|{a}")
            exact_counts = np.zeros(schema.sizes[a], np.int64)
            for row in opened.rows(f"SELECT code, count(*) AS n FROM ({chosen}) AS chosen GROUP BY code"):
                exact_counts[row["code"]] = row["n"]
            counts.append(Exact(exact_counts))
        return counts

    return read_with(count, source, schema, options, "Counting persons")
