"""How far a mixture's answers may be off: a sum over what shows in no attribute, in one, in two and so on.

Any function of a record splits into a constant, functions of single attributes, functions of pairs with those
taken out, and so on (Hoeffding's decomposition). The error of each piece is known where a released table
measured it: the noise of that table. What no table measured is the model's own error, of a size that
`Quality` gives per number of attributes. Derived in docs/intervals.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.interval.dependence import dependence
from hdpview.query.question.quantities import Batch, Functions, Inside, Mixed, Points
from hdpview.view.data import ViewPart
from hdpview.view.quality import N_ORDERS
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Typical strength of dependence in a measured table: noise far above it was smoothed away by the fit.
_DEPENDENCE = 0.1
# Of the error that the model would have without a table, what is left with it: the fit is not exact.
_MISFIT = 0.25
# Times the squared dependence that a table shows between its bins: dependence that there may be inside them.
_FINER = 1.2
# Histograms and margins of tables are fitted together, not quite as well as their noise would allow.
_FIT_OF_CODES = 1.25
# How unevenly records lie inside a bin: of a half of it, an interval at 95 % then reaches from nothing to
# all.
_UNEVEN = 0.5


class Errors(NamedTuple):
    """Expected products of errors, shape (n,): explained by noise in tables; and, per unit of each squared
    factor of `Quality`, added by the model, shape (N_ORDERS, n); from dependence inside the bins of tables;
    and from bins of attributes that are cut through. All but noise as if attributes were independent.
    """

    noise: Floats
    model: Floats
    finer: Floats
    inside: Floats


class _Moments(NamedTuple):
    """Of pairs of terms, attribute by attribute, shape (n_pairs, width) each.

    attribute: the attributes that either term has a function of; −1 beyond the last.
    means: product of the two functions' means. covariance: of the two, under the attribute's margin.
    energy: Σ over codes of the product of their deviations from their means. fourth: the root of Σ of its
        squares.
    which: the pair of functions, by its number among the different ones of the attribute, in `functions`.
    functions: attribute → the different pairs: two arrays of shape (n_different, size), two of points, or of
        both.
    rows: attribute → the numbers of the different pairs in their batches, −1 for the constant 1.
    """

    attribute: Ints
    means: Floats
    covariance: Floats
    energy: Floats
    fourth: Floats
    which: Ints
    functions: dict[int, tuple[Functions, Functions]]
    rows: dict[int, tuple[Ints, Ints]]


@dataclass(frozen=True, eq=False)
class MixtureErrors:
    """The errors of one part of a view whose components are a mixture."""

    part: ViewPart

    def of_terms(self, left: Batch, right: Batch, i: Ints, j: Ints) -> Errors:
        """Expected products of the errors of terms `i` of one batch and terms `j` of another, shape
        (n_pairs,).
        """
        moments = self._moments(left, right, i, j)
        constant = left.constant[i] * right.constant[j]
        noise, model = self._noise_of_total_and_histograms(moments), self._by_order(moments)
        has = np.zeros((len(i), len(self.margins) + 1), dtype=bool)  # a column more, for no attribute
        has[np.arange(len(i))[:, None], moments.attribute] = True
        finer, squared = np.zeros(len(noise)), self._total**2
        for table, strength in zip(self._tables, self._strengths, strict=True):
            if any(a not in moments.functions for a in table.attributes):
                continue
            rows = np.flatnonzero(has[:, table.attributes].all(axis=1))
            if not len(rows):
                continue
            added, explained, whole = self._measured(table, moments, rows)
            noise[rows] += added
            model[len(table.attributes) - 1, rows] -= (1.0 - _MISFIT**2) * explained
            finer[rows] += (_FINER * strength**2) ** 2 * (whole - explained)
        inside = self._inside_bins(left, right, moments)
        return Errors(
            noise * constant, model * squared * constant, finer * squared * constant, inside * constant
        )

    def rests_on_tables(self, batch: Batch) -> NDArray[np.bool_]:
        """Whether all attributes of each quantity lie in one released table, shape (n,)."""
        asked = np.zeros((len(batch), len(self.margins)), dtype=bool)
        for position in range(batch.attribute.shape[1]):
            has = batch.attribute[:, position] >= 0
            asked[batch.quantity[has], batch.attribute[has, position]] = True
        found: NDArray[np.bool_] = ~np.any(asked, axis=1)
        for table in self.part.tables:
            others = np.ones(len(self.margins), dtype=bool)
            others[list(table.attributes)] = False
            found |= ~np.any(asked[:, others], axis=1)
        return found & ~_cuts(batch)

    def beyond_independence(self, batch: Batch, estimate: Floats) -> Floats:
        """How many times more records lie there than if attributes were independent, at least 1, shape
        (n,).
        """
        means = [np.ones(1)]
        for a, functions in batch.functions.items():
            means.append(_means(functions, self.margins[a]))
        independent = self._total * batch.sums(
            batch.constant * np.concatenate(means)[batch.place].prod(axis=1)
        )
        return np.maximum(
            np.divide(estimate, independent, out=np.ones(len(batch)), where=independent > 0), 1.0
        )

    def largest(self, batch: Batch) -> Floats:
        """The most that one record may add to each quantity, in size, shape (n,)."""
        of_functions = [np.ones(1), *map(_largest, batch.functions.values())]
        of_terms = np.abs(batch.constant) * np.concatenate(of_functions)[batch.place].prod(axis=1)
        found = np.zeros(len(batch))
        np.maximum.at(found, batch.quantity, of_terms)
        return found

    # What the released tables say, once per view.

    @cached_property
    def _total(self) -> float:
        return max(float(self.part.components.weight.sum()), 1.0)

    @cached_property
    def margins(self) -> list[Floats]:
        """Share of the records at each code, per attribute."""
        components = self.part.components
        return [components.grid([a], components.weight) / self._total for a in range(len(components.sizes))]

    @cached_property
    def _total_variance(self) -> float:
        """Every table measures the total; the fit combines them by precision."""
        precision = sum(1.0 / (table.counts.size * table.variance) for table in self.part.tables)
        return 1.0 / precision if precision else self._total**2

    @cached_property
    def _code_variance(self) -> Floats:
        """Of the noise that is left in the count of one code, per attribute: its histogram's and its tables'
        margins'.
        """
        sizes = self.part.components.sizes
        precision = np.zeros(len(sizes))
        for table in self.part.tables:
            for a, n_bins in zip(table.attributes, table.counts.shape, strict=True):
                of_bin = table.variance * table.counts.size / n_bins
                precision[a] += min(1.0, n_bins / sizes[a]) / of_bin
        found: Floats = np.divide(
            _FIT_OF_CODES, precision, out=np.full(len(sizes), self._total**2), where=precision > 0
        )
        return found

    @cached_property
    def _tables(self) -> list[Table]:
        """Tables of several attributes; of those with the same attributes, the most precise."""
        best: dict[tuple[int, ...], Table] = {}
        for table in self.part.tables:
            known = best.get(table.attributes)
            if len(table.attributes) > 1 and (known is None or table.variance < known.variance):
                best[table.attributes] = table
        return list(best.values())

    @cached_property
    def _strengths(self) -> list[float]:
        """How strongly the attributes of each table depend, of tables of two."""
        return [dependence(self.part, table) if len(table.attributes) == 2 else 0.0 for table in self._tables]

    def _averages(self, a: int, bins: NDArray[np.int32]) -> Floats:
        """The matrix that averages functions of an attribute's codes over bins, shape (size, n_bins)."""
        key = (a, id(bins))
        if key not in self._known_averages:
            margin = self.margins[a]
            of_bin = np.bincount(bins, margin)
            weight = np.divide(margin, of_bin[bins], out=np.zeros_like(margin), where=of_bin[bins] > 0)
            matrix = np.zeros((len(bins), len(of_bin)))
            matrix[np.arange(len(bins)), bins] = weight
            self._known_averages[key] = matrix
        return self._known_averages[key]

    @cached_property
    def _known_averages(self) -> dict[tuple[int, int], Floats]:
        return {}

    # Pairs of terms.

    def _moments(self, left: Batch, right: Batch, i: Ints, j: Ints) -> _Moments:
        attribute, rows_left, rows_right = _joined(left, right, i, j)
        shape = attribute.shape
        means, covariance, energy, fourth = np.ones(shape), *np.zeros((3, *shape))
        which = np.zeros(shape, np.int64)
        functions: dict[int, tuple[Functions, Functions]] = {}
        rows: dict[int, tuple[Ints, Ints]] = {}
        for a in np.unique(attribute).tolist():
            if a < 0:
                continue
            here = attribute == a
            n = int(rows_right[here].max()) + 2
            different, which[here] = np.unique(
                (rows_left[here] + 1) * n + rows_right[here] + 1, return_inverse=True
            )
            own, other = different // n - 1, different % n - 1
            one = _chosen(left.functions.get(a), own)
            is_same = left is right and np.array_equal(own, other)
            pair = one, one if is_same else _chosen(right.functions.get(a), other)
            of_pairs = _gram(*pair, self.margins[a])
            for column, values in zip((means, covariance, energy, fourth), of_pairs, strict=True):
                column[here] = values[which[here]]
            functions[a], rows[a] = pair, (own, other)
        return _Moments(attribute, means, covariance, energy, fourth, which, functions, rows)

    def _inside_bins(self, left: Batch, right: Batch, moments: _Moments) -> Floats:
        """From bins that are cut through, and from values that differ inside bins, shape (n_pairs,)."""
        found = np.zeros(len(moments.attribute))
        for a in left.inside.keys() & right.inside.keys() & moments.functions.keys():
            of_pairs = _inside(left.inside[a], right.inside[a], *moments.rows[a], self.margins[a])
            here = moments.attribute == a
            rest = np.where(here, 1.0, moments.means).prod(axis=1)
            found += np.where(here, of_pairs[np.where(here, moments.which, 0)], 0.0).sum(axis=1) * rest
        return found * (_UNEVEN * self._total) ** 2

    def _noise_of_total_and_histograms(self, moments: _Moments) -> Floats:
        found: Floats = moments.means.prod(axis=1) * self._total_variance
        variance = np.append(self._code_variance, 0.0)[moments.attribute]
        width = moments.attribute.shape[1]
        for position in range(width):
            rest = moments.means[:, [other for other in range(width) if other != position]].prod(axis=1)
            found += variance[:, position] * moments.energy[:, position] * rest
        return found

    def _by_order(self, moments: _Moments) -> Floats:
        """Σ over sets of 1, 2, 3, and 4 or more attributes of Π covariances · Π means of the others,
        (N_ORDERS, n).

        Margins are known up to noise: where the view sees no records, there may be as many as noise hides.
        """
        n, width = moments.means.shape
        hidden = (
            np.sqrt(np.append(self._code_variance, 0.0))[moments.attribute] / self._total * moments.fourth
        )
        found = np.zeros((N_ORDERS + 1, n))
        found[0] = 1.0
        for position in range(width):
            mean = moments.means[:, position]
            covariance = moments.covariance[:, position] + hidden[:, position]
            last = found[-1] * (mean + covariance) + found[-2] * covariance
            found[1:-1] = found[1:-1] * mean + found[:-2] * covariance
            found[0] *= mean
            found[-1] = last
        return found[1:]

    def _measured(self, table: Table, moments: _Moments, rows: Ints) -> tuple[Floats, Floats, Floats]:
        """Noise of a table in pairs of terms about all its attributes, what of the model it replaces, and of
        how much that is a part.
        """
        attribute, which_of = moments.attribute[rows], moments.which[rows]
        energy, covariance, whole = np.ones((3, len(rows)))
        others = np.ones(attribute.shape, dtype=bool)
        for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
            here = attribute == a
            others &= ~here
            one, other = moments.functions[a]
            of_bins = _binned(one, other, self.margins[a], bins, self._averages(a, bins))
            which = which_of[here]
            energy *= of_bins[0][which]
            covariance *= of_bins[1][which]
            whole *= moments.covariance[rows][here]
        rest = np.where(others, moments.means[rows], 1.0).prod(axis=1)
        signal = (_DEPENDENCE * self._total) ** 2
        kept = signal / (signal + table.variance * table.counts.size)
        return kept * table.variance * energy * rest, covariance * rest, whole * rest


