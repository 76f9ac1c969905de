"""Noisy numbers of persons: in total, and per value of the attributes that the curator names. [P18]"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Charge, Mechanism, Outcomes
from hdpview.privacy.randomness import Randomness
from hdpview.view.released_tables import Table

_SHARE = Fraction(1, 20)  # of the budget, for the number of persons and for each attribute
_MAX_SHARE = Fraction(2, 5)  # of the budget, for all of them together


def share_of_people(people: Sequence[str]) -> Fraction:
    """Share of the budget for numbers of persons."""
    return min(_MAX_SHARE, _SHARE * (len(people) + 1)) if people else Fraction(0)


def measure_people(
    exact: Sequence[Exact],
    people: Sequence[str],
    schema: Schema,
    epsilon: Fraction,
    randomness: Randomness,
    max_rows: int,
    outcomes: Outcomes | None,
) -> tuple[tuple[Table, ...], tuple[Charge, ...]]:
    """Release numbers of persons. A person adds 1 to the total and counts for at most `max_rows` values."""
    numbers = [schema.names.index(name) for name in people]
    one, rest = epsilon / (len(people) + 1), epsilon * len(people) / (len(people) + 1)
    of_all = Mechanism(one, randomness, outcomes=outcomes)
    noisy = of_all.noisy("number of persons", exact[0], of_all.total)  # [P18]
    everybody = TableShape((numbers[0],), (np.zeros(schema.sizes[numbers[0]], np.int32),))
    tables = [Table(everybody, noisy, "laplace", of_all.noise(of_all.total).scale)]
    by_value = Mechanism(rest, randomness, max_rows=max_rows, outcomes=outcomes)
    amount = by_value.total / len(people)
    for a, counts in zip(numbers, exact[1:], strict=True):
        shape = TableShape.of_codes([a], schema.sizes)
        noisy = by_value.noisy(f"persons by attribute: {a}", counts, amount)  # [P18]
        tables.append(Table(shape, noisy, "laplace", by_value.noise(amount).scale))
    return tuple(tables), (*of_all.close(), *by_value.close())
