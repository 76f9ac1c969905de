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

from hdpview.query.bounds.noise import NoiseLaw, bounded_quantile
from hdpview.query.errors.blocks import block_spreads, block_sums
from hdpview.query.errors.codes import Moments
from hdpview.query.errors.kernels import (
    MAX_PIECE_ORDER,
    MIN_ERROR_RECORDS,
    UNEVEN_WITHIN_BIN,
    ErrorModel,
    error_model,
)
from hdpview.query.estimate.estimates import part_estimates
from hdpview.query.question.batch import Batch, Functions, Grids
from hdpview.query.question.quantities import Quantity
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.quality import N_ORDERS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_MAX_TERM_PAIRS = 64  # of one quantity; beyond, standard errors of terms are added up instead


class NoiseSums(NamedTuple):
    """Noise in estimates, shape (n,) each: variance, fourth cumulant, and largest weight of one count.

    scale: of discrete Laplace noise on single counts; 0 without such noise.
    """

    variance: Floats
    fourth: Floats
    largest: Floats
    scale: float

    def plus(self, other: NoiseSums) -> NoiseSums:
        """Noise in sums of the same estimates from two parts of a view."""
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
        # If nearly all noise is 0, a standard deviation misses the tails; the largest weight covers them.
        least = NoiseLaw(self.scale).quantile_of_one(confidence) if self.scale else 0
        return np.where(self.variance > 0, np.maximum(width, least * self.largest), 0.0)


class Evaluation(NamedTuple):
    """Estimates and their errors, shape (n,) each.

    estimate: the consistent estimate. raw: the unbiased one of blocks; a mixture has the same for both.
    noise: noise in the raw estimate.
    variance: expected squared error of the consistent estimate; raw_variance: of the raw one.
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

    def only(self, rows: Ints) -> Evaluation:
        """Some of the quantities."""
        variance, fourth, largest = (column[rows] for column in self.noise[:3])
        noise = NoiseSums(variance, fourth, largest, self.noise.scale)
        return Evaluation(
            self.estimate[rows], self.raw[rows], noise, self.variance[rows], self.raw_variance[rows]
        )


def evaluate(view: ViewData, asked: Batch | Grids, records: Batch | None = None) -> Evaluation:
    """Every quantity, with its errors.

    records: for quantities that may be negative, counts of the underlying records: one count per k
        consecutive quantities; its lift scales their model error.
    """
    evaluations = (
        _of_blocks(part, asked) if isinstance(part.components, Blocks) else _of_mixture(part, asked, records)
        for part in view.parts
    )
    return reduce(Evaluation.plus, evaluations)


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
    # The distance between raw and consistent counts counts as error.
    return Evaluation(sums.estimate, sums.raw, noise, uneven + (sums.raw - sums.estimate) ** 2, uneven)


def _orders(asked: Batch | Grids) -> Ints:
    """The index of each quantity's factor in `Quality`, shape (n,)."""
    batch = asked.cells if isinstance(asked, Grids) else asked
    return np.clip(batch.n_attributes, 1, N_ORDERS) - 1


