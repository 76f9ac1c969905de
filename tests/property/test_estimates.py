"""Estimates and their errors equal sums over single cells, in groups as one by one."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import cell_counts, mixture_view, noisy_view
from hdpview.domain import Boolean, Category, Integer, Real, Schema
from hdpview.pview import PView, merge
from hdpview.query.errors.closed import covariances, evaluate
from hdpview.query.estimate.estimates import estimates, grid_estimates
from hdpview.query.interval.statistics import histograms
from hdpview.query.question.batch import pack, pack_grids
from hdpview.query.question.boxes import intersect, subtract
from hdpview.query.question.conditions import code_shares, of_code
from hdpview.query.question.quantities import Part, Quantity, bin_values, count_of, cut
from hdpview.query.question.where import boxes_of

Floats = NDArray[np.float64]
SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=4), Category(name="region", values=("N", "S", "E"), nullable=True),
        Real(name="dose", min=0.0, max=3.0, bins=3), Boolean(name="smoker"),
    ]
)  # fmt: skip
AGE, DOSE = 0, 2
WHERES = [
    None, "age < 2", "age BETWEEN 1 AND 3 OR smoker", "region IS NULL OR (region = 'S' AND dose < 1.25)",
    "NOT (age = 2 AND region <> 'E') AND dose >= 0.5",
    "(age < 2 AND smoker) OR (age >= 2 AND NOT smoker) OR dose > 2.5", "age > 40", "FALSE",
]  # fmt: skip
KINDS = {"blocks": noisy_view, "mixture": mixture_view}
seeds, kinds = st.integers(0, 2**16), st.sampled_from(["blocks", "mixture", "merged"])
wheres = st.sampled_from(WHERES)
axes = st.permutations(range(len(SCHEMA))).flatmap(
    lambda order: st.integers(1, 2).map(lambda n: list(order[:n]))
)
SOME = settings(max_examples=50, deadline=None)


@lru_cache(maxsize=32)
def a_view(kind: str, seed: int) -> PView:
    if kind == "merged":
        return merge([mixture_view(SCHEMA, seed + i) for i in range(2)])
    return KINDS[kind](SCHEMA, seed)


@lru_cache(maxsize=32)
def true_cells(kind: str, seed: int) -> Floats:
    """The view's records cell by cell, from the definition of its components."""
    parts = [cell_counts(part.components, part.components.weight) for part in a_view(kind, seed).parts]
    total: Floats = np.sum(parts, axis=0)
    return total


def asked(where: str | None) -> list[Any]:
    return boxes_of(where, SCHEMA)


def indicator(boxes: list[Any]) -> Floats:
    """Share of each cell that lies in disjoint boxes, box by box."""
    share = np.zeros(SCHEMA.sizes)
    for box in boxes:
        inside = np.ones(SCHEMA.sizes)
        for a, condition in box.items():
            shape = [-1 if b == a else 1 for b in range(len(SCHEMA))]
            inside = inside * code_shares(SCHEMA.attributes[a], condition).reshape(shape)
        share += inside
    return share


def along(a: int, values: Floats) -> Floats:
    return values.reshape([-1 if b == a else 1 for b in range(len(SCHEMA))])


def some_quantities(where: str | None) -> list[Quantity]:
    """A count, a sum, a sum of squares and a sum of products of the records of a condition."""
    boxes = asked(where)
    age, dose = (bin_values(SCHEMA.attributes[a], a) for a in (AGE, DOSE))
    parts = [(), (age,), (dose, dose), (age, dose)]
    return [[Part(box, values) for box in boxes] for values in parts]


def by_cells(kind: str, seed: int, where: str | None) -> list[Floats]:
    inside = true_cells(kind, seed) * indicator(asked(where))
    age, dose = (along(a, bin_values(SCHEMA.attributes[a], a).mean) for a in (AGE, DOSE))
    return [inside, inside * age, inside * dose**2, inside * age * dose]


@SOME
@given(kinds, seeds, wheres)
def test_quantities_are_sums_over_cells(kind, seed, where):
    estimated = estimates(a_view(kind, seed), pack(some_quantities(where), SCHEMA))
    assert estimated == pytest.approx([cells.sum() for cells in by_cells(kind, seed, where)], abs=1e-7)


