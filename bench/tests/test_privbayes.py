"""PrivBayes: candidates, the score and its sensitivity, and what it releases with a budget that leaves no
noise.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods.protocol import release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.privbayes import Privbayes
from hdpview_bench.rivals.privbayes.candidates import n_levels, parent_sets, size_at
from hdpview_bench.rivals.privbayes.network import (
    SCORE_SENSITIVITY,
    ExactTables,
    Node,
    choose_network,
    dependence,
)
from hdpview_bench.rivals.privbayes.synthesis import best_total, conditional, synthesise
from hdpview_bench.workloads import WORKLOADS, draw

KEY = Randomness.from_test_key(b"privbayes")


def counts_from(codes: NDArray[np.int64], sizes: tuple[int, ...]) -> SparseCounts:
    """Occupied cells of records given by their codes, shape (n, d)."""
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])
    return SparseCounts(schema, cells.astype(np.uint8), counts.astype(np.int64))


def chain(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Records whose attributes depend each on the one before: 4, 3, 5 and 2 values."""
    first = rng.integers(0, 4, n)
    second = np.where(rng.random(n) < 0.8, first % 3, rng.integers(0, 3, n))
    third = np.where(rng.random(n) < 0.7, second * 2, rng.integers(0, 5, n))
    return np.stack([first, second, third, (rng.random(n) < 0.1 + 0.2 * third).astype(np.int64)], axis=1)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_one_record_changes_the_score_by_less_than_its_sensitivity(
    rows: int, columns: int, data: st.DataObject
) -> None:
    """For any table and any place of the new record, the first one included."""
    cells = data.draw(
        st.lists(st.sampled_from([0, 0, 1, 3, 50]), min_size=rows * columns, max_size=rows * columns)
    )
    table = np.array(cells, dtype=np.float64).reshape(rows, columns)
    more = table.copy()
    more[data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))] += 1
    assert abs(dependence(more) - dependence(table)) < SCORE_SENSITIVITY


def test_the_sensitivity_is_no_larger_than_it_must_be() -> None:
    """A first record in its row and its column, beside many independent ones, moves the score by nearly 2."""
    table = np.pad(np.full((9, 9), 1000.0), (0, 1))
    more = table.copy()
    more[9, 9] = 1
    assert dependence(more) - dependence(table) > 0.99 * SCORE_SENSITIVITY


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 3))
def test_parent_sets_are_exactly_the_maximal_ones(
    sizes: list[int], most_cells: int, most_parents: int
) -> None:
    """Against all choices of a level, or of absence, for every attribute: kept if affordable and no
    affordable one is finer.
    """
    options = [[None, *range(n_levels(size))] if size > 1 else [None] for size in sizes]

    def is_affordable(levels: tuple[int | None, ...]) -> bool:
        used = [size_at(size, level) for size, level in zip(sizes, levels, strict=True) if level is not None]
        return math.prod(used) <= most_cells and len(used) <= most_parents

    def is_finer(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
        """Whether `one` tells at least as much as `other` of each attribute, and is not the same."""
        return one != other and all(
            b is None or (a is not None and a <= b) for a, b in zip(one, other, strict=True)
        )

    affordable = [levels for levels in itertools.product(*options) if is_affordable(levels)]
    maximal = {levels for levels in affordable if not any(is_finer(other, levels) for other in affordable)}
    found = {
        tuple(dict(parents).get(a) for a in range(len(sizes)))
        for parents in parent_sets(sizes, range(len(sizes)), most_cells, most_parents)
    }
    assert found == maximal


def test_joint_counts_agree_with_records_one_by_one() -> None:
    """A table of a child and parents, one of them coarser, counts what a loop over records counts."""
    sizes = (4, 3, 5, 2)
    codes = chain(500, np.random.default_rng(1))
    counts = counts_from(codes, sizes)
    joint = ExactTables(counts.exact_codes, counts.exact_counts, sizes).exact_joint(Node(1, ((2, 1), (3, 0))))
    expected = np.zeros((3, 2, 3), dtype=np.int64)
    for _, second, third, fourth in codes:
        expected[third >> 1, fourth, second] += 1
    np.testing.assert_array_equal(joint, expected.reshape(6, 3))


def test_choices_follow_the_exponential_mechanism() -> None:
    """With three attributes and single parents, each second attribute is drawn in proportion to exp(ε·R/4),
    to 5 standard errors.
    """
    sizes, epsilon = (2, 2, 2), 0.2
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 60)
    codes = np.stack(
        [first, np.where(rng.random(60) < 0.9, first, 1 - first), rng.integers(0, 2, 60)], axis=1
    )
    counts = counts_from(codes, sizes)
    tables = ExactTables(counts.exact_codes, counts.exact_counts, sizes)
    weight = {
        (c, p): math.exp(epsilon * tables.exact_score(Node(c, ((p, 0),))) / 4)
        for c in range(3)
        for p in range(3)
        if c != p
    }
    n_runs, n_first = 4000, dict.fromkeys(range(3), 0)
    n_second: dict[tuple[int, int, int], int] = dict.fromkeys(itertools.permutations(range(3)), 0)
    for i in range(n_runs):
        order = [
            node.child for node in choose_network(tables, 4, epsilon, Randomness.from_test_key(b"%d" % i))
        ]
        n_first[order[0]] += 1
        n_second[order[0], order[1], order[2]] += 1
    for (root, second, third), n in n_second.items():
        chance = weight[second, root] / (weight[second, root] + weight[third, root])
        error = math.sqrt(chance * (1 - chance) / n_first[root])
        assert abs(n / n_first[root] - chance) < 5 * error


