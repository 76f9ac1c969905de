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


@pytest.mark.parametrize("sizes", [(5,), (3, 4)])
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
    # As if the fit were perfect, and kept all that tables say.
    model = kernels.error_model(part)
    noise = tables[-1].variance
    pieces = {own: piece._replace(noise=noise, kept=1.0) for own, piece in model.pieces.items()}
    kept = tuple(tuple(map(np.ones_like, own)) for own in model.kept)
    model = replace(model, pieces=pieces, kept=kept)
    terms = closed._read(model, batch_of(functions))
    for i, j in ((0, 0), (0, 1)):
        noise = closed._of_terms(model, terms, np.array([i]), np.array([j]))[0, 0]
        assert noise == pytest.approx(by_least_squares(tables, sizes, sums[i], sums[j]), rel=1e-6, abs=1e-6)


def test_a_sum_errs_by_what_the_fit_misses_in_released_tables():
    sizes = (4, 5, 3)
    components, rng = random_mixture(sizes, 3), np.random.default_rng(1)
    moved = rng.integers(-2_000, 2_000, sizes)
    moved[0, 0, 0] -= moved.sum()  # the total is right
    every, tables = range(len(sizes)), []
    for own in [*((a,) for a in every), *combinations(every, 2), tuple(every)]:
        exact = table_of(own, components, 2.0)
        counts = exact.counts + moved.sum(axis=tuple(a for a in every if a not in own))
        tables.append(Table(exact.shape, counts, "gaussian", 2.0))
    part = ViewPart(components, prior_quality(components, tables), tuple(tables))
    model = kernels.error_model(part)
    for n in (1, 2, 3):
        functions = [rng.integers(0, 2, size).astype(float) for size in sizes[:n]]
        missed = closed._residuals(model, closed._read(model, batch_of([functions])))
        inside = reduce(np.multiply.outer, [*functions, *(np.ones(size) for size in sizes[n:])])
        assert missed[0] == pytest.approx(-(moved * inside).sum(), rel=0.01)
