"""Errors in closed form: variances and covariances of estimates, for views of any components.

For a mixture they are sums over the kernels of its error model. Errors of the parts of a merged view add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.bounds.noise import NoiseLaw
from hdpview.query.errors.blocks import block_covariances, block_sums
from hdpview.query.errors.codes import MAX_ARRAY_SIZE, Moments
from hdpview.query.errors.kernels import (
    MIN_ERROR_RECORDS,
    ErrorModel,
    error_model,
    lifts,
)
from hdpview.query.estimate.estimates import part_estimates
from hdpview.query.question.batch import Batch, Grids, pack
from hdpview.query.question.quantities import Quantity
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.quality import N_ORDERS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MAX_TERM_PAIRS = 64  # maximum of one quantity; with more, terms' standard errors are added up


class Evaluation(NamedTuple):
    """Estimates and their errors, shape (n,) each.

    estimate: the consistent estimate. raw: the unbiased one of blocks; a mixture has the same for both.
    noise, fourth, largest: of the noise in the raw estimate, its variance, its fourth cumulant, and the
        largest weight of one count with discrete Laplace noise.
    variance: expected squared error of the consistent estimate; raw_variance: of the raw one.
    model: of one part, the model's squared error per unit of each squared factor, shape (N_ORDERS, n).
    scale: of the discrete Laplace noise on single counts; 0 without such noise.
    """

    estimate: Floats
    raw: Floats
    noise: Floats
    fourth: Floats
    largest: Floats
    variance: Floats
    raw_variance: Floats
    model: Floats
    scale: Floats

    def plus(self, other: Evaluation) -> Evaluation:
        """Sums of the same quantities from two parts of a view."""
        largest, scale = np.maximum(self.largest, other.largest), np.maximum(self.scale, other.scale)
        return Evaluation(*map(np.add, self, other))._replace(largest=largest, scale=scale)

    def only(self, rows: Ints) -> Evaluation:
        """Some of the quantities."""
        return Evaluation(*(column[..., rows] for column in self))


def evaluate(view: ViewData, asked: Batch | Grids) -> Evaluation:
    """Every quantity, with its errors."""
    return reduce(Evaluation.plus, (evaluate_part(part, asked) for part in view.parts))


def evaluate_part(part: ViewPart, asked: Batch | Grids) -> Evaluation:
    """Every quantity from one part of a view."""
    if isinstance(part.components, Blocks):
        return _of_blocks(part, part.components, asked)
    model, estimate = error_model(part), part_estimates(part, asked)
    terms, every, zero = _read(model, asked), np.arange(len(asked)), np.zeros(len(asked))
    errors = _summed(model, terms, every, every)
    lift = lifts(estimate[None], _independent(model, terms)[None], [True])[0]
    variance = np.maximum(_together(model, errors, lift), 0.0) + (_common(model, terms) ** 2).sum(axis=0)
    noise = np.maximum(errors[0], 0.0)
    return Evaluation(estimate, estimate, noise, zero, zero, variance, variance, errors[1:-1] * lift, zero)


def _of_blocks(part: ViewPart, blocks: Blocks, asked: Batch | Grids) -> Evaluation:
    sums, law = block_sums(blocks, asked), NoiseLaw(blocks.noise_scale)
    noise, fourth = law.variance * sums.squares, law.excess_kurtosis * law.variance**2 * sums.fourths
    order, model = _orders(asked), np.zeros((N_ORDERS, len(asked)))
    model[order, np.arange(len(asked))] = sums.spread**2
    uneven = noise + np.square(part.quality.factors)[order] * sums.spread**2
    # The difference between raw and consistent counts is an error.
    variance = uneven + (sums.raw - sums.estimate) ** 2
    scale = np.full(len(asked), law.scale)
    return Evaluation(sums.estimate, sums.raw, noise, fourth, sums.largest, variance, uneven, model, scale)


def _orders(asked: Batch | Grids) -> Ints:
    """The index of each quantity's factor in `Quality`, shape (n,)."""
    batch = asked.cells if isinstance(asked, Grids) else asked
    return np.clip(batch.n_attributes, 1, N_ORDERS) - 1


