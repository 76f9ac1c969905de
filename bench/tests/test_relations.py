"""Relations and populated cells, against arithmetic by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Category, Integer, Schema
from hdpview.privacy.exact import unprotected
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.extremes import EXTREMES, N_ROWS
from hdpview_bench.questions import populated_cells, random_cells, random_ranges
from hdpview_bench.relations import exact_relations, relation_errors


def three_attributes() -> SparseCounts:
    schema = Schema(
        [
            Integer(name="a", min=0, max=3),
            Integer(name="b", min=0, max=9),
            Category(name="c", values=("x", "y", "z")),
        ]
    )
    cells = [[a, 2 * a + low, (a + low) % 3] for a in range(4) for low in (0, 1)]
    counts = [300, 100, 200, 200, 100, 300, 20, 30]
    return SparseCounts(schema, np.array(cells, np.uint8), np.array(counts, np.int64))


@dataclass(frozen=True)
class Altered:
    """The true table with each group's mean of b pulled to the mean of all by a factor."""

    counts: SparseCounts
    keep: float

    def marginal(self, attributes: Sequence[int]) -> NDArray[np.float64]:
        sizes = tuple(self.counts.schema.sizes[a] for a in attributes)
        table = np.zeros(sizes)
        np.add.at(table, tuple(self.counts.exact_codes[:, a] for a in attributes), self.counts.exact_counts)
        flat = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        return self.keep * table + (1 - self.keep) * flat


def test_relations_are_those_with_an_order_and_enough_records():
    relations = exact_relations(three_attributes())
    assert {relation.value for relation in relations} == {0, 1}
    by_a = next(relation for relation in relations if (relation.group, relation.value) == (0, 1))
    assert by_a.codes.tolist() == [0, 1, 2]
    assert by_a.exact_means == pytest.approx([0.25, 2.5, 4.75])
    assert by_a.exact_records.tolist() == [400, 400, 400]


@pytest.mark.parametrize("keep", [0.0, 0.25, 1.0])
def test_slopes_are_what_is_left_of_a_relation(keep):
    """Group means pulled to the middle by a factor have that slope, and lose its complement squared."""
    counts = three_attributes()
    errors = relation_errors(Altered(counts, keep), exact_relations(counts))
    assert errors.slope_median == pytest.approx(keep)
    assert errors.slopes_above_half == (keep > 0.5)
    # The small group pulls the middle of all a little away from that of the groups that count.
    assert errors.variance_recovered_median == pytest.approx(1 - (1 - keep) ** 2, abs=0.02)


def test_tables_without_relations_have_none():
    counts = dataset_counts("uniform", None)
    assert relation_errors(Altered(counts, 1.0), exact_relations(counts)) is None


@pytest.mark.parametrize("k", [1, 2, 4])
def test_populated_cells_hold_the_record_they_were_drawn_at(k):
    counts = dataset_counts("heavy-tails", None)
    boxes = populated_cells(counts, k, 500, np.random.default_rng(1))
    truth = unprotected(counts.exact_box_counts(boxes))
    assert truth.min() >= 1
    assert all(len(set(row)) == k for row in boxes.attribute.tolist())
    order = np.random.default_rng(2).permutation(len(counts.exact_counts))
    shuffled = SparseCounts(counts.schema, counts.exact_codes[order], counts.exact_counts[order])
    again = populated_cells(shuffled, k, 500, np.random.default_rng(1))
    assert (again.lower == boxes.lower).all()


def test_ranges_and_cells_lie_inside_the_domain():
    sizes = (7, 2, 30, 4)
    for draw in (random_ranges, random_cells):
        boxes = draw(sizes, 3, 400, np.random.default_rng(0))
        assert (boxes.lower >= 0).all()
        assert (boxes.lower < boxes.upper).all()
        assert (boxes.upper <= np.array(sizes)[boxes.attribute]).all()
        assert set(boxes.attribute.ravel().tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_tables_are_the_same_in_every_run(name):
    counts = dataset_counts(name, None)
    assert counts.exact_counts.sum() == N_ROWS
    assert (dataset_counts(name, None).exact_codes == counts.exact_codes).all()
    part = dataset_counts(f"{name}#1000@2", None)
    assert (part.exact_counts.sum(), part.exact_codes.shape[1]) == (1000, 2)
