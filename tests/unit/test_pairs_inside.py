"""Pairs that only larger tables hold: their margins, with the noise that sums have."""

from __future__ import annotations

import numpy as np
import pytest

from hdpview.domain.tables import TableShape
from hdpview.view.tables import Table, pairs_inside

SIZES = (2, 3, 4, 5)


def table_of(attributes: tuple[int, ...], scale: float) -> Table:
    shape = TableShape.of_codes(attributes, SIZES)
    counts = np.arange(np.prod(shape.shape), dtype=np.int64).reshape(shape.shape)
    return Table(shape, counts, "laplace", scale)


def test_margins_are_sums_with_the_variance_of_sums() -> None:
    """Every pair of a table of three has its margin; as many variances add up as cells do."""
    table = table_of((0, 1, 2), 3.0)
    found = {pair.attributes: pair for pair in pairs_inside([table])}
    assert sorted(found) == [(0, 1), (0, 2), (1, 2)]
    assert (found[0, 2].counts == table.counts.sum(axis=1)).all()
    assert found[0, 2].variance == pytest.approx(3 * table.variance)
    assert found[1, 2].variance == pytest.approx(2 * table.variance)


def test_tables_of_their_own_and_precise_margins_come_first() -> None:
    """A pair with a table of its own has no margin; of several margins the least noisy one counts."""
    tables = [table_of((0, 1), 1.0), table_of((0, 1, 2), 3.0), table_of((1, 2, 3), 3.0)]
    found = {pair.attributes: pair for pair in pairs_inside(tables)}
    assert sorted(found) == [(0, 2), (1, 2), (1, 3), (2, 3)]
    assert found[1, 2].counts.tolist() == tables[1].counts.sum(axis=0).tolist()


def test_tables_of_pairs_have_nothing_inside() -> None:
    """Histograms and pairs are themselves all that they tell."""
    assert pairs_inside([table_of((1,), 2.0), table_of((0, 1), 2.0)]) == []