def _cuts(batch: Batch) -> NDArray[np.bool_]:
    """Whether each quantity cuts through a bin, shape (n,)."""
    found = np.zeros(len(batch), dtype=bool)
    for a, inside in batch.inside.items():
        cut: NDArray[np.bool_] = (inside.share > 0.0) & (inside.share < 1.0)
        of_functions = np.where(
            inside.code >= 0, cut[inside.origin, inside.code], np.any(cut, axis=1)[inside.origin]
        )
        here = batch.attribute == a
        of_terms = np.any(here & of_functions[np.where(here, batch.row, 0)], axis=1)
        found[batch.quantity[of_terms]] = True
    return found


def _inside(left: Inside, right: Inside, own: Ints, other: Ints, margin: Floats) -> Floats:
    """Of pairs of functions, what both leave open inside bins, per squared total, shape (n,).

    Where a bin is cut through, two functions of the same condition ask for the same records of it. Those of
    different conditions may ask for others: as few in common as their shares allow.
    """
    found = np.zeros(len(own))
    code = np.maximum(left.code[own], right.code[other])
    both = (own >= 0) & (other >= 0)
    for rows in (np.flatnonzero(both & (code < 0)), np.flatnonzero(both & (code >= 0))):
        # All codes of a function, or the one of a point: shape (n, size) or (n, 1).
        codes = np.arange(len(margin))[None] if (code[rows] < 0).all() else code[rows][:, None]
        one, two = left.origin[own[rows]][:, None], right.origin[other[rows]][:, None]
        share, share_two = left.share[one, codes], right.share[two, codes]
        same = left.condition[one] == right.condition[two]
        common = np.where(same, np.minimum(share, share_two), np.maximum(share + share_two - 1.0, 0.0))
        weight = margin[codes]
        cut = (common - share * share_two) * left.value[one, codes] * right.value[two, codes] * weight**2
        # Records of all bins may lie to the same side, as where values are rounded.
        spread = (share * left.spread[one, codes] * weight).sum(axis=1)
        spread_two = (share_two * right.spread[two, codes] * weight).sum(axis=1)
        found[rows] = cut.sum(axis=1) + spread * spread_two
    return found


