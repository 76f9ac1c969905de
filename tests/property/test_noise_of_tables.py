"""Noise in intervals is that of the best estimate: an oracle by generalised least squares."""

from dataclasses import replace
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_mixture
from hdpview.domain.table_shapes import TableShape
from hdpview.query.errors import closed, kernels
from hdpview.query.question.batch import Batch, Functions
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.quality import prior_quality
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]


def table_of(attributes: tuple[int, ...], components: Mixture, scale: float) -> Table:
    sizes = components.sizes
    shape = TableShape(attributes, tuple(np.arange(sizes[a], dtype=np.int32) for a in attributes))
    fitted = components.grid(attributes, components.weight).reshape(shape.shape)
    return Table(shape, np.rint(fitted).astype(np.int64), "gaussian", scale)


def batch_of(values: list[list[Floats]]) -> Batch:
    number, attribute = np.indices((len(values), len(values[0])))
    functions = {a: Functions(np.stack(own)) for a, own in enumerate(zip(*values, strict=True))}
    return Batch(len(values), number[:, 0], attribute, number, functions)


def by_least_squares(tables: list[Table], sizes: tuple[int, ...], left: Floats, right: Floats) -> float:
    """The covariance of the best unbiased estimates of two sums over cells."""
    cells = list(product(*map(range, sizes)))
    precision = np.zeros((len(cells), len(cells)))
    for table in tables:
        inside = np.zeros((*table.counts.shape, len(cells)))
        for number, cell in enumerate(cells):
            inside[(*(cell[a] for a in table.attributes), number)] = 1.0
        flat = inside.reshape(-1, len(cells))
        precision += flat.T @ flat / table.variance
    return float(left.reshape(-1) @ np.linalg.solve(precision, right.reshape(-1)))


@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2)])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_noise_is_that_of_the_best_estimate(sizes, seed):
    rng = np.random.default_rng(seed)
    every = tuple(range(len(sizes)))
    attributes = [(a,) for a in every] + ([every] if len(sizes) > 1 else [])
    components = random_mixture(sizes, seed % 1000)
    tables = [table_of(own, components, float(rng.uniform(1, 20))) for own in attributes]
    part = ViewPart(components, prior_quality(components), tuple(tables))
    functions = [[rng.normal(size=size) for size in sizes] for _ in range(2)]
    sums = [reduce(np.multiply.outer, own) for own in functions]
    variances = {
        own: tables[-1].variance * np.prod([sizes[a] for a in every if a not in own])
        for n in (2, 3)
        for own in combinations(every, n)
    }
    # As if the fit were perfect, and kept all that tables say.
    model = kernels.error_model(part)
    pieces = {own: piece._replace(noise=variances[own], kept=1.0) for own, piece in model.pieces.items()}
    kept = tuple(tuple(map(np.ones_like, own)) for own in model.kept)
    model = replace(model, pieces=pieces, kept=kept)
    terms = closed._read(model, batch_of(functions))
    for i, j in ((0, 0), (0, 1)):
        noise = closed._of_terms(model, terms, np.array([i]), np.array([j]))[0, 0]
        assert noise == pytest.approx(by_least_squares(tables, sizes, sums[i], sums[j]), rel=1e-6, abs=1e-6)


def test_misfit_of_a_histogram_or_a_table_counts_as_noise():
    components = random_mixture((4, 5), 3)
    tables = [table_of(own, components, 2.0) for own in ((0,), (1,), (0, 1))]
    step = np.array([1, -1, 1, -1])
    moves = (50 * step, 0, 40 * np.outer(step, [1, -1, 0, -1, 1]))
    moved = [Table(t.shape, t.counts + move, "gaussian", 2.0) for t, move in zip(tables, moves, strict=True)]

    def model_of(*own):
        return kernels.error_model(ViewPart(components, prior_quality(components), own))

    assert model_of(tables[0]).code_variance[0] == pytest.approx(4.0)
    assert 2_400 < model_of(moved[0]).code_variance[0] < 2_600
    assert model_of(*tables).pieces[0, 1].noise < 6.0
    assert model_of(*tables[:2], moved[2]).pieces[0, 1].noise > 400.0
