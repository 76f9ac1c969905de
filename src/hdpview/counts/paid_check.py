"""The check before a build under differential privacy, for tables that even the curator may not look at.

Each row has one state per column: read, unreadable or undeclared, missing, below or above the bounds. States
are counted with noise, like a histogram of each column, and sentences are made of the noisy counts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import ibis

from hdpview.counts.check import CheckedColumn
from hdpview.counts.contributions import EACH_ROW_UNIT
from hdpview.counts.ingest import READ_ALL, ReadOptions, read_with
from hdpview.counts.losses import MANY_SHARE, SchemaWarning
from hdpview.counts.sources import OpenSource
from hdpview.counts.stream import streamed_counts
from hdpview.domain import Integer, Ordered, Schema
from hdpview.domain.tables import TableShape
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

PURPOSE = "check of the schema"
_STATES = ("read", "lost", "missing", "below", "above")
# Probability that noise alone makes the check speak anywhere.
_FALSE_ALARM = 0.01


def paid_check(
    source: Any,
    schema: Schema,
    epsilon: Fraction,
    ledger: Ledger,
    table: str,
    options: ReadOptions = READ_ALL,
    *,
    resume: bool = False,
) -> list[SchemaWarning]:
    """As `check.check_table`, for a budget that is charged to a table's ledger; without shapes. [P12]"""
    limits = options.limits
    order = {"check": schema.to_dict(), "limits": repr(limits), "epsilon": str(epsilon)}
    terms = (PURPOSE, limits.unit or EACH_ROW_UNIT, limits.max_rows)
    if not resume:
        ledger.check(table, epsilon)

    def read(opened: OpenSource) -> list[SchemaWarning]:
        columns = [
            CheckedColumn(i, each, schema, opened.types[each.name], False, each.name == limits.unit)
            for i, each in enumerate(schema)
        ]
        states = _states(opened.table, columns, options)
        codes = Schema([Integer(name=f"state {i}", min=0, max=len(_STATES) - 1) for i in range(len(schema))])
        with (
            streamed_counts(states, codes, options) as counts,
            ledger.charged(table, epsilon, *terms, order=order, resume=resume) as receipt,
        ):
            shapes = [TableShape.of_codes((i,), codes.sizes) for i in range(len(columns))]
            key, drawn = Randomness.fresh(), receipt.outcomes
            mechanism = Mechanism(epsilon, key, max_rows=limits.max_rows, outcomes=drawn)
            amount = mechanism.total / len(columns)  # a row has one state in each column
            noisy = [
                mechanism.noisy(f"{PURPOSE}: {column.attribute.name}", exact, amount)
                for column, exact in zip(columns, counts.exact_tables(shapes), strict=True)
            ]
            mechanism.close()
        receipt.outcomes.close(remove=True)
        # Laplace noise of this scale stays below it everywhere, save with the probability stated.
        scale = 1 / float(amount)
        threshold = scale * math.log(len(columns) * len(_STATES) / _FALSE_ALARM)
        return _warnings(columns, [list(map(float, each)) for each in noisy], threshold)

    return read_with(read, source, schema, options)


def _states(table: ibis.Table, columns: Sequence[CheckedColumn], options: ReadOptions) -> ibis.Table:
    """A whole number per row and column: its place in `_STATES`; the columns of limits come along."""
    along = {name: table[name] for name in options.limits.columns}
    parts = {name: part for column in columns for name, part in column.parts(table).items()}
    values = table.select(**along, **parts)
    states = values.mutate(**{n: part for column in columns for n, part in column.states(values).items()})
    return states.select(*along, **{f"state {column.position}": _state(column, states) for column in columns})


def _state(column: CheckedColumn, states: ibis.Table) -> Any:
    cases = [(states[column.key("lost")], 1), (~states[column.key("read")], 2)]
    if isinstance(column.attribute, Ordered):
        below, above = column.beyond(states)
        cases += [(below, 3), (above, 4)]
    return ibis.cases(*cases, else_=0).cast("int64")


def _warnings(
    columns: Sequence[CheckedColumn], noisy: Sequence[Sequence[float]], threshold: float
) -> list[SchemaWarning]:
    """Sentences about what noise alone would hardly show."""
    warnings: list[SchemaWarning] = []
    n_rows = max(1, round(sum(map(sum, noisy)) / len(noisy)))
    for column, counts in zip(columns, noisy, strict=True):
        seen = {name: round(n) if n > threshold else 0 for name, n in zip(_STATES, counts, strict=True)}
        told = {column.key(name): seen[name] for name in ("lost", "below", "above")}
        told |= {"n_rows": n_rows, column.key("read"): n_rows - seen["lost"] - seen["missing"]}
        warnings += column.warnings(told)
    if threshold > MANY_SHARE * n_rows:
        sentence = (
            f"the budget of this check shows only losses of about {min(1.0, threshold / n_rows):.0%} of a "
            "column or more. A larger epsilon shows smaller ones."
        )
        warnings.append(SchemaWarning("", sentence, is_blocking=False))
    return sorted(warnings, key=lambda warning: not warning.is_blocking)
