"""Exact numbers of persons: in all, and per value of an attribute. Private side. [P18]"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis
import numpy as np

from hdpview.counts.contributions import Contributions, md5, of_persons
from hdpview.counts.encode import encode
from hdpview.counts.ingest import BATCH_ROWS, ReadOptions, read_with
from hdpview.counts.sources import OpenSource
from hdpview.counts.values import exact_int
from hdpview.domain import Schema
from hdpview.errors import DataError, unknown_name
from hdpview.privacy.exact import Exact


def check_people(people: Sequence[str], schema: Schema, limits: Contributions, engine: str) -> None:
    """Raise where persons cannot be counted by these attributes."""
    if isinstance(people, str) or len(set(people)) < len(people):
        raise DataError('people lists attributes by name, each once, such as ["ward", "year"].')
    for name in people:
        if name not in schema.names:
            raise DataError(f"people: {unknown_name('attribute', name, schema.names, 'The schema has')}")
    if people and (limits.unit is None or limits.count is not None or engine != "local"):
        raise DataError(
            "people counts persons, so it needs privacy_unit, the column that says whose row it is; rows of "
            "one record each; and engine='local'."
        )


def person_counts(source: Any, schema: Schema, options: ReadOptions, people: Sequence[str]) -> list[Exact]:
    """Persons in all, shape (1,), and per attribute the persons of each code, shape (size,).

    A person counts once per code, and in max_rows codes at most, chosen by lot. [P18]
    """
    limits = options.limits
    numbers = [schema.names.index(name) for name in people]

    def read(opened: OpenSource) -> list[Exact]:
        codes = encode(opened.table, schema, {"unit": str(limits.unit)}, is_ours=opened.is_ours)
        own, person = of_persons(codes, limits, opened.is_ours)

        def counted(query: ibis.Table, size: int) -> Exact:
            exact_counts = np.zeros(size, np.int64)
            for batch in opened.batches_of_numbers(query, BATCH_ROWS):
                exact_counts[batch["code"].to_numpy()] = batch["n"].to_numpy()
            return Exact(exact_counts)

        everybody = own.select(*person, code=exact_int(0)).distinct()
        found = [counted(_by_code(everybody), 1)]
        for a in numbers:
            pairs = own.select(*person, code=own[f"code_{a}"]).distinct()
            chosen = _chosen(pairs, person, limits.max_rows, f"{options.salt}|{a}")
            found.append(counted(_by_code(chosen), schema.sizes[a]))
        return found

    return read_with(read, source, schema, options)


def _chosen(pairs: ibis.Table, person: list[str], most: int, salt: str) -> ibis.Table:
    """Of each person at most so many codes, by lot: a function of the salt and of that person's own. [P18]"""
    text = ibis.literal(salt) + "|" + pairs["unit"].cast("string") + "|" + pairs["code"].cast("string")
    lots = pairs.mutate(lot=md5(text))
    ranked = lots.mutate(place=ibis.row_number().over(ibis.window(group_by=person, order_by=["lot", "code"])))
    return ranked.filter(ranked["place"] < exact_int(most))


def _by_code(pairs: ibis.Table) -> ibis.Table:
    return pairs.group_by("code").aggregate(n=pairs.count())
