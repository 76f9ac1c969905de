"""What histograms behind a base tell of errors: against definitions written out cell by cell."""

from __future__ import annotations

import dataclasses
import math
from functools import reduce

import numpy as np
import pytest
from dense import FEW, all_but, domains, schema_of, seeds
from hypothesis import given

from cells import based_view
from hdpview.pview import PView
from hdpview.query.at_once import summarise_at_once
from hdpview.query.base_noise import OfBase, base_noise, noisy_bases, of_functions, of_groups, of_histograms
from hdpview.query.boxes import pack
from hdpview.query.intervals import variance_of_parts
from hdpview.query.predicates import boxes_of
from hdpview.query.summary import summarise


@FEW
@given(domains, seeds)
def test_noise_of_the_base_is_what_its_formula_says(sizes: tuple[int, ...], seed: int) -> None:
    """0.3 · Σ_a variance_a · min(codes, others) · √(share that all other conditions let through), for one
    box; it widens intervals.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    base = view.blocks.bases[0]
    ends = [np.sort(rng.integers(0, size, 2)) for size in sizes]
    condition = " AND ".join(f"a{a} BETWEEN {low} AND {high}" for a, (low, high) in enumerate(ends))
    passed = [base.marginal(a)[low : high + 1].sum() for a, (low, high) in enumerate(ends)]
    wanted = 0.0
    for a, (low, high) in enumerate(ends):
        codes = high + 1 - low
        rest = math.prod(passed[b] for b in range(len(sizes)) if b != a)
        wanted += float(np.asarray(base.variance)[a]) * min(codes, sizes[a] - codes) * math.sqrt(rest) * 0.3
    assert summarise(
        view.blocks, pack([boxes_of(condition, view.schema)], view.schema)
    ).base_variance == pytest.approx([wanted])
    quiet = PView(
        view.manifest,
        dataclasses.replace(
            view.blocks, base=dataclasses.replace(base, variance=np.asarray(base.variance) / 1e6)
        ),
    )
    assert view.count(condition).typical.upper >= quiet.count(condition).typical.upper - 1e-9
    assert (
        view.compare(condition, None).difference_interval.upper
        >= quiet.compare(condition, None).difference_interval.upper - 1e-9
    )


def test_asking_for_all_codes_costs_no_base_noise() -> None:
    """The total is known from counts alone."""
    assert base_noise(5.0, 7, 7, 0.3) == 0
    assert base_noise(5.0, 6, 7, 0.0625) == pytest.approx(0.375)


@FEW
@given(domains, seeds)
def test_the_joint_share_is_what_single_attributes_leave_of_a_product(
    sizes: tuple[int, ...], seed: int
) -> None:
    """Cell by cell: the variance of a product over independent attributes, less that of its conditional means
    given each of them.
    """
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    base = view.blocks.bases[0]
    functions = {a: rng.normal(0.5, 1.0, size) for a, size in enumerate(sizes)}
    marginals = [base.marginal(a) for a in range(len(sizes))]
    masses, values = (reduce(np.multiply.outer, axes) for axes in (marginals, list(functions.values())))
    mean = float((masses * values).sum())
    alone = 0.0
    for a, marginal in enumerate(marginals):
        conditional = (masses * values).sum(axis=all_but(a, len(sizes))) / marginal
        alone += float(marginal @ (conditional - mean) ** 2)
    variance = float((masses * (values - mean) ** 2).sum())
    wanted = 1 - alone / variance if variance > 1e-9 * mean**2 else 0.0
    found = of_functions(noisy_bases(view.blocks), [functions], [None])
    assert found.joint_share == pytest.approx(wanted, abs=1e-6)
    assert found.total_squares == pytest.approx(len(view.blocks) * mean**2)


@FEW
@given(domains, seeds)
def test_all_ways_to_ask_are_told_the_same(sizes: tuple[int, ...], seed: int) -> None:
    """Groups, charts under a filter, and questions one by one."""
    rng, view = np.random.default_rng(seed), based_view(schema_of(sizes), seed)
    low, high = np.sort(rng.integers(0, sizes[0], 2)).tolist()
    boxes = boxes_of(f"a0 BETWEEN {low} AND {high}", view.schema)
    shares = np.where((np.arange(sizes[0]) >= low) & (np.arange(sizes[0]) <= high), 1.0, 0.0)
    for a, size in enumerate(sizes):
        if a == 0:
            continue
        asked = pack(
            [boxes_of(f"a0 BETWEEN {low} AND {high} AND a{a} = {code}", view.schema) for code in range(size)],
            view.schema,
        )
        wanted = summarise(view.blocks, asked)
        bases, filter_ = noisy_bases(view.blocks), [{0: shares}]
        for found in (
            of_groups(bases, filter_, [None], [a], sizes),
            of_histograms(bases, filter_, [a], sizes),
        ):
            for field, of_field in found._asdict().items():
                assert of_field == pytest.approx(getattr(wanted, field), rel=1e-6, abs=1e-9), field
        at_once = summarise_at_once(view, boxes, [a])
        for field in OfBase._fields:
            assert getattr(at_once, field)[:-1] == pytest.approx(
                getattr(wanted, field), rel=1e-6, abs=1e-9
            ), field
        assert at_once.joint_share[-1] == pytest.approx(0, abs=1e-9)


def test_what_histograms_tell_bounds_the_error_of_single_attributes() -> None:
    """A question about one attribute cannot be further off than histograms allow, however uneven blocks are;
    one about several can.
    """
    uneven, nothing, variance = np.full(3, 1e4), np.zeros(3), np.full(3, 9.0)
    found = variance_of_parts(
        nothing, 2.0, uneven, nothing, OfBase(variance, np.array([0.0, 0.5, 1.0]), nothing, nothing)
    )
    assert found == pytest.approx([6 * 9, 6 * 9 + 0.35e8, 9 + 0.7e8])
    assert variance_of_parts(
        nothing, 2.0, nothing, nothing, OfBase(variance, nothing, nothing, nothing)
    ) == pytest.approx(variance)


def test_the_total_is_as_sure_as_histograms_are() -> None:
    """Noise that is the same share of all blocks only blurs the total; raw counts keep all of it."""
    squares, nothing, total = np.array([100.0, 100.0, 100.0]), np.zeros(3), np.full(3, 3.0)
    of_base = OfBase(nothing, nothing, total, np.array([0.0, 50.0, 100.0]))
    assert variance_of_parts(squares, 2.0, nothing, nothing, of_base) == pytest.approx(
        [100 + 3, 50 + 15 + 3, 15 + 3]
    )
    assert variance_of_parts(squares, 2.0, nothing, nothing, of_base, "raw") == pytest.approx(200)


@FEW
@given(domains, seeds)
def test_the_variance_of_the_total_is_that_of_all_histograms_weighted(
    sizes: tuple[int, ...], seed: int
) -> None:
    """By least squares: the number of records from sums of histograms, each with its own variance."""
    view = based_view(schema_of(sizes), seed)
    variances = np.asarray(view.blocks.bases[0].variance) * np.array(sizes)
    design = np.ones((len(sizes), 1)) / np.sqrt(variances)[:, None]
    wanted = np.linalg.inv(design.T @ design)[0, 0]
    assert summarise(
        view.blocks, pack([boxes_of(None, view.schema)], view.schema)
    ).total_variance == pytest.approx([wanted])
