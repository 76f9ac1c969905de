"""How much a tree tells of one record: the loss of every tree there is, added up along the path that the
record lies on.

Not sampled: on small domains the chance of each decision is known, and the largest loss of all trees follows
    by recursion. What a table
with one record more loses against the one without, and the other way round, must never exceed what was
charged for the tree.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hdpview.methods.calibrated import guide_of
from hdpview.methods.calibrated.forest import exact_dependence
from hdpview.partition.guide import Guide, candidate_cuts, choose_cut, departure, new_guide_work
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_base
from hdpview.audit.tables import sparse
from hdpview.counts.sparse import SparseCounts
from hdpview.domain.tables import TableShape
from hdpview.partition.kernels import compiled
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.grid import grid_for
from hdpview.privacy.randomness import new_stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bounds = tuple[tuple[int, int], ...]
Law = dict[tuple[int, int], float]
ROUNDING = 1e-9
shapes = st.sampled_from([(2,), (5,), (9,), (2, 2), (3, 4), (2, 2, 3)])
seeds = st.integers(0, 2**32 - 1)


def neighbours(shape: tuple[int, ...], seed: int) -> tuple[Ints, Ints, tuple[int, ...]]:
    """A table, the same with a record more, and that record's cell. Crowded, sparse and empty cells beside
    each other.
    """
    rng = np.random.default_rng(seed)
    table = (rng.poisson(rng.choice([0.3, 5, 60]), shape) * rng.integers(0, 2, shape)).astype(np.int64)
    cell = tuple(int(rng.integers(size)) for size in shape)
    table[cell] += int(rng.choice([0, 1, 20, 400]))
    more = table.copy()
    more[cell] += 1
    return table, more, cell


def halves(block: Bounds, a: int, v: int) -> tuple[Bounds, Bounds]:
    low, high = block[a]
    return (*block[:a], (low, v), *block[a + 1 :]), (*block[:a], (v, high), *block[a + 1 :])


def cuts_of(block: Bounds) -> list[tuple[int, int]]:
    return [(a, v) for a, (low, high) in enumerate(block) for v in range(low + 1, high)]


def around(cell: tuple[int, ...], block: Bounds) -> bool:
    return all(low <= code < high for code, (low, high) in zip(cell, block, strict=True))


def inside(table: Ints, block: Bounds) -> Ints:
    return table[tuple(slice(low, high) for low, high in block)]


def deviation(x: Ints) -> float:
    return float(np.abs(x - x.mean()).sum())


def log_chances(table: Ints, block: Bounds, depth: int, numbers: PartitionParameters) -> tuple[float, float]:
    """Logarithms of the chances that a block converges and that it is cut, by their definition."""
    floor = numbers.converge_threshold + 2 - numbers.converge_bias_per_level
    biased = max(floor, deviation(inside(table, block)) - depth * numbers.converge_bias_per_level)
    distance = (numbers.converge_threshold - biased) / numbers.converge_noise_scale
    near, far = math.log(0.5) - abs(distance), math.log1p(-0.5 * math.exp(-abs(distance)))
    return (far, near) if distance >= 0 else (near, far)


def log_law_of_cuts(table: Ints, block: Bounds, depth: int, numbers: PartitionParameters) -> Law:
    """Logarithms of the chances of all cuts, by their definition."""
    cuts = cuts_of(block)
    if depth > numbers.n_private_cut_levels:
        return dict.fromkeys(cuts, 0.0)  # blind, and the same for every table
    size = math.prod(high - low for low, high in block)
    scores = [-sum(deviation(inside(table, half)) for half in halves(block, a, v)) for a, v in cuts]
    weights = float(numbers.epsilon_cut) / (2 * 4 * (1 - 1 / size)) * np.array(scores)
    return dict(zip(cuts, (weights - np.logaddexp.reduce(weights)).tolist(), strict=True))


def loss_of_paper(ours: Ints, theirs: Ints, cell: tuple[int, ...], numbers: PartitionParameters) -> float:
    """The largest logarithm of P(tree | ours) / P(tree | theirs) over all trees. Blocks without the cell say
    nothing.
    """

    @cache
    def below(block: Bounds, depth: int) -> float:
        if all(high - low == 1 for low, high in block):
            return 0.0
        (stop, go), (their_stop, their_go) = (
            log_chances(table, block, depth, numbers) for table in (ours, theirs)
        )
        law, their_law = (log_law_of_cuts(table, block, depth, numbers) for table in (ours, theirs))
        after = max(
            law[cut] - their_law[cut] + below(_half_around(cell, block, cut), depth + 1) for cut in law
        )
        return max(stop - their_stop, go - their_go + after)

    return below(tuple((0, size) for size in ours.shape), 1)


def _half_around(cell: tuple[int, ...], block: Bounds, cut: tuple[int, int]) -> Bounds:
    return next(half for half in halves(block, *cut) if around(cell, half))


@settings(max_examples=60, deadline=None)
@given(shapes, seeds, st.sampled_from(["0.1", "1", "6"]))
def test_no_tree_of_the_papers_method_loses_more_than_was_charged(
    shape: tuple[int, ...], seed: int, epsilon: str
) -> None:
    """In both directions, for all trees: the cuts and the decisions when to stop together stay within their
    part of the budget.
    """
    table, more, cell = neighbours(shape, seed)
    numbers = PartitionParameters.choose(PartitionSettings(), Fraction(epsilon), table.size)
    charged = float(numbers.epsilon_converge + numbers.n_private_cut_levels * numbers.epsilon_cut)
    assert (
        max(loss_of_paper(table, more, cell, numbers), loss_of_paper(more, table, cell, numbers))
        <= charged + ROUNDING
    )


def test_without_a_bias_with_depth_some_tree_loses_more() -> None:
    """The recursion can fail: with a bias of a hundredth of what is due, a path to a crowded cell loses more
    than was charged.
    """
    table = np.eye(1, 14, 7, dtype=np.int64)[0]
    numbers = PartitionParameters.choose(PartitionSettings(partition_share=0.5), Fraction(1), table.size)
    weak = dataclasses.replace(numbers, converge_bias_per_level=numbers.converge_bias_per_level / 100)
    charged = float(numbers.epsilon_converge + numbers.n_private_cut_levels * numbers.epsilon_cut)
    pairs = [(5 * table, 4 * table), (4 * table, 5 * table)]
    right, wrong = (max(loss_of_paper(*pair, (7,), each) for pair in pairs) for each in (numbers, weak))
    assert right <= charged < wrong


@compiled
def _guided(lower, upper, depth, n_levels, total, sums, epsilon, guide):  # type: ignore[no-untyped-def]
    """The cuts that the library considers, and the running sums of their weights as it draws from them."""
    room, key = new_guide_work(guide), np.zeros(8, np.uint32)
    n = candidate_cuts(lower, upper, depth, n_levels, guide, room)
    running = np.empty(n)
    if n > 0:
        choose_cut(lower, total, sums, guide.offsets, n, epsilon, guide, room, key, new_stream(), running)
    return room.cut_attribute[:n].copy(), room.cut_at[:n].copy(), running


def law_of_guided_cuts(
    table: Ints, block: Bounds, depth: int, n_levels: int, epsilon: float, guide: Guide
) -> Law:
    """Logarithms of the chances of all cuts that the library considers; none where the block stays whole."""
    lower, upper = (np.array([bounds[end] for bounds in block], np.int32) for end in (0, 1))
    own = np.zeros_like(table)
    own[tuple(slice(low, high) for low, high in block)] = inside(table, block)
    sums = np.concatenate(
        [own.sum(axis=tuple(b for b in range(own.ndim) if b != a)) for a in range(own.ndim)]
    )
    attribute, at, running = _guided(lower, upper, depth, n_levels, int(own.sum()), sums, epsilon, guide)
    weights = np.diff(running, prepend=0.0)
    with np.errstate(divide="ignore"):
        logs = np.log(weights / weights.sum())
    return dict(zip(zip(attribute.tolist(), at.tolist(), strict=True), logs.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(shapes, seeds, st.integers(1, 6), st.sampled_from([0.05, 0.5, 2.0]))
def test_no_tree_over_a_base_loses_more_than_was_charged(
    shape: tuple[int, ...], seed: int, n_levels: int, epsilon: float
) -> None:
    """In both directions, for all trees: cuts guided by a base lose at most κ·ε_cut; which are considered is
    the same in both tables.
    """
    table, more, cell = neighbours(shape, seed)
    guide = guide_of(random_base(shape, np.random.default_rng(seed)), 0.0, 4, float(table.sum()))

    def loss(ours: Ints, theirs: Ints) -> float:
        @cache
        def below(block: Bounds, depth: int) -> float:
            law, their_law = (
                law_of_guided_cuts(each, block, depth, n_levels, epsilon, guide) for each in (ours, theirs)
            )
            assert list(law) == list(their_law)
            likely = [
                cut for cut in law if min(law[cut], their_law[cut]) > -20
            ]  # rarer ones drown in the rounding of running sums
            losses = [
                law[cut] - their_law[cut] + below(_half_around(cell, block, cut), depth + 1) for cut in likely
            ]
            return max(losses, default=0.0)

        return below(tuple((0, size) for size in shape), 1)

    assert max(loss(table, more), loss(more, table)) <= n_levels * epsilon + 1e-6


counts = (
    st.integers(0, 2**62 // 100)
    | st.integers(0, 10**6)
    | st.integers(0, 62).map(lambda power: 2**power // 100)
)


@settings(max_examples=300, deadline=None)
@given(counts, counts, st.floats(0, 1), st.floats(1, 1e16), st.booleans())
def test_a_record_moves_the_score_of_a_cut_by_one_and_not_a_bit_more(
    left: int, right: int, share: float, total: float, on_the_left: bool
) -> None:
    """Of any number of records that 64 bits hold, whatever the released total was: no rounding is added to
    the sensitivity.
    """
    guide = guide_of(random_base((2,), np.random.default_rng(0)), 0.0, 2, total)
    moved = departure(left + on_the_left, right + (not on_the_left), share, guide) - departure(
        left, right, share, guide
    )
    assert abs(moved) <= 1
    if left + right < 2 * total < 2**41:  # then nothing is held at a bound
        exact = abs(left - (left + right) * Fraction(share))
        assert (
            abs(Fraction(departure(left, right, share, guide)) - exact)
            <= (left + right) / grid_for(total).steps
        )


@pytest.mark.parametrize("largest", [10, 10**6, 2**40, 2**50, 2**55, 2**58])
def test_a_record_moves_the_score_of_a_pair_by_one_and_not_a_bit_more(largest: int) -> None:
    """Likewise for tables of pairs of up to 64 × 64 bins."""
    rng = np.random.default_rng(largest % 97)
    for size, factor in itertools.product((2, 10, 64), (0.1, 1.0, 10.0)):
        table = rng.integers(0, largest, (size, size)) // size**2
        shares, total = (
            [rng.dirichlet(np.ones(size)) for _ in range(2)],
            max(1.0, factor * float(table.sum())),
        )
        before = exact_dependence({(0, 1): table}, shares, total)[0, 1]
        for _ in range(20):
            more = table.copy()
            more[rng.integers(size), rng.integers(size)] += 1
            assert abs(exact_dependence({(0, 1): more}, shares, total)[0, 1] - before) <= 1


def some_tables(sizes: tuple[int, ...], seed: int) -> tuple[SparseCounts, SparseCounts]:
    """A table and the same with a record more, as counts of occupied cells."""
    table, more, _ = neighbours(sizes, seed)
    return sparse(table), sparse(more)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple), seeds)
def test_a_record_is_in_one_cell_of_every_table(sizes: tuple[int, ...], seed: int) -> None:
    """Each histogram and each table of a pair changes by one in one cell: what noise on all of them together
    is paid for.
    """
    ours, theirs = some_tables(sizes, seed)
    bins = list(random_base(sizes, np.random.default_rng(seed)).bin_of_code)
    shapes = [TableShape.of_codes((a,), sizes) for a in range(len(sizes))]
    shapes += [
        TableShape((a, b), (bins[a], bins[b])) for a, b in itertools.combinations(range(len(sizes)), 2)
    ]
    changes = [b - a for a, b in zip(ours.exact_tables(shapes), theirs.exact_tables(shapes), strict=True)]
    assert len(changes) == len(sizes) + math.comb(len(sizes), 2)
    assert all(change.sum() == 1 == np.abs(change).sum() for change in changes)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), seeds, st.sampled_from([0.05, 0.5, 3.0]))
def test_no_choice_of_pairs_loses_more_than_was_charged(n: int, seed: int, epsilon: float) -> None:
    """In both directions, for all orders in which pairs can connect n attributes: n − 1 choices lose (n −
    1)·ε at most.
    """
    rng = np.random.default_rng(seed)
    sizes = tuple(int(size) for size in rng.integers(2, 5, n))
    bins, shares = (
        [np.arange(size, dtype=np.int32) for size in sizes],
        [rng.dirichlet(np.ones(size)) for size in sizes],
    )
    total = float(rng.integers(1, 300))
    pairs = list(itertools.combinations(range(n), 2))
    tables = [TableShape((a, b), (bins[a], bins[b])) for a, b in pairs]
    scores = [
        exact_dependence(dict(zip(pairs, each.exact_tables(tables), strict=True)), shares, total)
        for each in some_tables(sizes, seed)
    ]

    def log_law(of_table: dict[tuple[int, int], float], pairs: list[tuple[int, int]]) -> Floats:
        weights = epsilon / 2 * np.array([of_table[pair] for pair in pairs])
        law: Floats = weights - np.logaddexp.reduce(weights)
        return law

    def loss(
        ours: dict[tuple[int, int], float], theirs: dict[tuple[int, int], float], part: tuple[int, ...]
    ) -> float:
        pairs = [(a, b) for a, b in ours if part[a] != part[b]]
        if not pairs:
            return 0.0
        joined = [tuple(part[a] if each == part[b] else each for each in part) for a, b in pairs]
        each_loss = log_law(ours, pairs) - log_law(theirs, pairs)
        return max(
            lost + loss(ours, theirs, after) for lost, after in zip(each_loss.tolist(), joined, strict=True)
        )

    apart = tuple(range(n))
    assert max(loss(*scores, apart), loss(*scores[::-1], apart)) <= (n - 1) * epsilon + ROUNDING
