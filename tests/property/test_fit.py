"""Fitted counts, against a solver of SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dense import Floats, inside, schema_of, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from cells import cell_masses, noisy_view, random_base
from hdpview.methods.calibrated import guide_of
from hdpview.methods.calibrated.fit import Measured, fitted_counts
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks


def measured(base: Base, rng: np.random.Generator) -> Measured:
    """Noisy counts over the bins of a base, about right, and the variances of their noise."""

    def noisy(shares: Floats) -> tuple[Floats, Floats]:
        return 300 * shares + rng.normal(0, 6, shares.shape), rng.random(shares.shape) * 400 + 20

    of_bins = [np.bincount(of_code, base.marginal(a)) for a, of_code in enumerate(base.bin_of_code)]
    tables = {
        a: of_bins[parent][:, None] * base.table[a] for a, parent in enumerate(base.parent) if parent >= 0
    }
    return Measured([noisy(shares) for shares in of_bins], {a: noisy(table) for a, table in tables.items()})


def equations(blocks: Blocks, variance: float, base: Base, given: Measured) -> tuple[Floats, Floats]:
    """The least-squares problem written out: rows and right sides divided by standard deviations, blocks
    spread cell by cell.
    """
    masses = cell_masses(base)
    rows, values = [np.eye(len(blocks)) / math.sqrt(variance)], [blocks.noisy_counts / math.sqrt(variance)]
    indicator = [np.eye(base.n_bins[a])[base.bin_of_code[a]] for a in range(len(base.parent))]  # codes × bins
    parts = []
    for low, high in zip(blocks.lower, blocks.upper, strict=True):
        here = np.zeros(base.sizes)
        here[inside(low, high)] = masses[inside(low, high)]
        parts.append(here / here.sum())
    listed: list[tuple[tuple[int, ...], tuple[Floats, Floats]]] = [
        ((a,), found) for a, found in enumerate(given.histograms)
    ]
    listed += [((base.parent[a], a), found) for a, found in given.tables.items()]
    for attributes, (noisy, of_noise) in listed:
        columns = []
        for part in parts:
            others = tuple(b for b in range(len(base.parent)) if b not in attributes)
            table = part.sum(axis=others).transpose(np.argsort(np.argsort(attributes)))
            for axis, a in enumerate(attributes):
                table = np.moveaxis(np.tensordot(table, indicator[a], (axis, 0)), -1, axis)
            columns.append(table.reshape(-1))
        deviation = np.sqrt(of_noise).reshape(-1)
        rows.append(np.array(columns).T / deviation[:, None])
        values.append(noisy.reshape(-1) / deviation)
    return np.concatenate(rows), np.concatenate(values)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple), seeds, st.sampled_from([1.0, 5.0, 20.0])
)
def test_fitted_counts_are_those_of_a_solver(sizes: tuple[int, ...], seed: int, variance: float) -> None:
    """Never negative, and within a thousandth of the least sum of squares that SciPy finds for the problem
    written out cell by cell.

    Blocks are measured at least as well as bins, as in every build: the rounds of the fit are enough for
        that.
    """
    rng = np.random.default_rng(seed)
    base, view = random_base(sizes, rng), noisy_view(schema_of(sizes), seed, 8)
    blocks, found_before = view.blocks, measured(base, rng)
    fitted = fitted_counts(blocks, variance, guide_of(base, 0.0, 4), found_before)
    assert fitted.shape == (len(blocks),)
    assert (fitted >= 0).all()
    rows, values = equations(blocks, variance, base, found_before)
    best: Any = lsq_linear(rows, values, (0, np.inf), tol=1e-12)
    least = float(((rows @ best.x - values) ** 2).sum())
    assert float(((rows @ fitted - values) ** 2).sum()) <= least * 1.001 + 1e-3