def covariances(view: ViewData, quantities: Sequence[Sequence[Quantity]]) -> tuple[Floats, Floats]:
    """Consistent estimates of m quantities in each of n groups, shape (m, n), and expected products of their
    errors, shape (m, m, n). quantities[i][g] is the i-th of group g.
    """
    m, n = len(quantities), len(quantities[0])
    batch = pack([one for own in quantities for one in own], view.schema)
    sums, products = np.zeros((m, n)), np.zeros((m, m, n))
    for part in view.parts:
        sums += part_estimates(part, batch).reshape(m, n)
        if isinstance(part.components, Blocks):
            factor = np.array(part.quality.factors)[_orders(batch)].reshape(m, n)
            products += block_covariances(part.components, quantities, factor, view.schema)
        else:
            products += mixture_covariances(part, batch, m)
    return sums, products


def mixture_covariances(part: ViewPart, batch: Batch, m: int) -> Floats:
    """Expected products of the errors of m quantities in each of n groups, shape (m, m, n).

    batch: the first quantity of all groups, then the second, and so on.
    """
    model, n = error_model(part), len(batch) // m
    terms, numbers = _read(model, batch), np.arange(m * n).reshape(m, n)
    estimates, independent = (
        each.reshape(m, n) for each in (part_estimates(part, batch), _independent(model, terms))
    )
    is_count = [bool(own.all()) for own in batch.counts_records.reshape(m, n)]
    lift = lifts(estimates, independent, is_count)
    common = _common(model, terms).reshape(2, m, n)
    products: Floats = np.einsum("kin,kjn->ijn", common, common)
    for i, j in zip(*np.tril_indices(m), strict=True):
        errors = _summed(model, terms, numbers[i], numbers[j])
        products[[i, j], [j, i]] += _together(model, errors, np.sqrt(lift[i] * lift[j]))
    return products


def rests_on_tables(part: ViewPart, batch: Batch) -> Flags:
    """Whether all attributes of each quantity lie in one released table, and no bin is cut, shape (n,)."""
    sizes = part.components.sizes
    outside = np.ones((len(sizes), len(part.tables)))  # 1 if the attribute is not in the table
    for number, table in enumerate(part.tables):
        outside[list(table.attributes), number] = 0.0
    asked = np.zeros((len(batch), len(sizes) + 1))  # one extra column for "no attribute"
    asked[batch.quantity[:, None], batch.attribute] = 1.0
    in_one_table: Flags = (asked[:, :-1] @ outside == 0.0).any(axis=1)
    cuts = batch.of_functions(np.array(False), lambda _, own: own.cuts)[batch.place].any(axis=1)
    in_one_table[batch.quantity[cuts]] = False
    return in_one_table


# Errors of a mixture: sums of kernels over pairs of terms. Expected products of errors have one row for noise
# and misfit of tables, N_ORDERS for the model, per unit of each squared factor, and the last for cut bins.


def _together(model: ErrorModel, errors: Floats, lift: Floats) -> Floats:
    """Sum of all errors. lift: ratio of records to those under independence; errors grow with it."""
    total: Floats = (errors[0] + model.levels @ errors[1:-1]) * lift + errors[-1] * lift**2
    return total


class _Terms(NamedTuple):
    """A batch with, for each of its functions (numbered as in `place`), its mean over records, shape (n,);
    and the excess of its mean by noise, per binning of its attribute, shape (n, n_binnings).
    """

    batch: Batch
    mean: Floats
    shift: Floats


def _read(model: ErrorModel, asked: Batch | Grids) -> _Terms:
    batch = asked.cells if isinstance(asked, Grids) else asked
    mean = batch.of_functions(np.array(1.0), lambda a, own: own.means(model.codes[a].margin))
    by_noise = batch.of_functions(
        np.ones(model.n_binnings),
        lambda a, own: np.stack([own.means(weight) for weight in model.codes[a].of_noise], axis=1),
    )
    return _Terms(batch, mean, by_noise - mean[:, None])


def _independent(model: ErrorModel, terms: _Terms) -> Floats:
    """Each quantity if attributes were independent, shape (n,)."""
    batch = terms.batch
    independent: Floats = model.total * batch.sums(terms.mean[batch.place].prod(axis=1))
    return independent


def _common(model: ErrorModel, terms: _Terms) -> Floats:
    """Errors that all quantities share, shape (2, n): a few records that nothing shows, and residuals."""
    batch, largest = terms.batch, np.zeros(len(terms.batch))
    np.maximum.at(largest, batch.quantity, batch.largest_of_terms)
    few = np.where(batch.n_attributes > 1, MIN_ERROR_RECORDS * largest, 0.0)
    return np.stack([few, _residuals(model, terms)])