@SOME
@given(kinds, seeds, wheres, axes)
def test_grids_are_sums_over_cells(kind, seed, where, attributes):
    others = tuple(a for a in range(len(SCHEMA)) if a not in attributes)
    for quantity, cells in zip(some_quantities(where), by_cells(kind, seed, where), strict=True):
        expected = cells.sum(axis=others)
        order = np.argsort(np.argsort(attributes))
        estimated = grid_estimates(a_view(kind, seed), quantity, attributes)
        assert estimated == pytest.approx(expected.transpose(order), abs=1e-7)


@SOME
@given(kinds, seeds, wheres)
def test_histograms_and_quantiles_follow_from_cells(kind, seed, where):
    view, cells = a_view(kind, seed), by_cells(kind, seed, where)[0]
    for a, histogram in enumerate(histograms(view, where)):
        expected = cells.sum(axis=tuple(b for b in range(len(SCHEMA)) if b != a))
        assert histogram.estimate == pytest.approx(expected, abs=1e-7)
    running = cells.sum(axis=(0, 1, 3)).cumsum()
    median = view.quantile("dose", 0.5, where).estimate
    if running[-1] < 1e-6:
        assert median is None
    else:
        code = int(np.searchsorted(running, running[-1] / 2 - 1e-9))
        assert code - 1e-6 <= median <= code + 1 + 1e-6


@SOME
@given(kinds, seeds, wheres, axes)
def test_groups_are_those_asked_one_by_one(kind, seed, where, attributes):
    view = a_view(kind, seed)
    conditions = [
        [{a: of_code(SCHEMA.attributes[a], code)} for code in range(SCHEMA.sizes[a])] for a in attributes
    ]
    cells = [{}]
    for own in conditions:
        cells = [{**cell, **box} for cell in cells for box in own]
    quantity = some_quantities(where)[0]
    grid = evaluate(view, pack_grids(quantity, [attributes], SCHEMA))
    listed = evaluate(view, pack([cut(quantity, [cell]) for cell in cells], SCHEMA))
    assert grid.estimate == pytest.approx(listed.estimate, abs=1e-7)
    assert grid.raw == pytest.approx(listed.raw, abs=1e-7)
    for one, other in zip((grid.variance, grid.noise), (listed.variance, listed.noise), strict=True):
        size = np.maximum(other, 1e-3)
        if kind == "blocks" and len(quantity) > 1:
            assert (one >= other - 1e-6 * size).all()
        else:
            assert one == pytest.approx(other, rel=1e-6, abs=1e-6)


@SOME
@given(kinds, seeds, st.lists(wheres, min_size=1, max_size=4))
def test_covariances_are_those_of_some_errors(kind, seed, asked_for):
    view = a_view(kind, seed)
    quantities = [quantity for where in asked_for for quantity in some_quantities(where)[:2]]
    products = covariances(view, [[quantity] for quantity in quantities])[1][..., 0]
    variance = evaluate(view, pack(quantities, SCHEMA)).raw_variance
    scale = max(1.0, float(np.abs(products).max()))
    assert np.abs(products - products.T).max() <= 1e-9 * scale
    # Errors by chance follow the largest count of a group here, and each count's own there.
    assert np.diag(products) == pytest.approx(variance, rel=0.2, abs=1e-6)
    assert np.linalg.eigvalsh(products).min() >= -1e-6 * scale
    twice = covariances(view, [[quantities[0]], [quantities[0]]])[1][..., 0]
    assert twice == pytest.approx(np.full((2, 2), variance[0]), rel=1e-6, abs=1e-6)


@SOME
@given(kinds, seeds, wheres, wheres)
def test_counts_within_counts(kind, seed, one, other):
    view = a_view(kind, seed)
    both = intersect(asked(one), asked(other))
    apart = subtract(asked(one), asked(other), SCHEMA)
    evaluation = evaluate(view, pack([count_of(boxes) for boxes in (asked(one), both, apart)], SCHEMA))
    for column in (evaluation.estimate, evaluation.raw):
        assert column[0] == pytest.approx(column[1] + column[2], abs=1e-6)
