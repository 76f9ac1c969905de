"""A differentially private check before a build, for tables that even the curator may not read.

Each row has one state per column: read, unreadable or undeclared, missing, below or above the bounds. The
check counts states with noise, like a histogram of each column, and reports only on the noisy counts.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from hdpview.counts.check import CheckedColumn
from hdpview.counts.contributions import EACH_ROW_UNIT
from hdpview.counts.encode import State
from hdpview.counts.ingest import READ_ALL, ReadOptions, column_types, read_states
from hdpview.counts.losses import MANY_SHARE, SchemaWarning, blocking_first
from hdpview.counts.refusals import quoting_no_value
from hdpview.domain import Schema
from hdpview.privacy.exact import Exact
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

PURPOSE = "check of the schema"
# Probability that noise alone causes a warning anywhere.
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
    """Like `check.check_table`, but charges the table's ledger and shows no shapes. [P12]"""
    limits, types = options.limits, column_types(source, schema.source)
    order = {"check": schema.to_dict(), "limits": repr(limits), "epsilon": str(epsilon)}
    terms = (PURPOSE, limits.unit or EACH_ROW_UNIT, limits.max_rows)
    if not resume:
        ledger.check(table, epsilon)
    states = read_states(source, schema, options)
    n_read = states.exact_rows - states.exact_counts.sum(axis=1, keepdims=True)
    exact_states = np.concatenate([states.exact_counts, n_read], axis=1)

    def draw() -> tuple[list[list[int]], Fraction]:
        with ledger.charged(table, epsilon, *terms, order=order, resume=resume) as receipt:
            mechanism = Mechanism(
                epsilon, Randomness.fresh(), max_rows=limits.max_rows, outcomes=receipt.outcomes
            )
            amount = mechanism.total / len(schema)  # a row has one state in each column
            noisy = [
                mechanism.noisy(f"{PURPOSE}: {name}", Exact(exact), amount).tolist()
                for name, exact in zip(schema.names, exact_states, strict=True)
            ]
            mechanism.close()
        receipt.outcomes.close(remove=True)
        return noisy, amount

    noisy, amount = quoting_no_value(source, draw)
    # Noise of this scale stays below the threshold everywhere, except with the probability above.
    threshold = math.log(len(schema) * (len(State) + 1) / _FALSE_ALARM) / float(amount)
    n_rows = max(1, round(sum(map(sum, noisy)) / len(noisy)))
    warnings: list[SchemaWarning] = []
    for each, counts in zip(schema, noisy, strict=True):
        seen = [n if n > threshold else 0 for n in counts[: len(State)]]
        warnings += CheckedColumn(each, types[each.name], schema.source, n_rows, seen).warnings()
    if threshold > MANY_SHARE * n_rows:
        sentence = (
            f"the budget of this check shows only losses of about {min(1.0, threshold / n_rows):.0%} of a "
            "column or more. A larger epsilon shows smaller ones."
        )
        warnings.append(SchemaWarning("", sentence, is_blocking=False))
    return blocking_first(warnings)
