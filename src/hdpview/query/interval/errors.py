"""Errors to expect of estimates, whatever components a view is made of. Errors of the parts of a merged view
add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.estimate.estimates import (
    check_number_of_groups,
    grid_estimates,
    histogram_estimates,
    part_estimates,
)
from hdpview.query.interval.blocks import BlockSums, block_spreads, block_sums, grid_sums
from hdpview.query.interval.mixture import Errors, MixtureErrors
from hdpview.query.interval.noise import NoiseLaw, bounded_quantile
from hdpview.query.question.quantities import ONE, Batch, Quantity, pack, pack_grid, pack_histograms
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.quality import N_ORDERS

Floats = NDArray[np.float64]
_MOST_TERM_PAIRS = 64  # of one quantity; beyond, errors of terms are added up instead of combined
# Records: the least error to expect of a question about several attributes. Where a model sees nobody, rare
# values of several attributes may still meet in a few records.
_FEW = 2.0


class NoiseSums(NamedTuple):
    """Noise in estimates, shape (n,) each: its variance, its fourth cumulant, and the largest weight of one
    count.

    scale: of discrete Laplace noise on single counts; 0 where there is none.
    """

    variance: Floats
    fourth: Floats
    largest: Floats
    scale: float

    def half_width(self, confidence: float) -> Floats:
        """Half the width of the central interval that holds the noise with this confidence."""
        with np.errstate(divide="ignore", invalid="ignore"):
            kurtosis = np.where(self.variance > 0, self.fourth / self.variance**2, 0.0)
        width = bounded_quantile(kurtosis, confidence) * np.sqrt(self.variance) + 0.5 * self.largest
        # Where nearly all noise is 0, a standard deviation says little of tails: the largest weight needs
        # this.
        least = NoiseLaw(self.scale).quantile_of_one(confidence) if self.scale else 0
        return np.where(self.variance > 0, np.maximum(width, least * self.largest), 0.0)


class Evaluation(NamedTuple):
    """Estimates and their errors, shape (n,) each.

    estimate: the consistent reading. raw: the unbiased one, for blocks; equal to the estimate for a mixture.
    noise: of the raw reading.
    variance: squared error to expect of the consistent reading; raw_variance: of the raw one.
    """

    estimate: Floats
    raw: Floats
    noise: NoiseSums
    variance: Floats
    raw_variance: Floats


def evaluate(view: ViewData, batch: Batch) -> Evaluation:
    """Every quantity of a batch, with its errors."""
    found = [_evaluate_part(part, batch) for part in view.parts]
    return _added(found)


def _evaluate_part(part: ViewPart, batch: Batch) -> Evaluation:
    if isinstance(part.components, Blocks):
        order = np.clip(batch.n_attributes, 1, N_ORDERS) - 1
        return _of_blocks(part, block_sums(part.components, batch), order)
    return _of_mixture(part, part_estimates(part, batch), batch)


def evaluate_grid(view: ViewData, quantity: Quantity, attributes: Sequence[int]) -> Evaluation:
    """A quantity in every cell of a grid of codes, flat, in code order, the last attribute running
    fastest.
    """
    check_number_of_groups(int(np.prod([view.schema.sizes[a] for a in attributes], dtype=np.float64)))
    found = []
    for part in view.parts:
        if isinstance(part.components, Blocks):
            order = np.array([_n_attributes(pack([quantity], view.schema), attributes)])
            sums = grid_sums(part.components, quantity, attributes, view.schema)
            found.append(_of_blocks(part, sums, np.clip(order, 1, N_ORDERS) - 1))
        else:
            grid = grid_estimates(ViewData(view.manifest, (part,)), quantity, attributes).reshape(-1)
            found.append(_of_mixture(part, grid, pack_grid(quantity, attributes, view.schema)))
    return _added(found)


def evaluate_histograms(view: ViewData, quantity: Quantity, attributes: Sequence[int]) -> Evaluation:
    """A quantity at every code of every attribute, one attribute after another, flat."""
    found, batch = [], pack_histograms(quantity, attributes, view.schema)
    for part in view.parts:
        if isinstance(part.components, Blocks):
            own = ViewData(view.manifest, (part,))
            found.append(_joined([evaluate_grid(own, quantity, [a]) for a in attributes]))
        else:
            estimate = histogram_estimates(part.components, quantity, attributes, view.schema)
            found.append(_of_mixture(part, estimate, batch))
    return _added(found)


def _joined(found: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of some quantities and then of others."""

    def listed(column: Callable[[Evaluation], Floats]) -> Floats:
        return np.concatenate([np.zeros(0), *map(column, found)])

    noise = NoiseSums(
        listed(lambda each: each.noise.variance),
        listed(lambda each: each.noise.fourth),
        listed(lambda each: each.noise.largest),
        max((each.noise.scale for each in found), default=0.0),
    )
    return Evaluation(
        listed(lambda each: each.estimate),
        listed(lambda each: each.raw),
        noise,
        listed(lambda each: each.variance),
        listed(lambda each: each.raw_variance),
    )


