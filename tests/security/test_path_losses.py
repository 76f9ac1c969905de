"""How much a tree tells of one record: the loss of every tree there is, added up along the path that the
record lies on.

Not sampled: on small domains the chance of each decision is known, and the largest loss of all trees follows
    by recursion. What a table
with one record more loses against the one without, and the other way round, must never exceed what was
charged for the tree."""

import dataclasses
import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_mixture
from hdpview.counts.sparse import SparseCounts
from hdpview.domain.table_shapes import TableShape
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.exact import unprotected
from hdpview_bench.audit.tables import sparse

Ints = NDArray[np.int64]
Bounds = tuple[tuple[int, int], ...]
Law = dict[tuple[int, int], float]
ROUNDING = 1e-9
shapes = st.sampled_from([(2,), (5,), (9,), (2, 2), (3, 4), (2, 2, 3)])
seeds = st.integers(0, 2**32 - 1)


def neighbours(shape: tuple[int, ...], seed: int) -> tuple[Ints, Ints, tuple[int, ...]]:
    """A table, the same with a record more, and that record's cell. Crowded, sparse and empty cells beside
    each other."""
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
    floor = numbers.converge_threshold + 2 - numbers.converge_bias_per_level
    biased = max(floor, deviation(inside(table, block)) - depth * numbers.converge_bias_per_level)
    distance = (numbers.converge_threshold - biased) / numbers.converge_noise_scale
    near, far = math.log(0.5) - abs(distance), math.log1p(-0.5 * math.exp(-abs(distance)))
    return (far, near) if distance >= 0 else (near, far)


def log_law_of_cuts(table: Ints, block: Bounds, depth: int, numbers: PartitionParameters) -> Law:
    cuts = cuts_of(block)
    if depth > numbers.n_private_cut_levels:
        return dict.fromkeys(cuts, 0.0)  # blind, and the same for every table
    size = math.prod(high - low for low, high in block)
    scores = [-sum(deviation(inside(table, half)) for half in halves(block, a, v)) for a, v in cuts]
    weights = float(numbers.epsilon_cut) / (2 * 4 * (1 - 1 / size)) * np.array(scores)
    return dict(zip(cuts, (weights - np.logaddexp.reduce(weights)).tolist(), strict=True))


def loss_of_paper(ours: Ints, theirs: Ints, cell: tuple[int, ...], numbers: PartitionParameters) -> float:
    """The largest logarithm of P(tree | ours) / P(tree | theirs) over all trees. Blocks without the cell say
    nothing."""

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
def test_no_tree_of_the_papers_method_loses_more_than_was_charged(shape, seed, epsilon):
    table, more, cell = neighbours(shape, seed)
    numbers = PartitionParameters.choose(PartitionSettings(), Fraction(epsilon), table.size)
    charged = float(numbers.epsilon_converge + numbers.n_private_cut_levels * numbers.epsilon_cut)
    assert (
        max(loss_of_paper(table, more, cell, numbers), loss_of_paper(more, table, cell, numbers))
        <= charged + ROUNDING
    )


def test_without_a_bias_with_depth_some_tree_loses_more():
    """With a hundredth of the due bias, the path to a crowded cell loses more than was charged."""
    table = np.eye(1, 14, 7, dtype=np.int64)[0]
    numbers = PartitionParameters.choose(PartitionSettings(partition_share=0.5), Fraction(1), table.size)
    weak = dataclasses.replace(numbers, converge_bias_per_level=numbers.converge_bias_per_level / 100)
    charged = float(numbers.epsilon_converge + numbers.n_private_cut_levels * numbers.epsilon_cut)
    pairs = [(5 * table, 4 * table), (4 * table, 5 * table)]
    right, wrong = (max(loss_of_paper(*pair, (7,), each) for pair in pairs) for each in (numbers, weak))
    assert right <= charged < wrong


def some_tables(sizes: tuple[int, ...], seed: int) -> tuple[SparseCounts, SparseCounts]:
    table, more, _ = neighbours(sizes, seed)
    return sparse(table), sparse(more)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4).map(tuple), seeds)
def test_a_record_is_in_one_cell_of_every_table(sizes, seed):
    ours, theirs = some_tables(sizes, seed)
    bins = random_mixture(sizes, seed).bin_of_code
    shapes = [TableShape.of_codes((a,), sizes) for a in range(len(sizes))]
    shapes += [
        TableShape((a, b), (bins[a], bins[b])) for a, b in itertools.combinations(range(len(sizes)), 2)
    ]
    tables = [[unprotected(table) for table in one.exact_tables(shapes)] for one in (ours, theirs)]
    changes = [b - a for a, b in zip(*tables, strict=True)]
    assert len(changes) == len(sizes) + math.comb(len(sizes), 2)
    assert all(change.sum() == 1 == np.abs(change).sum() for change in changes)