def _residuals(model: ErrorModel, terms: _Terms) -> Floats:
    """What each quantity misses because the fit misses released tables, shape (n,)."""
    batch, missed = terms.batch, np.zeros(len(terms.batch))
    for attributes, (binnings, cells) in model.residuals.items():
        if not set(attributes) <= set(batch.functions):
            continue
        is_own = batch.attribute[:, :, None] == np.array(attributes)
        rows = np.flatnonzero(is_own.any(axis=1).all(axis=1))
        functions, own = (batch.row[rows, :, None] * is_own[rows]).sum(axis=1), is_own[rows].any(axis=2)
        rest = np.where(own, 1.0, terms.mean[batch.place[rows]]).prod(axis=1)
        means = [
            model.codes[a].means_over_bins(batch.functions[a], binning)
            for a, binning in zip(attributes, binnings, strict=True)
        ]
        step = max(1, MAX_ARRAY_SIZE // cells.size)
        for first in range(0, len(rows), step):
            here = slice(first, first + step)
            left = np.broadcast_to(cells, (len(rows[here]), *cells.shape))
            for own_means, row in zip(means, functions[here].T, strict=True):
                left = np.einsum("nb,nb...->n...", own_means[row], left)
            missed += np.bincount(batch.quantity[rows[here]], left * rest[here], len(batch))
    return missed


def _summed(model: ErrorModel, terms: _Terms, left: Ints, right: Ints) -> Floats:
    """Expected products of the errors of pairs of quantities, from those of pairs of their terms.

    left, right: numbers of the quantities, shape (n,).
    """
    n, quantity = len(left), terms.batch.quantity
    if left is right and len(quantity) == n and (quantity == left).all():
        return _of_terms(model, terms, left, left)
    n_terms = np.bincount(quantity, minlength=len(terms.batch))
    first = np.cumsum(n_terms) - n_terms
    few = n_terms[left] * n_terms[right] <= _MAX_TERM_PAIRS
    n_pairs = np.where(few, n_terms[left] * n_terms[right], 0)
    pair = np.repeat(np.arange(n), n_pairs)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    width = np.maximum(n_terms[right], 1)[pair]
    i, j = first[left[pair]] + place // width, first[right[pair]] + place % width
    errors = _by_quantity(_of_terms(model, terms, i, j), pair, n)
    if few.all():
        return errors
    # Standard errors of all terms of a quantity add up to a bound on that of their sum.
    alone = np.arange(len(quantity))
    roots = np.sqrt(np.maximum(_of_terms(model, terms, alone, alone), 0.0))
    bounds = _by_quantity(roots, quantity, len(terms.batch))
    return errors + np.where(few, 0.0, bounds[:, left] * bounds[:, right])


def _by_quantity(errors: Floats, quantity: Ints, n: int) -> Floats:
    """Sums of errors over the pairs of terms of each of n quantities."""
    return np.stack([np.bincount(quantity, row, n).astype(np.float64) for row in errors])


def _of_terms(model: ErrorModel, terms: _Terms, i: Ints, j: Ints) -> Floats:
    """Expected products of the errors of terms `i` and `j`, shape (2 + N_ORDERS, n_pairs)."""
    attributes, sides, pairs, moments = _pairs(model, terms, i, j)
    width, (noise_of, kept_of, binning_of) = attributes.shape[1], model.of_pairs
    means = [terms.mean[place] for place in sides]
    mean = means[0] * means[-1]
    of_orders, inside = _summed_by_order(mean, pairs, moments)

    def weight(position: int | None) -> Floats:
        """The factor of counts of an attribute, or of all records: the product of the means of all other
        attributes' functions, over bins if a released table counts them together, otherwise over records.
        """
        factors = np.ones(len(attributes))
        for other in range(width):
            if other == position:
                continue
            pair = attributes[:, other], attributes[:, -1 if position is None else position]
            kept, binning = (1.0, 0) if position is None else (kept_of[pair], binning_of[pair])
            for place, own in zip(sides, means, strict=True):
                factor = own[:, other] + kept * terms.shift[place[:, other], binning]
                factors *= factor if len(means) == 2 else factor**2
        return factors

    noise = model.total_variance * weight(None)
    for position in range(width):
        variance = np.append(model.code_variance, 0.0)[attributes[:, position]]
        noise += variance * moments.energy[pairs[:, position], 0] * weight(position)
    for positions in combinations(range(width), 2):
        pair = attributes[:, positions[0]], attributes[:, positions[1]]
        rows = np.flatnonzero(binning_of[pair])
        one, other = pair[0][rows], pair[1][rows]
        energy, explained, whole, scattered = np.ones((4, len(rows)))
        for position, binning in zip(
            positions, (binning_of[one, other], binning_of[other, one]), strict=True
        ):
            which = pairs[rows, position]
            energy *= moments.energy[which, binning]
            explained *= moments.covariance[which, binning]
            whole *= moments.covariance[which, 0]
            scattered *= moments.scattered[which, binning]
        rest = np.delete(mean[rows], positions, axis=1).prod(axis=1)
        noise[rows] += noise_of[one, other] * energy * rest
        of_orders[1, rows] += (scattered - explained - whole) * rest
    scale = model.total**2
    return np.stack([noise, *of_orders * scale, inside * scale])


def _summed_by_order(mean: Floats, which: Ints, moments: Moments) -> tuple[Floats, Floats]:
    """For pairs of terms: Σ over sets of 1, 2, 3, and 4 or more attributes of Π covariances · Π means of the
    others, (N_ORDERS, n); and the uncertainty inside bins, (n,).
    """
    n, width = which.shape
    inside = np.zeros(n)
    sums = np.zeros((N_ORDERS + 1, n))
    sums[0] = 1.0
    for position in range(width):
        own, pair = mean[:, position], which[:, position]
        covariance = moments.covariance[pair, 0]
        inside = inside * own + sums[0] * moments.inside[pair]
        last = sums[-1] * (own + covariance) + sums[-2] * covariance
        sums[1:-1] = sums[1:-1] * own + sums[:-2] * covariance
        sums[0] *= own
        sums[-1] = last
    return sums[1:], inside


def _pairs(
    model: ErrorModel, terms: _Terms, i: Ints, j: Ints
) -> tuple[Ints, tuple[Ints, ...], Ints, Moments]:
    """Pairs of terms, and the moments of all distinct pairs of functions in them.

    Arrays have shape (n_pairs, width). The first lists attributes of which either term has a function, −1
    for none; the next, each term's function of them, numbered as in `place`, 0 for none (one array if terms
    are paired with themselves); the last, the pair's number in the moments, 0 if a function is missing.
    """
    batch, n = terms.batch, len(terms.mean)
    if i is j:
        place = batch.place[i]
        return batch.attribute[i], (place,), place, _moments(model, batch, None)
    attribute, own, other = _joined(batch, i, j)
    key = np.where((own > 0) & (other > 0), own * n + other, 0)
    different, pairs = np.unique(np.append(0, key), return_inverse=True)
    return attribute, (own, other), pairs[1:].reshape(key.shape), _moments(model, batch, different[1:])


def _moments(model: ErrorModel, batch: Batch, pairs: Ints | None) -> Moments:
    """Moments of pairs of functions, after those of no pair, which are 0.

    pairs: index of the one function times the number of all, plus the index of the other, ascending; None for
        all functions with themselves.
    """
    none, n = np.zeros((1, model.n_binnings)), 1 + sum(map(len, batch.functions.values()))
    moments = [Moments(none, none, none, np.zeros(1))]
    for a, functions in batch.functions.items():
        start = batch.offset[a]
        if pairs is None:
            moments.append(model.codes[a].moments(functions, None, None))
            continue
        ends = np.searchsorted(pairs, np.array([start, start + len(functions)]) * n)
        own, other = np.divmod(pairs[slice(*ends)], n)
        moments.append(model.codes[a].moments(functions, own - start, other - start))
    return Moments(*map(np.concatenate, zip(*moments, strict=True)))


def _joined(batch: Batch, i: Ints, j: Ints) -> tuple[Ints, Ints, Ints]:
    """Attributes of pairs of terms, −1 for none, and each term's function of them, 0 for none. Shape
    (n_pairs, width) each.
    """
    own, other, place, other_place = batch.attribute[i], batch.attribute[j], batch.place[i], batch.place[j]
    same = (own[:, :, None] == other[:, None, :]) & (own >= 0)[:, :, None]
    in_other = np.where(same, other_place[:, None, :], 0).sum(axis=2)
    extra = np.where(same.any(axis=1), -1, other)
    attribute = np.concatenate([own, extra], axis=1)
    left_place = np.concatenate([place, np.zeros_like(extra)], axis=1)
    right_place = np.concatenate([in_other, np.where(extra >= 0, other_place, 0)], axis=1)
    # Attributes come first, so that columns that no pair of terms needs can be cut off.
    order = np.argsort(attribute < 0, axis=1, kind="stable")
    width = int((attribute >= 0).sum(axis=1).max(initial=0))
    attribute, left_place, right_place = (
        np.take_along_axis(each, order, axis=1)[:, :width] for each in (attribute, left_place, right_place)
    )
    return attribute, left_place, right_place
