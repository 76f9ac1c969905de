"""Pairs that only larger tables count: their margins, with the noise of sums."""

import numpy as np
import pytest

from hdpview.domain.table_shapes import TableShape
from hdpview.view.released_tables import Table, pairs_inside

SIZES = (2, 3, 4, 5)


def table_of(attributes: tuple[int, ...], scale: float) -> Table:
    shape = TableShape.of_codes(attributes, SIZES)
    counts = np.arange(np.prod(shape.shape), dtype=np.int64).reshape(shape.shape)
    return Table(shape, counts, "laplace", scale)


def test_margins_are_sums_with_the_variance_of_sums():
    table = table_of((0, 1, 2), 3.0)
    pairs = {pair.attributes: pair for pair in pairs_inside([table])}
    assert sorted(pairs) == [(0, 1), (0, 2), (1, 2)]
    assert (pairs[0, 2].counts == table.counts.sum(axis=1)).all()
    assert pairs[0, 2].variance == pytest.approx(3 * table.variance)
    assert pairs[1, 2].variance == pytest.approx(2 * table.variance)


def test_tables_of_their_own_and_precise_margins_come_first():
    tables = [table_of((0, 1), 1.0), table_of((0, 1, 2), 3.0), table_of((1, 2, 3), 3.0)]
    pairs = {pair.attributes: pair for pair in pairs_inside(tables)}
    assert sorted(pairs) == [(0, 2), (1, 2), (1, 3), (2, 3)]
    assert pairs[1, 2].counts.tolist() == tables[1].counts.sum(axis=0).tolist()