def _joined(left: Batch, right: Batch, i: Ints, j: Ints) -> tuple[Ints, Ints, Ints]:
    """Attributes of pairs of terms, and each term's functions of them; −1 for none. Shape (n_pairs, width)
    each.
    """
    own, other = left.attribute[i], right.attribute[j]
    if left is right and np.array_equal(i, j):
        return own, left.row[i], left.row[i]
    rows_of_own, rows_of_other = left.row[i], right.row[j]
    in_other = np.full(own.shape, -1)
    for position in range(own.shape[1] if other.shape[1] else 0):
        same = (other == own[:, position : position + 1]) & (other >= 0)
        has = same.any(axis=1)
        in_other[has, position] = rows_of_other[has, same[has].argmax(axis=1)]
    extra = other.copy()
    for position in range(other.shape[1]):
        extra[(own == other[:, position : position + 1]).any(axis=1), position] = -1
    nothing = np.full(extra.shape, -1)
    return (
        np.concatenate([own, extra], axis=1),
        np.concatenate([rows_of_own, nothing], axis=1),
        np.concatenate([in_other, np.where(extra >= 0, rows_of_other, -1)], axis=1),
    )


def _means(functions: Functions, margin: Floats) -> Floats:
    """Means of functions under a margin, shape (n,)."""
    if isinstance(functions, Mixed):
        return np.concatenate([_means(functions.dense, margin), _means(functions.points, margin)])
    if isinstance(functions, Points):
        return functions.value * margin[functions.code]
    means: Floats = functions @ margin
    return means


