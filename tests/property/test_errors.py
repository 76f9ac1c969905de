"""Draws and the closed form are the same errors: both come from one list of kernels."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_mixture, tables_of
from hdpview.domain.table_shapes import TableShape
from hdpview.query.errors import closed
from hdpview.query.errors.ends import ends, typical_tail
from hdpview.query.errors.fields import ErrorCluster, ErrorScan, draw_errors, n_draws_for, seed_of
from hdpview.query.errors.kernels import error_model
from hdpview.query.question.batch import Batch, Functions
from hdpview.view.data import ViewPart
from hdpview.view.quality import prior_quality
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]
SIZES = (4, 3, 5, 2)


def a_part(seed: int) -> ViewPart:
    """Histograms, some pairs, and a table of three attributes with wider bins."""
    components = random_mixture(SIZES, seed)
    bins = (
        np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 1], np.int32), np.array([0, 1, 0, 1, 2], np.int32),
    )  # fmt: skip
    shape = TableShape((0, 1, 2), bins)
    three = Table(shape, np.rint(components.table(shape)).astype(np.int64), "laplace", 4.0)
    tables = (*tables_of(components, seed), three)
    return ViewPart(components, prior_quality(components, tables), tables)


def scan_of(part: ViewPart, functions: dict[int, Floats], is_count: list[bool]) -> ErrorScan:
    """A cluster per attribute, with one key; functions: per attribute, (n_sums, size)."""
    clusters = [
        ErrorCluster((a,), own[None], [np.eye(SIZES[a])], list(range(len(own))))
        for a, own in functions.items()
    ]
    means = [part.components.factors(a, own) for a, own in functions.items()]
    estimate = reduce(np.multiply, means) @ part.components.weight
    return ErrorScan(clusters, is_count, estimate[:, None])


def covariances_of(part: ViewPart, functions: dict[int, Floats], is_count: list[bool]) -> Floats:
    shares, n = {}, len(is_count)
    for a, values in functions.items():
        weights = np.array(is_count)[:, None]
        shares[a] = Functions(np.where(weights, values, 1.0), np.where(weights, 1.0, values))
    attribute = np.repeat(np.array([list(functions)]), n, axis=0)
    number = np.broadcast_to(np.arange(n)[:, None], attribute.shape)
    return closed.mixture_covariances(part, Batch(n, np.arange(n), attribute, number, shares), n)[..., 0]


@pytest.mark.parametrize("attributes", [(0,), (1, 3), (0, 1), (0, 1, 2), (1, 2, 3)])
@given(seed=st.integers(0, 2**16))
@settings(max_examples=10, deadline=None)
def test_draws_have_the_covariances_of_the_closed_form(attributes, seed):
    rng, part = np.random.default_rng(seed), a_part(seed % 7)
    functions = {
        a: np.stack([(rng.random(SIZES[a]) < 0.6).astype(float), rng.normal(size=SIZES[a])])
        for a in attributes
    }
    is_count = [True, False]
    scan = scan_of(part, functions, is_count)
    (draws,) = draw_errors(part, [scan], 2_000, seed)
    assert draws.shape == (2_000, 2, 1)
    found = np.einsum("dig,djg->ij", draws, draws) / len(draws)
    expected = covariances_of(part, functions, is_count)
    size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
    assert np.abs(found - expected).max() <= 1e-6 * size.max() + 1e-6


def test_parts_and_wholes_err_together():
    part = a_part(1)
    every = np.eye(SIZES[0])[:, None, :]
    keys = ErrorCluster((0,), every, [np.eye(SIZES[0])], [0])
    groups = ErrorScan([keys], [True], part.components.grid([0], part.components.weight)[None])
    whole = ErrorScan(
        [ErrorCluster((), np.ones((1, 1)), [], [0])], [True], np.array([[part.components.weight.sum()]])
    )
    of_groups, of_whole = draw_errors(part, [groups, whole], 200, 3)
    assert of_groups.sum(axis=2) == pytest.approx(of_whole[:, :, 0], abs=1e-6)


def test_tied_attributes_err_like_the_sum_of_their_products():
    part, rng = a_part(2), np.random.default_rng(0)
    values = rng.normal(size=(SIZES[0], SIZES[1]))
    tied = ErrorCluster((0, 1), values[None, None], [np.eye(SIZES[0]), np.eye(SIZES[1])], [0])
    apart = [ErrorCluster((a,), np.eye(SIZES[a])[:, None, :], [np.eye(SIZES[a])], [0]) for a in (0, 1)]
    estimate = part.components.grid([0, 1], part.components.weight)
    # Independence everywhere, so that no sum has a lift.
    scans = [
        ErrorScan([tied], [False], np.zeros((1, 1))),
        ErrorScan(apart, [False], np.zeros((1, estimate.size))),
    ]
    model = error_model(part)
    one, cells = draw_errors(part, scans, 4_000, 5)
    summed = (cells[:, 0] * values.reshape(-1)).sum(axis=1)
    rest = 4.0 * np.abs(values).max() + 4.0 * np.sqrt((values**2).sum())  # a few records, independent of all
    assert model.pieces
    assert (one[:, 0, 0] - summed).std() <= rest


def test_ends_are_those_of_the_closed_form_for_sums():
    rng = np.random.default_rng(1)
    half = rng.normal(size=(100, 3)) * [1.0, 10.0, 0.0]
    draws = np.concatenate([half, -half]) + [5.0, 50.0, 7.0]
    lower, upper = ends(np.array([5.0, 50.0, 7.0]), draws, 0.95)
    width = typical_tail(0.95) * np.sqrt((half**2).mean(axis=0))
    assert upper - [5.0, 50.0, 7.0] == pytest.approx(width)
    assert [5.0, 50.0, 7.0] - lower == pytest.approx(width)


def test_ranks_and_nulls_have_percentiles():
    ranks = np.array([1.0, 1.0, 2.0, 2.0, 3.0] * 40)
    draws = np.stack([ranks, np.full(200, np.nan)], axis=1)
    lower, upper = ends(np.array([2.0, np.nan]), draws, 0.95)
    assert (lower[0], upper[0]) == (1.0, 3.0)
    assert np.isnan([lower[1], upper[1]]).all()


def test_answers_repeat():
    assert seed_of("view", "SELECT 1") == seed_of("view", "SELECT 1") != seed_of("view", "SELECT 2")
    assert [n_draws_for(n) for n in (1, 4_000, 250_000)] == [200, 100, 32]