def _n_attributes(batch: Batch, attributes: Sequence[int]) -> int:
    """How many attributes the terms restrict at most, those of a grid among them."""
    found = (len({*attributes, *own} - {-1}) for own in batch.attribute.tolist())
    return max(found, default=len(attributes))


def _added(found: Sequence[Evaluation]) -> Evaluation:
    if len(found) == 1:
        return found[0]

    def total(column: Callable[[Evaluation], Floats]) -> Floats:
        added: Floats = np.sum([column(each) for each in found], axis=0)
        return added

    noise = NoiseSums(
        total(lambda each: each.noise.variance),
        total(lambda each: each.noise.fourth),
        np.max([each.noise.largest for each in found], axis=0),
        max(each.noise.scale for each in found),
    )
    return Evaluation(
        total(lambda each: each.estimate),
        total(lambda each: each.raw),
        noise,
        total(lambda each: each.variance),
        total(lambda each: each.raw_variance),
    )


def _of_blocks(part: ViewPart, sums: BlockSums, order: NDArray[np.int64]) -> Evaluation:
    assert isinstance(part.components, Blocks)
    law, factor = NoiseLaw(part.components.noise_scale), np.array(part.quality.factors)[order]
    noise = NoiseSums(
        law.variance * sums.squares,
        law.excess_kurtosis * law.variance**2 * sums.fourths,
        sums.largest,
        law.scale,
    )
    uneven = noise.variance + (factor * sums.spread) ** 2
    # How far counts were moved to be consistent counts as error.
    return Evaluation(sums.estimate, sums.raw, noise, uneven + (sums.raw - sums.estimate) ** 2, uneven)


def _of_mixture(part: ViewPart, estimate: Floats, batch: Batch) -> Evaluation:
    errors = _summed(part, batch, batch)
    noise = np.maximum(errors.noise, 0.0)
    more = mixture_errors(part).beyond_independence(batch, estimate)
    variance = np.maximum(noise + _of_model(part, errors, more), 0.0) + _of_a_few(part, batch)
    zero = np.zeros(len(batch))
    return Evaluation(estimate, estimate, NoiseSums(noise, zero, zero, 0.0), variance, variance)


def _of_model(part: ViewPart, errors: Errors, more: Floats | float) -> Floats:
    """Squared errors of the model.

    more: how many times more records lie there than if attributes were independent. What was not counted errs
        by as
    much more, and by chance even if the model is true: correlations in n records vary by 1/√n.
    """
    sizes = np.square(part.quality.factors)
    found: Floats = sizes[0] * errors.model[0] + (sizes[1:] @ errors.model[1:]) * more
    return found + _beside_factors(part, errors, more)


def _beside_factors(part: ViewPart, errors: Errors, more: Floats | float) -> Floats:
    """Squared errors of the model that no factor of `Quality` says anything of."""
    total = max(float(part.components.weight.sum()), 1.0)
    varies: Floats = errors.model[1:].sum(axis=0) / total
    return (varies + errors.finer) * more + errors.inside * more**2


def _of_a_few(part: ViewPart, batch: Batch) -> Floats:
    """Squared error of each quantity if a few records more than the model sees add as much as any may."""
    largest = mixture_errors(part).largest(batch)
    return np.where(batch.n_attributes > 1, (_FEW * largest) ** 2, 0.0)


@lru_cache(maxsize=64)
def mixture_errors(part: ViewPart) -> MixtureErrors:
    """The errors of a part; what follows from its released tables alone is computed once."""
    return MixtureErrors(part)