def test_with_a_large_budget_the_release_is_its_network_without_noise() -> None:
    """Tables of the chosen network are met: all marginals agree with the table where the network holds every
    dependence.
    """
    sizes = (4, 3, 5, 2)
    codes = chain(20_000, np.random.default_rng(3))
    counts = counts_from(codes, sizes)
    release, _ = release_with(Privbayes(), counts, Fraction(10_000), KEY, LocalEngine(1))
    for attributes in itertools.combinations(range(4), 2):
        exact = np.zeros([sizes[a] for a in attributes])
        np.add.at(exact, tuple(codes[:, a] for a in attributes), 1)
        np.testing.assert_allclose(release.marginal(attributes), exact, atol=25)


def test_a_network_of_one_parent_each_gives_what_its_factors_give() -> None:
    """Records follow the product of conditionals, written out over all cells: to one record for the first
    attribute, to chance for all.
    """
    rng = np.random.default_rng(4)
    sizes, n = (3, 4, 2), 50_000
    network = [Node(1, ()), Node(0, ((1, 1),)), Node(2, ((0, 0),))]
    tables = [
        rng.dirichlet(np.ones(sizes[node.child]), rows) for node, rows in zip(network, (1, 2, 3), strict=True)
    ]
    codes = synthesise(network, tables, sizes, n, rng)
    found = np.zeros(sizes)
    np.add.at(found, tuple(codes.astype(np.int64)), 1)
    expected = np.zeros(sizes)
    for cell in itertools.product(*map(range, sizes)):
        expected[cell] = (
            n * tables[0][0, cell[1]] * tables[1][cell[1] >> 1, cell[0]] * tables[2][cell[0], cell[2]]
        )
    np.testing.assert_allclose(found.sum(axis=(0, 2)), expected.sum(axis=(0, 2)), atol=1.01)
    np.testing.assert_allclose(found.sum(axis=(1, 2)), expected.sum(axis=(1, 2)), atol=5)
    np.testing.assert_allclose(found, expected, atol=5 * math.sqrt(n) / 2)


def test_conditionals_are_distributions_even_where_nothing_was_counted() -> None:
    """Rows sum to 1 and none is negative; a row without records is like all rows together; so is a table of
    noise below 0.
    """
    table = conditional(np.array([[10, -3, 30], [0, -5, -1], [0, 0, 20]]), 60.0)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(table[1], [1 / 6, 0, 5 / 6])
    np.testing.assert_allclose(conditional(np.array([[-5, -5]]), 1.0), [[0.5, 0.5]])


def test_the_total_is_the_most_precise_mean() -> None:
    """Totals are weighted by one over their variance: 2 for the count itself, 3 per cell of a table."""
    assert best_total(100.0, [np.array([60, 52])], 2.0, 3.0) == pytest.approx(
        (100 / 2 + 112 / 6) / (1 / 2 + 1 / 6)
    )
    assert best_total(-5.0, [], 2.0, 3.0) == 1.0


def test_boxes_and_marginals_agree() -> None:
    """A box's answer is the sum of its cells, for every workload."""
    sizes = (4, 3, 5, 2)
    counts = counts_from(chain(3_000, np.random.default_rng(5)), sizes)
    release, charges = release_with(Privbayes(), counts, Fraction(1), KEY, LocalEngine(1))
    assert sum(charge.total for charge in charges) == 1
    for workload in WORKLOADS:
        boxes = draw(workload, sizes, 8, np.random.default_rng(6))
        assert boxes is not None
        for answer, attribute, lower, upper in zip(
            release.answer(boxes), boxes.attribute, boxes.lower, boxes.upper, strict=True
        ):
            inside = tuple(slice(low, high) for low, high in zip(lower, upper, strict=True))
            assert answer == pytest.approx(release.marginal(attribute.tolist())[inside].sum())
