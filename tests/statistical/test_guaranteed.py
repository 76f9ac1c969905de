"""Guaranteed intervals hold for any data as often as stated: over fresh noise on simulated tables.

They use a fiftieth of the chance to fail that is asked for, so at 95 % they may miss 0.1 % of the truths. A
false alarm is a miss rate that is above it by chance alone. Each group of questions is asked of N_DRAWS
releases; if the true miss rate were 0.1 %, more than MOST_MISSES of them would miss once in 100,000 times
(binomial tail)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cells import noisy_blocks, random_mixture, view_of
from hdpview.domain import Category, Integer, Real, Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.pview import PView, merge
from hdpview.query.interval.answers import answer
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import code_shares
from hdpview.query.question.where import boxes_of
from hdpview.view.released_tables import Table

N_DRAWS = 200
MOST_MISSES = int(stats.binom.isf(1e-5, N_DRAWS, 0.001))
Ints = NDArray[np.int64]
SCHEMA = Schema(
    [
        Integer(name="age", min=-2, max=5),
        Category(name="region", values=("N", "S", "E")),
        Real(name="dose", min=0.0, max=4.0, bins=4),
    ]
)
WHERES = [
    None, "age < 1", "age >= 2 AND region = 'N'", "region <> 'S' AND dose < 2", "dose < 1.5",
    "age < 0 OR (age >= 0 AND region = 'E')", "age BETWEEN -1 AND 3 AND region IN ('N', 'E') AND dose >= 1",
    "NOT (age = 1 AND region = 'S')",
]  # fmt: skip


def laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> Ints:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    chance = -np.expm1(-1.0 / scale)
    drawn: Ints = rng.geometric(chance, shape) - rng.geometric(chance, shape)
    return drawn


def a_table(rng: np.random.Generator) -> Ints:
    cells: Ints = rng.poisson(40 * rng.random(SCHEMA.sizes) ** 6).astype(np.int64)
    return cells


def block_view(cells: Ints, rng: np.random.Generator, scale: float) -> PView:
    blocks = noisy_blocks(SCHEMA.sizes, int(rng.integers(2**32)), 25, scale)
    ends = zip(blocks.lower, blocks.upper, strict=True)
    exact = np.array([cells[tuple(map(slice, lower, upper))].sum() for lower, upper in ends])
    noisy = exact + laplace(rng, scale, exact.shape)
    return view_of(SCHEMA, replace(blocks, noisy_counts=noisy))


def table_view(cells: Ints, rng: np.random.Generator, scale: float) -> PView:
    """Exact histograms and tables of pairs plus noise, some with several codes in a bin. The mixture is of no
    use: what is guaranteed may not rest on it."""
    tables = []
    for attributes in [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]:
        shape = TableShape.of_codes(attributes, SCHEMA.sizes)
        if attributes == (0, 2):
            shape = TableShape(
                attributes, (np.arange(8, dtype=np.int32) // 3, np.array([0, 1, 1, 0], np.int32))
            )
        exact = np.zeros(shape.shape, np.int64)
        codes = np.indices(SCHEMA.sizes)
        place = tuple(bins[codes[a]] for a, bins in zip(attributes, shape.bin_of_code, strict=True))
        np.add.at(exact, place, cells)
        tables.append(Table(shape, exact + laplace(rng, scale, shape.shape), "laplace", scale))
    return view_of(SCHEMA, random_mixture(SCHEMA.sizes, 1), "mixture", tables=tuple(tables))


def merged_view(cells: Ints, rng: np.random.Generator, scale: float) -> PView:
    half = rng.binomial(cells, 0.5).astype(np.int64)
    return merge([table_view(half, rng, scale), table_view(cells - half, rng, scale)])


def worst_cases(cells: Ints, boxes: Sequence[Box]) -> tuple[float, float]:
    """The least and the greatest that the truth can be: records of a bin that is cut through may lie anywhere
    in it."""
    least, greatest = np.zeros(SCHEMA.sizes), np.zeros(SCHEMA.sizes)
    for box in boxes:
        share = np.ones(SCHEMA.sizes)
        for a, condition in box.items():
            own = code_shares(SCHEMA.attributes[a], condition)
            share = share * own.reshape([-1 if b == a else 1 for b in range(3)])
        least += share == 1
        greatest += share > 0
    return float((cells * least).sum()), float((cells * greatest).sum())


@pytest.mark.parametrize(
    ("make", "scale"),
    [(block_view, 0.4), (block_view, 6.0), (table_view, 0.4), (table_view, 6.0), (merged_view, 6.0)],
)
def test_the_truth_lies_inside_at_least_as_often_as_stated(make, scale):
    rng = np.random.default_rng(17)
    questions = [boxes_of(where, SCHEMA) for where in WHERES]
    missed = np.zeros(len(questions), int)
    for _ in range(N_DRAWS):
        cells = a_table(rng)
        ends = answer(make(cells, rng, scale), questions, 0.95, "raw").guaranteed
        truth = np.array([worst_cases(cells, boxes) for boxes in questions])
        missed += (truth[:, 0] < ends[:, 0] - 1e-9) | (truth[:, 1] > ends[:, 1] + 1e-9)
    assert missed.max() <= MOST_MISSES, missed.tolist()


def test_half_the_noise_would_be_found_out():
    """With noise twice as large as stated, whole counts miss far more often than allowed."""
    rng, missed = np.random.default_rng(18), 0
    for _ in range(N_DRAWS):
        cells = a_table(rng)
        view = table_view(cells, rng, 6.0)
        part = view.parts[0]
        told = tuple(Table(each.shape, each.counts.copy(), each.noise, 2.0) for each in part.tables)
        lying = view_of(SCHEMA, part.components, "mixture", tables=told)
        low, high = lying.count(None, counts="raw").guaranteed
        missed += not low <= cells.sum() <= high
    assert missed > MOST_MISSES