def _summed(part: ViewPart, left: Batch, right: Batch) -> Errors:
    """Errors of quantities from those of pairs of their terms."""
    errors, n = mixture_errors(part), len(left)
    n_left, n_right = (np.bincount(each.quantity, minlength=n) for each in (left, right))
    first_left, first_right = (np.cumsum(each) - each for each in (n_left, n_right))
    few = n_left * n_right <= _MOST_TERM_PAIRS
    n_pairs = np.where(few, n_left * n_right, 0)
    quantity = np.repeat(np.arange(n), n_pairs)
    place = np.arange(len(quantity)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    width = np.maximum(n_right, 1)[quantity]
    i, j = first_left[quantity] + place // width, first_right[quantity] + place % width
    of_pairs = errors.of_terms(left, right, i, j)
    noise = np.bincount(quantity, of_pairs.noise, n).astype(np.float64)
    model = np.stack([np.bincount(quantity, row, n) for row in of_pairs.model]).astype(np.float64)
    finer, inside = (np.bincount(quantity, row, n).astype(np.float64) for row in of_pairs[2:])
    if not few.all():
        roots = [_roots(errors, each, ~few) for each in (left, right)]
        noise += roots[0].noise * roots[1].noise
        model += roots[0].model * roots[1].model
        finer += roots[0].finer * roots[1].finer
        inside += roots[0].inside * roots[1].inside
    return Errors(noise, model, finer, inside)


def _roots(errors: MixtureErrors, batch: Batch, chosen: NDArray[np.bool_]) -> Errors:
    """Standard errors of all terms of the chosen quantities, added up: a bound on that of their sum."""
    terms = np.flatnonzero(chosen[batch.quantity])
    found = errors.of_terms(batch, batch, terms, terms)
    rows = [np.sqrt(np.maximum(row, 0.0)) for row in (found.noise, *found.model, *found[2:])]
    sums = [np.bincount(batch.quantity[terms], row, len(batch)).astype(np.float64) for row in rows]
    return Errors(sums[0], np.stack(sums[1:-2]), *sums[-2:])


class Scales(NamedTuple):
    """Estimates, squared errors from noise, and squared errors of the model per unit of each squared factor.

    Shapes (n,), (n,) and (N_ORDERS, n).
    """

    estimate: Floats
    noise: Floats
    model: Floats


def model_scales(part: ViewPart, batch: Batch) -> Scales:
    """What a view's errors are made of, apart from the factors that say how large they are."""
    if isinstance(part.components, Blocks):
        sums = block_sums(part.components, batch)
        noise = (
            NoiseLaw(part.components.noise_scale).variance * sums.squares + (sums.raw - sums.estimate) ** 2
        )
        model = np.zeros((N_ORDERS, len(batch)))
        order = np.clip(batch.n_attributes, 1, N_ORDERS) - 1
        model[order, np.arange(len(batch))] = sums.spread**2
        return Scales(sums.estimate, noise, model)
    errors, estimate = _summed(part, batch, batch), part_estimates(part, batch)
    more = mixture_errors(part).beyond_independence(batch, estimate)
    model = np.concatenate([errors.model[:1], errors.model[1:] * more])
    known = errors.noise + _beside_factors(part, errors, more) + _of_a_few(part, batch)
    return Scales(estimate, known, model)


def covariances(view: ViewData, quantities: Sequence[Sequence[Quantity]]) -> Floats:
    """Expected products of the errors of m quantities in each of n groups, shape (m, m, n).

    quantities[i][g]: the i-th quantity of group g.
    """
    batches = [pack(own, view.schema) for own in quantities]
    found = np.zeros((len(batches), len(batches), len(batches[0])))
    for part in view.parts:
        if isinstance(part.components, Blocks):
            spreads = block_spreads(part.components, quantities, view.schema)
            order = np.stack([np.clip(batch.n_attributes, 1, N_ORDERS) - 1 for batch in batches])
            size = np.array(part.quality.factors)[order] * spreads.spread
            noise = NoiseLaw(part.components.noise_scale).variance * spreads.squares
            found += noise + size[:, None] * size[None, :] * spreads.correlation
            continue
        estimates = [
            part_estimates(part, batch) if all(map(_is_count, own)) else None
            for batch, own in zip(batches, quantities, strict=True)
        ]
        _add_mixture_covariances(part, batches, _more(part, batches, estimates), found)
    return found


def grid_covariances(view: ViewData, quantities: Sequence[Quantity], attributes: Sequence[int]) -> Floats:
    """As `covariances`, in every cell of a grid of codes, for views that are mixtures, shape (m, m,
    n_cells).
    """
    batches = [pack_grid(quantity, attributes, view.schema) for quantity in quantities]
    found = np.zeros((len(batches), len(batches), len(batches[0])))
    for part in view.parts:
        own = ViewData(view.manifest, (part,))
        estimates = [
            grid_estimates(own, quantity, attributes).reshape(-1) if _is_count(quantity) else None
            for quantity in quantities
        ]
        _add_mixture_covariances(part, batches, _more(part, batches, estimates), found)
    return found


def _is_count(quantity: Quantity) -> bool:
    """Whether a record adds between 0 and 1, as in a count or a sum of truth values."""
    return all(
        values is ONE or bool((values.mean >= 0.0).all() and (values.mean <= 1.0).all())
        for part in quantity
        for values in (part.values, part.times)
    )


def _more(part: ViewPart, batches: Sequence[Batch], estimates: Sequence[Floats | None]) -> Floats:
    """How many times more records than under independence lie in each group, per quantity, shape (m, n).

    estimates: of counts; None for sums of values, which take what the largest count of their group has.
    """
    found = np.ones((len(batches), len(batches[0])))
    largest = np.full(len(batches[0]), -np.inf)
    of_largest = np.ones(len(batches[0]))
    for i, (batch, estimate) in enumerate(zip(batches, estimates, strict=True)):
        if estimate is not None:
            found[i] = mixture_errors(part).beyond_independence(batch, estimate)
            of_largest = np.where(estimate > largest, found[i], of_largest)
            largest = np.maximum(estimate, largest)
    for i, estimate in enumerate(estimates):
        if estimate is None:
            found[i] = of_largest
    return found


def _add_mixture_covariances(part: ViewPart, batches: Sequence[Batch], more: Floats, found: Floats) -> None:
    """more: how many times more records lie in each group than under independence, per quantity, shape (m,
    n).
    """
    for i in range(len(batches)):
        for j in range(i + 1):
            errors = _summed(part, batches[i], batches[j])
            added = errors.noise + _of_model(part, errors, np.sqrt(more[i] * more[j]))
            found[i, j] += added
            if i != j:
                found[j, i] += added