def _largest(functions: Functions) -> Floats:
    """The largest size of each function's values, shape (n,)."""
    if isinstance(functions, Mixed):
        return np.concatenate([_largest(functions.dense), _largest(functions.points)])
    if isinstance(functions, Points):
        return np.abs(functions.value)
    found: Floats = np.abs(functions).max(axis=1)
    return found


def _chosen(functions: Functions | None, rows: Ints) -> Functions:
    """Functions of an attribute by their numbers, which rise; the constant 1 for −1."""
    if isinstance(functions, Mixed):
        n_dense = len(functions.dense)
        border = int(np.searchsorted(rows, n_dense))
        dense, points = (
            _chosen(functions.dense, rows[:border]),
            _chosen(functions.points, rows[border:] - n_dense),
        )
        assert isinstance(dense, np.ndarray)
        assert isinstance(points, Points)
        return Mixed(dense, points)
    if isinstance(functions, Points):
        return Points(functions.code[rows], np.where(rows >= 0, functions.value[rows], np.nan))
    if functions is None:
        return np.full((len(rows), 1), 1.0)
    return np.where((rows >= 0)[:, None], functions[rows], 1.0)


def _gram(left: Functions, right: Functions, margin: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Products of means, covariances, energies and fourths of pairs of functions under a margin, shape (n,)
    each.
    """
    if isinstance(left, Mixed) and isinstance(right, Mixed):
        dense = _gram(left.dense, right.dense, margin)
        points = _gram(left.points, right.points, margin)
        means, covariance, energy, fourth = map(np.concatenate, zip(dense, points, strict=True))
        return means, covariance, energy, fourth
    assert not isinstance(left, Mixed)
    assert not isinstance(right, Mixed)
    if isinstance(left, Points) or isinstance(right, Points):
        return _gram_of_points(left, right, margin)
    mean_left, mean_right = _mean(left, margin), _mean(right, margin)
    one = left - mean_left[:, None]
    deviation = one**2 if left is right else one * (right - mean_right[:, None])
    deviation = np.broadcast_to(deviation, (len(deviation), len(margin)))
    fourth = np.sqrt(np.einsum("nc,nc->n", deviation, deviation))
    return mean_left * mean_right, deviation @ margin, deviation.sum(axis=1), fourth


def _mean(functions: Floats, margin: Floats) -> Floats:
    means: Floats = functions @ margin if functions.shape[1] == len(margin) else functions[:, 0]
    return means


def _gram_of_points(
    left: Floats | Points, right: Floats | Points, margin: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """The same where one of the two at least is 0 but for one code."""
    code = (
        left.code
        if isinstance(left, Points)
        else right.code
        if isinstance(right, Points)
        else np.zeros(0, np.int64)
    )
    share = margin[code]
    one = _at_points(left, share)
    other = one if left is right else _at_points(right, share)
    both = one.is_point & other.is_point
    means = one.mean * other.mean
    covariance = np.where(both, one.value * other.value * share - means, 0.0)
    at_code = (one.value - one.mean) * (other.value - other.mean)
    energy = at_code + (len(margin) - 1) * means
    fourth = np.sqrt(at_code**2 + (len(margin) - 1) * means**2)
    return means, covariance, np.where(both, energy, 0.0), np.where(both, fourth, 0.0)


class _AtPoints(NamedTuple):
    """Functions at one code each: whether they are points or the constant 1, their values, and their
    means.
    """

    is_point: NDArray[np.bool_]
    value: Floats
    mean: Floats


def _at_points(functions: Floats | Points, share: Floats) -> _AtPoints:
    """share: of the records at the code of each function."""
    if not isinstance(functions, Points):
        ones = np.ones(len(share))
        return _AtPoints(np.zeros(len(share), dtype=bool), ones, ones)
    is_one = np.isnan(functions.value)
    value = np.where(is_one, 1.0, functions.value)
    return _AtPoints(~is_one, value, np.where(is_one, 1.0, value * share))


def _binned(
    left: Functions, right: Functions, margin: Floats, bins: NDArray[np.int32], averages: Floats
) -> tuple[Floats, Floats]:
    """Energies and covariances of pairs of functions whose values are averaged over bins, shape (n,) each."""
    if isinstance(left, Mixed) and isinstance(right, Mixed):
        dense = _binned(left.dense, right.dense, margin, bins, averages)
        points = _binned(left.points, right.points, margin, bins, averages)
        energy, covariance = map(np.concatenate, zip(dense, points, strict=True))
        return energy, covariance
    assert not isinstance(left, Mixed)
    assert not isinstance(right, Mixed)
    of_bin: Floats = np.bincount(bins, margin).astype(np.float64)
    if isinstance(left, Points) or isinstance(right, Points):
        inverse = np.divide(1.0, of_bin, out=np.zeros_like(of_bin), where=of_bin > 0)
        one = _averaged_point(left, margin, bins, inverse)
        other = one if left is right else _averaged_point(right, margin, bins, inverse)
        _, covariance, energy, _ = _gram_of_points(one, other, of_bin)
        return energy, covariance
    mean_left = np.broadcast_to(left, (len(left), len(margin))) @ averages
    mean_right = mean_left if left is right else np.broadcast_to(right, (len(right), len(margin))) @ averages
    _, covariance, energy, _ = _gram(mean_left, mean_right, of_bin)
    return energy, covariance


def _averaged_point(
    functions: Floats | Points, margin: Floats, bins: NDArray[np.int32], inverse: Floats
) -> Floats | Points:
    if not isinstance(functions, Points):
        return functions
    code = functions.code
    return Points(bins[code].astype(np.int64), functions.value * margin[code] * inverse[bins[code]])
