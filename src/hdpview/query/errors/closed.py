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
from hdpview.query.errors.codes import Moments
from hdpview.query.errors.kernels import (
    MAX_PIECE_ORDER,
    MIN_ERROR_RECORDS,
    UNEVEN_WITHIN_BIN,
    ErrorModel,
    error_model,
    lifts,
)
from hdpview.query.estimate.estimates import part_estimates
from hdpview.query.question.batch import Batch, Functions, Grids, pack
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
    variance = np.maximum(_together(model, errors, lift), 0.0) + _min_error(terms) ** 2
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
    least = _min_error(terms).reshape(m, n)
    products: Floats = least[:, None] * least[None, :]
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
    the excess of its mean by noise, per binning of its attribute, shape (n, n_binnings); and the
    typical size of its non-zero values, shape (n,).
    """

    batch: Batch
    mean: Floats
    shift: Floats
    size: Floats


def _read(model: ErrorModel, asked: Batch | Grids) -> _Terms:
    batch = asked.cells if isinstance(asked, Grids) else asked
    mean = batch.of_functions(np.array(1.0), lambda a, own: own.means(model.codes[a].margin))
    by_noise = batch.of_functions(
        np.ones(model.n_binnings),
        lambda a, own: np.stack([own.means(weight) for weight in model.codes[a].of_noise], axis=1),
    )
    size = batch.of_functions(np.array(1.0), lambda a, own: _usual_size(own, model.codes[a].margin))
    return _Terms(batch, mean, by_noise - mean[:, None], size)


def _usual_size(functions: Functions, margin: Floats) -> Floats:
    """Root mean square over records of the non-zero values of each function, shape (n,)."""
    values = functions.values
    records = (values != 0.0) @ margin
    squares = np.divide(values**2 @ margin, records, out=np.zeros(len(values)), where=records > 0)
    at_codes = [np.abs(functions.values_at_codes)] if functions.at_codes else []
    return np.concatenate([np.sqrt(squares), *at_codes])


def _independent(model: ErrorModel, terms: _Terms) -> Floats:
    """Each quantity if attributes were independent, shape (n,)."""
    batch = terms.batch
    independent: Floats = model.total * batch.sums(terms.mean[batch.place].prod(axis=1))
    return independent


def _min_error(terms: _Terms) -> Floats:
    """Error of each quantity if a few more records satisfy it than the model predicts."""
    batch, largest = terms.batch, np.zeros(len(terms.batch))
    sizes = terms.size[batch.place].prod(axis=1)
    np.maximum.at(largest, batch.quantity, sizes)
    return np.where(batch.n_attributes > 1, MIN_ERROR_RECORDS * largest, 0.0)


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
    width, of_pieces = attributes.shape[1], model.of_pieces
    means = [terms.mean[place] for place in sides]
    mean = means[0] * means[-1]
    of_orders, inside = _summed_by_order(mean, pairs, moments)
    pieces = {
        positions: model.piece_numbers(attributes[:, positions])
        for order in range(2, MAX_PIECE_ORDER + 1)
        for positions in combinations(range(width), order)
    }

    def weight(positions: tuple[int, ...], rows: Ints | slice) -> Floats:
        """The factor of joint counts of some attributes: the product of the means of all other attributes'
        functions, over bins if a released table counts them together, otherwise over records.
        """
        factors = np.ones(len(attributes[rows]))
        for other in range(width):
            if other in positions:
                continue
            piece = pieces.get(tuple(sorted((*positions, other))))
            for place, own in zip(sides, means, strict=True):
                factor = own[rows, other]
                if not positions:
                    factor = factor + terms.shift[place[rows, other], 0]
                elif piece is not None:
                    here = piece[rows]
                    binning = of_pieces["binnings"][here, attributes[rows, other]]
                    factor = factor + of_pieces["kept"][here] * terms.shift[place[rows, other], binning]
                factors *= factor if len(means) == 2 else factor**2
        return factors

    every = slice(None)
    noise = model.total_variance * weight((), every)
    for position in range(width):
        variance = np.append(model.code_variance, 0.0)[attributes[:, position]]
        energy = moments.energy[pairs[:, position], 0]
        noise += variance * energy * weight((position,), every)
    for positions, piece in pieces.items():
        rows = np.flatnonzero(piece >= 0)
        if not len(rows):
            continue
        number = piece[rows]
        energy, explained, whole, scattered = np.ones((4, len(rows)))
        for position in positions:
            which, attribute = pairs[rows, position], attributes[rows, position]
            binning = of_pieces["binnings"][number, attribute]
            of_codes, of_bins = moments.scattered[which, binning], moments.covariance[which, binning]
            energy *= moments.energy[which, binning]
            explained *= of_bins
            whole *= moments.covariance[which, 0]
            scattered *= of_bins + of_pieces["scatter"][number, attribute] * (of_codes - of_bins)
        rest = np.delete(mean[rows], positions, axis=1).prod(axis=1)
        noise[rows] += of_pieces["noise"][number] * energy * weight(positions, rows)
        of_orders[len(positions) - 1, rows] += (scattered - explained - whole) * rest
    scale = model.total**2
    return np.stack([noise, *of_orders * scale, inside * (UNEVEN_WITHIN_BIN**2 * scale)])


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