def _of_mixture(part: ViewPart, asked: Batch | Grids, records: Batch | None = None) -> Evaluation:
    model, estimate = error_model(part), part_estimates(part, asked)
    terms = _read(model, asked)
    errors = _summed(model, terms, terms)
    if records is None:
        lift = _lift(model, terms, estimate)
    else:
        own = _lift(model, _read(model, records), part_estimates(part, records))
        lift = np.repeat(own, len(asked) // max(len(records), 1))
    noise = np.maximum(errors.noise, 0.0)
    variance = np.maximum(errors.together(model, lift), 0.0) + _min_error(terms) ** 2
    zero = np.zeros(len(asked))
    return Evaluation(estimate, estimate, NoiseSums(noise, zero, zero, 0.0), variance, variance)


class Scales(NamedTuple):
    """Estimates, known squared errors, and those of the model per unit of each squared factor.

    Shapes (n,), (n,) and (N_ORDERS, n).
    """

    estimate: Floats
    known: Floats
    model: Floats


def model_scales(part: ViewPart, batch: Batch) -> Scales:
    """The parts of a view's errors, before they are scaled by the factors of `Quality`."""
    if isinstance(part.components, Blocks):
        sums = block_sums(part.components, batch)
        noise = NoiseLaw(part.components.noise_scale).variance * sums.squares
        of_orders = np.zeros((N_ORDERS, len(batch)))
        of_orders[_orders(batch), np.arange(len(batch))] = sums.spread**2
        return Scales(sums.estimate, noise + (sums.raw - sums.estimate) ** 2, of_orders)
    model, estimate = error_model(part), part_estimates(part, batch)
    terms = _read(model, batch)
    errors, lift = _summed(model, terms, terms), _lift(model, terms, estimate)
    of_orders = errors.model * lift
    all_errors = errors.together(model, lift) + _min_error(terms) ** 2
    return Scales(estimate, all_errors - np.square(model.factors) @ of_orders, of_orders)


def covariances(
    view: ViewData, asked: Sequence[Batch | Grids], quantities: Sequence[Sequence[Quantity]] = ()
) -> Floats:
    """Expected products of the errors of m quantities in each of n groups, shape (m, m, n).

    asked: the i-th quantity of all groups. quantities: the same as single quantities, for views of blocks:
        quantities[i][g] is the i-th of group g.
    """
    products = np.zeros((len(asked), len(asked), len(asked[0])))
    for part in view.parts:
        if isinstance(part.components, Blocks):
            spreads = block_spreads(part.components, quantities, view.schema)
            size = np.array(part.quality.factors)[np.stack(list(map(_orders, asked)))] * spreads.spread
            noise = NoiseLaw(part.components.noise_scale).variance * spreads.squares
            products += noise + size[:, None] * size[None, :] * spreads.correlation
            continue
        model = error_model(part)
        terms = [_read(model, each) for each in asked]
        estimates = [
            part_estimates(part, each) if own.batch.is_count else None
            for each, own in zip(asked, terms, strict=True)
        ]
        lift, least = _lifts(model, terms, estimates), np.stack([_min_error(own) for own in terms])
        products += least[:, None] * least[None, :]
        for i, j in zip(*np.tril_indices(len(asked)), strict=True):
            errors = _summed(model, terms[i], terms[j])
            added = errors.together(model, np.sqrt(lift[i] * lift[j]))
            products[i, j] += added
            if i != j:
                products[j, i] += added
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


# Errors of a mixture: sums of kernels over pairs of terms.


class _Errors(NamedTuple):
    """Expected products of errors, shape (n,): from noise and misfit of tables; from the model, per unit of
    each squared factor, shape (N_ORDERS, n); from dependence inside bins of tables; and from cut bins.
    """

    noise: Floats
    model: Floats
    within: Floats
    inside: Floats

    def together(self, model: ErrorModel, lift: Floats) -> Floats:
        """Sum of all errors. lift: ratio of records to those under independence; errors grow with it."""
        total: Floats = (self.noise + model.levels @ self.model + self.within) * lift
        return total + self.inside * lift**2


class _Terms(NamedTuple):
    """A batch with, for each of its functions (numbered as in `place`), its mean over records, shape (n,);
    the excess of its plain mean over bins, per binning of its attribute, shape (n, n_binnings); and the
    typical size of its non-zero values, shape (n,).
    """

    batch: Batch
    mean: Floats
    shift: Floats
    size: Floats


class _Pairs(NamedTuple):
    """Pairs of terms, shape (n_pairs, width) each.

    attribute: attributes of which either term has a function, −1 for none.
    left, right: each term's function of it, numbered as in `place`, 0 for none.
    which: number of the pair of functions in moments, 0 if one is missing.
    """

    attribute: Ints
    left: Ints
    right: Ints
    which: Ints


def _read(model: ErrorModel, asked: Batch | Grids) -> _Terms:
    batch = asked.cells if isinstance(asked, Grids) else asked
    mean = batch.of_functions(np.array(1.0), lambda a, own: own.means(model.codes[a].margin))
    plain = batch.of_functions(
        np.ones(model.n_binnings),
        lambda a, own: np.stack([own.means(even) for even in model.codes[a].even], axis=1),
    )
    size = batch.of_functions(np.array(1.0), lambda a, own: _usual_size(own, model.codes[a].margin))
    return _Terms(batch, mean, plain - mean[:, None], size)


def _usual_size(functions: Functions, margin: Floats) -> Floats:
    """Root mean square over records of the non-zero values of each function, shape (n,)."""
    values = functions.values
    records = (values != 0.0) @ margin
    squares = np.divide(values**2 @ margin, records, out=np.zeros(len(values)), where=records > 0)
    at_codes = [np.abs(functions.values_at_codes)] if functions.at_codes else []
    return np.concatenate([np.sqrt(squares), *at_codes])


def _lift(model: ErrorModel, terms: _Terms, estimate: Floats) -> Floats:
    """Ratio of records to those expected under independence, at least 1, shape (n,)."""
    batch = terms.batch
    independent = model.total * batch.sums(batch.constant * terms.mean[batch.place].prod(axis=1))
    lift: Floats = np.divide(estimate, independent, out=np.ones(len(batch)), where=independent > 0)
    return np.maximum(lift, 1.0)


def _lifts(model: ErrorModel, terms: Sequence[_Terms], estimates: Sequence[Floats | None]) -> Floats:
    """The lift of each quantity in each group, shape (m, n).

    estimates: of counts; None for sums of values, which use the lift of their group's largest count.
    """
    lifts = np.ones((len(terms), len(terms[0].batch)))
    largest = np.full(lifts.shape[1], -np.inf)
    of_largest = np.ones(lifts.shape[1])
    for own, each, estimate in zip(lifts, terms, estimates, strict=True):
        if estimate is not None:
            own[:] = _lift(model, each, estimate)
            of_largest = np.where(estimate > largest, own, of_largest)
            largest = np.maximum(estimate, largest)
    lifts[[estimate is None for estimate in estimates]] = of_largest
    return lifts


def _min_error(terms: _Terms) -> Floats:
    """Error of each quantity if there are a few more records than the model predicts."""
    batch, largest = terms.batch, np.zeros(len(terms.batch))
    sizes = np.abs(batch.constant) * terms.size[batch.place].prod(axis=1)
    np.maximum.at(largest, batch.quantity, sizes)
    return np.where(batch.n_attributes > 1, MIN_ERROR_RECORDS * largest, 0.0)


def _summed(model: ErrorModel, left: _Terms, right: _Terms) -> _Errors:
    """Errors of quantities from those of pairs of their terms."""
    n = len(left.batch)
    n_left, n_right = (np.bincount(each.batch.quantity, minlength=n) for each in (left, right))
    if left is right and (n_left == 1).all():
        every = np.arange(n)
        return _of_terms(model, left, left, every, every)
    few = n_left * n_right <= _MAX_TERM_PAIRS
    n_pairs = np.where(few, n_left * n_right, 0)
    quantity = np.repeat(np.arange(n), n_pairs)
    place = np.arange(len(quantity)) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    width = np.maximum(n_right, 1)[quantity]
    first_left, first_right = (np.cumsum(each) - each for each in (n_left, n_right))
    i, j = first_left[quantity] + place // width, first_right[quantity] + place % width
    errors = _by_quantity(_of_terms(model, left, right, i, j), quantity, n)
    if few.all():
        return errors
    roots = [_roots(model, each, ~few) for each in (left, right)]
    return _Errors(*(own + one * other for own, one, other in zip(errors, *roots, strict=True)))


def _by_quantity(errors: _Errors, quantity: Ints, n: int) -> _Errors:
    """Sums of errors over the pairs of terms of each of n quantities."""
    rows = (errors.noise, *errors.model, errors.within, errors.inside)
    noise, *model, within, inside = (np.bincount(quantity, row, n).astype(np.float64) for row in rows)
    return _Errors(noise, np.stack(model), within, inside)


def _roots(model: ErrorModel, terms: _Terms, chosen: Flags) -> _Errors:
    """Sum of the standard errors of all terms of the chosen quantities: a bound on that of the terms' sum."""
    quantity = terms.batch.quantity
    some = np.flatnonzero(chosen[quantity])
    errors = _of_terms(model, terms, terms, some, some)
    roots = _Errors(*(np.sqrt(np.maximum(each, 0.0)) for each in errors))
    return _by_quantity(roots, quantity[some], len(terms.batch))


def _of_terms(model: ErrorModel, left: _Terms, right: _Terms, i: Ints, j: Ints) -> _Errors:
    """Expected products of the errors of terms `i` of one batch and `j` of another, shape (n_pairs,)."""
    pairs, moments = _pairs(model, left, right, i, j)
    n, width = pairs.attribute.shape
    # Terms paired with themselves have one side, which is then both the first and the last.
    sides = [(left, pairs.left), (right, pairs.right)]
    if left is right and pairs.left is pairs.right:
        sides = sides[:1]
    means = [terms.mean[place] for terms, place in sides]
    mean = means[0] * means[-1]
    of_orders, inside = _summed_by_order(mean, pairs.which, moments)
    pieces = {
        positions: model.piece_numbers(pairs.attribute[:, positions])
        for order in range(2, MAX_PIECE_ORDER + 1)
        for positions in combinations(range(width), order)
    }

    def weight(positions: tuple[int, ...], rows: Ints | slice) -> Floats:
        """The factor of joint counts of some attributes: the product of the means of all other attributes'
        functions, over bins if a released table counts them together, otherwise over records.
        """
        factors = np.ones(len(pairs.attribute[rows]))
        for other in range(width):
            if other in positions:
                continue
            piece = pieces.get(tuple(sorted((*positions, other))))
            for (terms, place), own in zip(sides, means, strict=True):
                factor = own[rows, other]
                if not positions:
                    factor = factor + terms.shift[place[rows, other], 0]
                elif piece is not None:
                    here = piece[rows]
                    binning = model.piece_binning[here, pairs.attribute[rows, other]]
                    factor = factor + model.of_pieces["kept"][here] * terms.shift[place[rows, other], binning]
                factors *= factor if len(sides) == 2 else factor**2
        return factors

    every = slice(None)
    noise = model.total_variance * weight((), every)
    for position in range(width):
        variance = np.append(model.code_variance, 0.0)[pairs.attribute[:, position]]
        energy = moments.energy[pairs.which[:, position], 0]
        noise += variance * energy * weight((position,), every)
    within = np.zeros(n)
    for positions, piece in pieces.items():
        rows = np.flatnonzero(piece >= 0)
        if not len(rows):
            continue
        number = piece[rows]
        energy, explained, whole, scattered = np.ones((4, len(rows)))
        for position in positions:
            which, attribute = pairs.which[rows, position], pairs.attribute[rows, position]
            binning = model.piece_binning[number, attribute]
            of_codes, of_bins = moments.scattered[which, binning], moments.covariance[which, binning]
            energy *= moments.energy[which, binning]
            explained *= of_bins
            whole *= moments.covariance[which, 0]
            scattered *= of_bins + model.piece_scatter[number, attribute] * (of_codes - of_bins)
        rest = np.delete(mean[rows], positions, axis=1).prod(axis=1)
        noise[rows] += model.of_pieces["noise"][number] * energy * weight(positions, rows)
        of_orders[len(positions) - 1, rows] += (scattered - explained - whole) * rest
        within[rows] += model.of_pieces["within"][number] * (scattered - explained) * rest
    constant = left.batch.constant[i] * right.batch.constant[j]
    scale = model.total**2 * constant
    return _Errors(
        noise * constant, of_orders * scale, within * scale, inside * (UNEVEN_WITHIN_BIN**2 * scale)
    )


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


def _pairs(model: ErrorModel, left: _Terms, right: _Terms, i: Ints, j: Ints) -> tuple[_Pairs, Moments]:
    """Pairs of terms, and the moments of all distinct pairs of functions in them."""
    if left is right and i is j:
        which = left.batch.place[i]
        return _Pairs(left.batch.attribute[i], which, which, which), _moments(model, left, right, None)
    attribute, own, other = _joined(left.batch, right.batch, i, j)
    key = np.where((own > 0) & (other > 0), own * len(right.mean) + other, 0)
    different, which = np.unique(key, return_inverse=True)
    first = int(len(different) > 0 and different[0] == 0)
    which = which.reshape(key.shape) + (1 - first)
    return _Pairs(attribute, own, other, which), _moments(model, left, right, different[first:])


def _moments(model: ErrorModel, left: _Terms, right: _Terms, pairs: Ints | None) -> Moments:
    """Moments of pairs of functions, after those of no pair, which are 0.

    pairs: index of the left function times the number of right functions, plus the index of the right one,
        ascending; None for all functions with themselves.
    """
    none = np.zeros((1, model.n_binnings))
    moments = [Moments(none, none, none, np.zeros(1))]
    for a, functions in left.batch.functions.items():
        others, start = right.batch.functions.get(a), left.batch.offset[a]
        if others is None:
            continue
        end = start + len(functions)
        if pairs is None:
            moments.append(model.codes[a].moments(functions, functions, None, None))
            continue
        ends = np.searchsorted(pairs, np.array([start, end]) * len(right.mean))
        own, other = np.divmod(pairs[slice(*ends)], len(right.mean))
        other -= right.batch.offset[a]
        moments.append(model.codes[a].moments(functions, others, own - start, other))
    return Moments(*map(np.concatenate, zip(*moments, strict=True)))


def _joined(left: Batch, right: Batch, i: Ints, j: Ints) -> tuple[Ints, Ints, Ints]:
    """Attributes of pairs of terms, −1 for none, and each term's function of them, 0 for none. Shape
    (n_pairs, width) each.
    """
    own, other, place, other_place = left.attribute[i], right.attribute[j], left.place[i], right.place[j]
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
