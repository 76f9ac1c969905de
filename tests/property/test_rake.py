"""The base moved to agree with histograms: against distributions written out cell by cell."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
from dense import FEW, Floats, all_but, domains, schema_of, seeds
from hypothesis import given

from cells import based_view, cell_counts, cell_masses, random_base
from hdpview.methods.calibrated import guide_of
from hdpview.methods.calibrated.rake import _multiplied, raked, told_by_blocks
from hdpview.methods.calibrated.smooth import certain_departures
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

as_guide = partial(guide_of, least_share=0.0, n_quantiles=4)


def blocks_over_base(sizes: tuple[int, ...], seed: int) -> tuple[Blocks, Base, Floats]:
    """Blocks over a base, and counts of theirs."""
    blocks = based_view(schema_of(sizes), seed).blocks
    assert isinstance(blocks.base, Base)
    return blocks, blocks.base, np.random.default_rng(seed).random(len(blocks)) * 200


def histograms_of(cells: Floats) -> list[Floats]:
    return [cells.sum(axis=all_but(a, cells.ndim)) for a in range(cells.ndim)]


@FEW
@given(domains, seeds)
def test_histograms_told_by_blocks_are_sums_over_cells(sizes: tuple[int, ...], seed: int) -> None:
    """Every block's count, spread cell by cell as the base says, added up per value."""
    blocks, base, counts = blocks_over_base(sizes, seed)
    for told, wanted in zip(
        told_by_blocks(blocks, counts, as_guide(base), sizes),
        histograms_of(cell_counts(blocks, counts)),
        strict=True,
    ):
        assert told == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@FEW
@given(domains, seeds)
def test_factors_multiply_the_mass_of_every_cell(sizes: tuple[int, ...], seed: int) -> None:
    """P(cell) times the factors of its codes, divided by the sum of all: a forest again, over the same
    bins.
    """
    rng = np.random.default_rng(seed)
    base = random_base(sizes, rng)
    factors = [np.exp(rng.normal(0, 1, size)) for size in sizes]
    wanted = cell_masses(base)
    for a, factor in enumerate(factors):
        wanted = wanted * factor.reshape([-1 if b == a else 1 for b in range(len(sizes))])
    assert cell_masses(_multiplied(base, factors)) == pytest.approx(
        wanted / wanted.sum(), rel=1e-6, abs=1e-12
    )


@FEW
@given(domains, seeds)
def test_a_base_that_agrees_but_for_noise_stays(sizes: tuple[int, ...], seed: int) -> None:
    """Histograms within two standard deviations of what the view tells move nothing at all."""
    blocks, base, counts = blocks_over_base(sizes, seed)
    rng = np.random.default_rng(seed)
    told = told_by_blocks(blocks, counts, as_guide(base), sizes)
    noisy = [of_view + rng.uniform(-2, 2, len(of_view)) * 7.0 / len(of_view) for of_view in told]
    assert raked(base, blocks, counts, noisy, 49.0, as_guide) is base


def gap(blocks: Blocks, base: Base, counts: Floats, wanted: list[Floats]) -> float:
    told = histograms_of(cell_counts(dataclasses.replace(blocks, base=base), counts))
    return sum(float(((x - y) ** 2).sum()) for x, y in zip(told, wanted, strict=True))


@FEW
@given(domains, seeds)
def test_a_base_never_moves_away_from_histograms_without_noise(sizes: tuple[int, ...], seed: int) -> None:
    """Released histograms are those of the same blocks over another base: the view's come no further off
    them, and all stays positive.
    """
    blocks, base, counts = blocks_over_base(sizes, seed)
    other = random_base(sizes, np.random.default_rng(seed + 1))
    wanted = histograms_of(cell_counts(dataclasses.replace(blocks, base=other), counts))
    moved = raked(base, blocks, counts, wanted, 1e-12, as_guide)
    assert gap(blocks, moved, counts, wanted) <= gap(blocks, base, counts, wanted) + 1e-9 * counts.sum() ** 2
    assert cell_masses(moved).min() > 0


def test_a_base_comes_near_histograms_without_noise() -> None:
    """Of 100 such tables, half come ten times nearer (squared) and nine in ten twice as near."""
    left = []
    for seed in range(100):
        sizes = tuple(np.random.default_rng(seed).integers(2, 7, 3).tolist())
        blocks, base, counts = blocks_over_base(sizes, seed)
        other = random_base(sizes, np.random.default_rng(seed + 1))
        wanted = histograms_of(cell_counts(dataclasses.replace(blocks, base=other), counts))
        left.append(
            gap(blocks, raked(base, blocks, counts, wanted, 1e-12, as_guide), counts, wanted)
            / gap(blocks, base, counts, wanted)
        )
    assert np.quantile(left, 0.5) < 0.1
    assert np.quantile(left, 0.9) < 0.5


def test_attributes_that_say_the_same_do_not_overshoot() -> None:
    """Three copies of one attribute: a factor on each is its cube on all, which by itself would move the base
    further off than it was.
    """
    copy = np.array([[0.999, 0.001], [0.001, 0.999]])
    first, codes, ones = np.array([[0.1, 0.9]]), np.arange(2, dtype=np.int32), np.ones(2)
    base = Base((codes,) * 3, (ones,) * 3, (-1, 0, 1), (first, copy, copy))
    count = np.array([1000.0])
    blocks = Blocks(
        np.zeros((1, 3), np.int32), np.full((1, 3), 2, np.int32), count, np.zeros(1, np.int32), base=base
    )
    wanted = [np.array([200.0, 800.0])] * 3
    far = gap(blocks, base, count, wanted)
    assert gap(blocks, _multiplied(base, [np.array([2.0, 8 / 9])] * 3), count, wanted) > 2 * far
    assert gap(blocks, raked(base, blocks, count, wanted, 1e-12, as_guide), count, wanted) < 0.3 * far


def test_noise_alone_is_seldom_certain() -> None:
    """Of 4,000 histograms of normal noise over 16 codes, contrasts beyond three deviations are left of fewer
    than 1 in 20 (expected: 4 %).

    A step of ten deviations between the two halves comes through to nine tenths.
    """
    rng = np.random.default_rng(1)
    moved = sum(bool(certain_departures(rng.normal(0, 5, 16), 25.0).any()) for _ in range(4000))
    assert 0.03 < moved / 4000 < 0.05
    step = np.repeat([1.0, -1.0], 8) * 10 * 5 / np.sqrt(16)
    found = certain_departures(step, 25.0)
    assert found == pytest.approx(0.91 * step)
    assert found.sum() == pytest.approx(0)
