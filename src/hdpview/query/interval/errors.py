"""Errors to expect of estimates, whatever components a view is made of. Errors of the parts of a merged view
add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.estimate.estimates import part_estimates
from hdpview.query.interval.blocks import block_spreads, block_sums
from hdpview.query.interval.mixture import Errors, MixtureErrors, Terms
from hdpview.query.interval.noise import NoiseLaw, bounded_quantile
from hdpview.query.question.batch import Batch, Grids
from hdpview.query.question.quantities import Quantity
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

    def plus(self, other: NoiseSums) -> NoiseSums:
        """Of sums of the same estimates from two parts of a view."""
        return NoiseSums(
            self.variance + other.variance,
            self.fourth + other.fourth,
            np.maximum(self.largest, other.largest),
            max(self.scale, other.scale),
        )

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

    def plus(self, other: Evaluation) -> Evaluation:
        """Sums of the same quantities from two parts of a view."""
        return Evaluation(
            self.estimate + other.estimate,
            self.raw + other.raw,
            self.noise.plus(other.noise),
            self.variance + other.variance,
            self.raw_variance + other.raw_variance,
        )

    def only(self, rows: NDArray[np.int64]) -> Evaluation:
        """Some of the quantities."""
        variance, fourth, largest = (column[rows] for column in self.noise[:3])
        noise = NoiseSums(variance, fourth, largest, self.noise.scale)
        return Evaluation(
            self.estimate[rows], self.raw[rows], noise, self.variance[rows], self.raw_variance[rows]
        )


def evaluate(view: ViewData, asked: Batch | Grids, records: Batch | None = None) -> Evaluation:
    """Every quantity, with its errors.

    records: counts of the records that quantities are about, for quantities that may be negative: each count
        is that of equally many quantities, in order.
    """
    found = (
        _of_blocks(part, asked) if isinstance(part.components, Blocks) else _of_mixture(part, asked, records)
        for part in view.parts
    )
    return reduce(Evaluation.plus, found)


def _of_blocks(part: ViewPart, asked: Batch | Grids) -> Evaluation:
    assert isinstance(part.components, Blocks)
    sums, law = block_sums(part.components, asked), NoiseLaw(part.components.noise_scale)
    noise = NoiseSums(
        law.variance * sums.squares,
        law.excess_kurtosis * law.variance**2 * sums.fourths,
        sums.largest,
        law.scale,
    )
    uneven = noise.variance + (np.array(part.quality.factors)[_orders(asked)] * sums.spread) ** 2
    # How far counts were moved to be consistent counts as error.
    return Evaluation(sums.estimate, sums.raw, noise, uneven + (sums.raw - sums.estimate) ** 2, uneven)


def _orders(asked: Batch | Grids) -> NDArray[np.int64]:
    """Which of the factors of `Quality` each quantity has, shape (n,)."""
    batch = asked.cells if isinstance(asked, Grids) else asked
    return np.clip(batch.n_attributes, 1, N_ORDERS) - 1


def _of_mixture(part: ViewPart, asked: Batch | Grids, records: Batch | None = None) -> Evaluation:
    estimate, terms = part_estimates(part, asked), _read(part, asked)
    errors = _summed(part, terms, terms)
    noise = np.maximum(errors.noise, 0.0)
    if records is None:
        more = mixture_errors(part).beyond_independence(terms, estimate)
    else:
        own = mixture_errors(part).beyond_independence(_read(part, records), part_estimates(part, records))
        more = np.repeat(own, len(asked) // max(len(records), 1))
    variance = np.maximum(noise + _of_model(part, errors, more), 0.0) + _of_a_few(terms.batch) ** 2
    zero = np.zeros(len(asked))
    return Evaluation(estimate, estimate, NoiseSums(noise, zero, zero, 0.0), variance, variance)


def _of_model(part: ViewPart, errors: Errors, more: Floats | float) -> Floats:
    """Squared errors of the model.

    more: how many times more records lie there than if attributes were independent. What was not counted errs
        by as much more, and by chance even if the model is true: correlations in n records vary by 1/√n.
    """
    sizes = np.square(part.quality.factors)
    found: Floats = sizes[0] * errors.model[0] + (sizes[1:] @ errors.model[1:]) * more
    return found + _beside_factors(part, errors, more)


def _beside_factors(part: ViewPart, errors: Errors, more: Floats | float) -> Floats:
    """Squared errors of the model that no factor of `Quality` says anything of."""
    total = max(float(part.components.weight.sum()), 1.0)
    varies: Floats = errors.model[1:].sum(axis=0) / total
    return (varies + errors.finer) * more + errors.inside * more**2 + errors.rare


def _of_a_few(batch: Batch) -> Floats:
    """Error of each quantity if a few records more than the model sees add as much as any may."""
    return np.where(batch.n_attributes > 1, _FEW * batch.largest, 0.0)


@lru_cache(maxsize=64)
def mixture_errors(part: ViewPart) -> MixtureErrors:
    """The errors of a part; what follows from its released tables alone is computed once."""
    return MixtureErrors(part)


def _read(part: ViewPart, asked: Batch | Grids) -> Terms:
    return mixture_errors(part).read(asked.cells if isinstance(asked, Grids) else asked)


def _summed(part: ViewPart, left: Terms, right: Terms) -> Errors:
    """Errors of quantities from those of pairs of their terms."""
    errors, n = mixture_errors(part), len(left.batch)
    n_left, n_right = (np.bincount(each.batch.quantity, minlength=n) for each in (left, right))
    if left is right and (n_left == 1).all():
        every = np.arange(n)
        return errors.of_terms(left, left, every, every)
    few = n_left * n_right <= _MOST_TERM_PAIRS
    n_pairs = np.where(few, n_left * n_right, 0)
    quantity = np.repeat(np.arange(n), n_pairs)
    place = np.arange(len(quantity)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    width = np.maximum(n_right, 1)[quantity]
    first_left, first_right = (np.cumsum(each) - each for each in (n_left, n_right))
    i, j = first_left[quantity] + place // width, first_right[quantity] + place % width
    found = _by_quantity(errors.of_terms(left, right, i, j), quantity, n)
    if few.all():
        return found
    roots = [_roots(errors, each, ~few) for each in (left, right)]
    return Errors(*(own + one * other for own, one, other in zip(found, *roots, strict=True)))


def _by_quantity(errors: Errors, quantity: NDArray[np.int64], n: int) -> Errors:
    """Sums of errors over the pairs of terms of each of n quantities."""
    rows = (errors.noise, *errors.model, errors.finer, errors.inside, errors.rare)
    noise, *model, finer, inside, rare = (np.bincount(quantity, row, n).astype(np.float64) for row in rows)
    return Errors(noise, np.stack(model), finer, inside, rare)


def _roots(errors: MixtureErrors, terms: Terms, chosen: NDArray[np.bool_]) -> Errors:
    """Standard errors of all terms of the chosen quantities, added up: a bound on that of their sum."""
    quantity = terms.batch.quantity
    some = np.flatnonzero(chosen[quantity])
    found = errors.of_terms(terms, terms, some, some)
    roots = Errors(*(np.sqrt(np.maximum(each, 0.0)) for each in found))
    return _by_quantity(roots, quantity[some], len(terms.batch))


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
        model[_orders(batch), np.arange(len(batch))] = sums.spread**2
        return Scales(sums.estimate, noise, model)
    estimate, terms = part_estimates(part, batch), _read(part, batch)
    errors = _summed(part, terms, terms)
    more = mixture_errors(part).beyond_independence(terms, estimate)
    model = np.concatenate([errors.model[:1], errors.model[1:] * more])
    known = errors.noise + _beside_factors(part, errors, more) + _of_a_few(batch) ** 2
    return Scales(estimate, known, model)


def covariances(
    view: ViewData, asked: Sequence[Batch | Grids], quantities: Sequence[Sequence[Quantity]] = ()
) -> Floats:
    """Expected products of the errors of m quantities in each of n groups, shape (m, m, n).

    asked: the i-th quantity of all groups. quantities: the same one by one, which views of blocks need:
        quantities[i][g] is the i-th of group g.
    """
    found = np.zeros((len(asked), len(asked), len(asked[0])))
    for part in view.parts:
        if isinstance(part.components, Blocks):
            spreads = block_spreads(part.components, quantities, view.schema)
            size = np.array(part.quality.factors)[np.stack(list(map(_orders, asked)))] * spreads.spread
            noise = NoiseLaw(part.components.noise_scale).variance * spreads.squares
            found += noise + size[:, None] * size[None, :] * spreads.correlation
            continue
        terms = [_read(part, each) for each in asked]
        estimates = [
            part_estimates(part, each) if own.batch.is_count else None
            for each, own in zip(asked, terms, strict=True)
        ]
        more, few = _more(part, terms, estimates), np.stack([_of_a_few(own.batch) for own in terms])
        found += few[:, None] * few[None, :]
        for i, j in zip(*np.tril_indices(len(asked)), strict=True):
            errors = _summed(part, terms[i], terms[j])
            added = errors.noise + _of_model(part, errors, np.sqrt(more[i] * more[j]))
            found[i, j] += added
            if i != j:
                found[j, i] += added
    return found


def _more(part: ViewPart, terms: Sequence[Terms], estimates: Sequence[Floats | None]) -> Floats:
    """How many times more records than under independence lie in each group, per quantity, shape (m, n).

    estimates: of counts; None for sums of values, which take what the largest count of their group has.
    """
    found = np.ones((len(terms), len(terms[0].batch)))
    largest = np.full(found.shape[1], -np.inf)
    of_largest = np.ones(found.shape[1])
    for own, each, estimate in zip(found, terms, estimates, strict=True):
        if estimate is not None:
            own[:] = mixture_errors(part).beyond_independence(each, estimate)
            of_largest = np.where(estimate > largest, own, of_largest)
            largest = np.maximum(estimate, largest)
    found[[estimate is None for estimate in estimates]] = of_largest
    return found
