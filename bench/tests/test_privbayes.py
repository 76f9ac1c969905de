"""PrivBayes: candidates, sensitivity and law of choices, and releases without noise."""

import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dense import counts_of, released, tensor_of
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


def chain(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Records whose attributes depend each on the one before: 4, 3, 5 and 2 values."""
    first = rng.integers(0, 4, n)
    second = np.where(rng.random(n) < 0.8, first % 3, rng.integers(0, 3, n))
    third = np.where(rng.random(n) < 0.7, second * 2, rng.integers(0, 5, n))
    return np.stack([first, second, third, (rng.random(n) < 0.1 + 0.2 * third).astype(np.int64)], axis=1)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_one_record_changes_the_score_by_less_than_its_sensitivity(rows, columns, data):
    """For any table, and wherever the new record falls."""
    cells = data.draw(
        st.lists(st.sampled_from([0, 0, 1, 3, 50]), min_size=rows * columns, max_size=rows * columns)
    )
    table = np.array(cells, dtype=np.float64).reshape(rows, columns)
    more = table.copy()
    more[data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))] += 1
    assert abs(dependence(more) - dependence(table)) < SCORE_SENSITIVITY


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 3))
def test_parent_sets_are_exactly_the_maximal_ones(sizes, most_cells, most_parents):
    options = [[None, *range(n_levels(size))] if size > 1 else [None] for size in sizes]

    def is_affordable(levels: tuple[int | None, ...]) -> bool:
        used = [size_at(size, level) for size, level in zip(sizes, levels, strict=True) if level is not None]
        return math.prod(used) <= most_cells and len(used) <= most_parents

    def is_finer(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
        """Whether `one` is at least as fine as `other` in each attribute, and not equal."""
        return one != other and all(
            b is None or (a is not None and a <= b) for a, b in zip(one, other, strict=True)
        )

    affordable = [levels for levels in itertools.product(*options) if is_affordable(levels)]
    maximal = {levels for levels in affordable if not any(is_finer(other, levels) for other in affordable)}
    maximal_sets = {
        tuple(dict(parents).get(a) for a in range(len(sizes)))
        for parents in parent_sets(sizes, range(len(sizes)), most_cells, most_parents)
    }
    assert maximal_sets == maximal


def test_choices_follow_the_exponential_mechanism():
    """In proportion to exp(ε·R/4), to 5 standard errors."""
    sizes, epsilon = (2, 2, 2), 0.2
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 60)
    codes = np.stack(
        [first, np.where(rng.random(60) < 0.9, first, 1 - first), rng.integers(0, 2, 60)], axis=1
    )
    counts = counts_of(tensor_of(codes, sizes))
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


def test_with_a_large_budget_the_release_is_its_network_without_noise():
    sizes = (4, 3, 5, 2)
    codes = chain(20_000, np.random.default_rng(3))
    release, _ = released(Privbayes(), tensor_of(codes, sizes), 10_000, b"privbayes")
    for attributes in itertools.combinations(range(4), 2):
        exact = tensor_of(codes[:, attributes], tuple(sizes[a] for a in attributes))
        np.testing.assert_allclose(release.marginal(attributes), exact, atol=25)
