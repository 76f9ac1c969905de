"""How far a mixture's answers may be off: a sum over what shows in no attribute, in one, in two and so on.

Any function of a record splits into a constant, functions of single attributes, functions of pairs with those
taken out, and so on (Hoeffding's decomposition). The error of each piece is known where a released table
measured it: the noise of that table. What no table measured is the model's own error, of a size that
`Quality` gives per number of attributes. Derived in docs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.interval.codes import Codes, Moments
from hdpview.query.interval.dependence import dependence
from hdpview.query.question.batch import Batch
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.quality import LAPLACE_SQUARES, N_ORDERS
from hdpview.view.tables import Table, pairs_inside

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Positions in terms whose attributes were counted together → for which terms, and in which table.
Measured = dict[tuple[int, ...], tuple[Ints, Ints]]
# Positions in terms → what counts of their attributes are multiplied with in each term; () for the total.
Weights = dict[tuple[int, ...], Floats]
# Typical strength of dependence in a measured table: noise far above it was smoothed away by the fit.
_DEPENDENCE = 0.1
# Of the error that the model would have without a table, what is left with it: the fit is not exact.
_MISFIT = 0.25
# Times the squared dependence that a table shows between its bins: dependence that there may be inside them.
_FINER = 0.9
_MOST_CELLS = 1_000_000  # of a table that is compared with the fit
# The number of records, histograms and tables are fitted together, not quite as well as their noise would
# allow.
_OF_THE_FIT = 1.25
# How unevenly records lie inside a bin: of a half of it, an interval at 95 % then reaches from nothing to
# all.
_UNEVEN = 0.5
# Of records that are an exception in two attributes, where most records satisfy conditions on both that were
# not counted together: as a share of the fewer exceptions, which are this share of all records at most.
_COINCIDE, _RARE = 0.4, 0.02


class Errors(NamedTuple):
    """Expected products of errors, shape (n,): explained by noise in tables; and, per unit of each squared
    factor of `Quality`, added by the model, shape (N_ORDERS, n); from dependence inside the bins of tables;
    and from bins of attributes that are cut through, all these as if attributes were independent; and from
    exceptions to what most records have in attributes that were not counted together.
    """

    noise: Floats
    model: Floats
    finer: Floats
    inside: Floats
    rare: Floats


class Terms(NamedTuple):
    """A batch, and of each of its functions, as `place` numbers them: its mean over the records of the view's
    histograms; how much larger its plain mean over bins is, for each binning of its attribute, shape
    (n, n_binnings); and, for a condition that most records satisfy, the share of those that do not, shape
    (n,).
    """

    batch: Batch
    mean: Floats
    shift: Floats
    exceptions: Floats


class Pairs(NamedTuple):
    """Pairs of terms, shape (n_pairs, width) each.

    attribute: the attributes that either term has a function of, −1 for none.
    left, right: each term's function of it, as `place` numbers them, 0 for none.
    which: the pair of functions, by its number in moments, 0 where one is missing.
    """

    attribute: Ints
    left: Ints
    right: Ints
    which: Ints


@dataclass(frozen=True, eq=False)
class MixtureErrors:
    """The errors of one part of a view whose components are a mixture."""

    part: ViewPart

    def read(self, batch: Batch) -> Terms:
        """A batch, prepared for the methods below."""
        mean = batch.of_functions(np.array(1.0), lambda a, own: own.means(self._codes[a].margin))
        plain = batch.of_functions(
            np.ones(self._n_binnings),
            lambda a, own: np.stack([own.means(even) for even in self._codes[a].even], axis=1),
        )
        is_share = batch.of_functions(np.array(True), lambda _, own: own.is_share)
        exceptions = np.where(is_share & (mean > 0.5), np.clip(1.0 - mean, 0.0, _RARE), 0.0)
        return Terms(batch, mean, plain - mean[:, None], exceptions)

    def of_terms(self, left: Terms, right: Terms, i: Ints, j: Ints) -> Errors:
        """Expected products of the errors of terms `i` of one batch and terms `j` of another, shape
        (n_pairs,).
        """
        pairs, moments = self._pairs(left, right, i, j)
        mean = left.mean[pairs.left] * right.mean[pairs.right]
        model, inside = _summed_by_order(mean, pairs.which, moments)
        measured = self._measured(pairs.attribute)
        # Terms with themselves have one side: the first is then the last, too.
        sides = [(left, pairs.left), (right, pairs.right)]
        if left is right and pairs.left is pairs.right:
            sides = sides[:1]
        weights = [self._weights(terms, pairs.attribute, place, measured) for terms, place in sides]
        rare = [_in_common(terms, place, measured) for terms, place in sides]
        noise = self.total_variance * weights[0][()] * weights[-1][()]
        for position in range(mean.shape[1]):
            own = weights[0][position,] * weights[-1][position,]
            noise += moments.noise[pairs.which[:, position]] * own
        finer = np.zeros(len(i))
        for positions, (rows, table) in measured.items():
            energy, explained, whole = np.ones((3, len(rows)))
            for position in positions:
                own = pairs.which[rows, position]
                binning = self._binning[table, pairs.attribute[rows, position]]
                energy *= moments.energy[own, binning]
                explained *= moments.covariance[own, binning]
                whole *= moments.covariance[own, 0]
            rest = _without(mean[rows], positions)
            noise[rows] += (
                self._table_noise[table] * energy * (weights[0][positions] * weights[-1][positions])[rows]
            )
            model[len(positions) - 1, rows] -= (1.0 - _MISFIT**2) * explained * rest
            finer[rows] += self._table_finer[table] * (whole - explained) * rest
        constant = left.batch.constant[i] * right.batch.constant[j]
        scale = self._total**2 * constant
        return Errors(
            noise * constant,
            model * scale,
            finer * scale,
            inside * (_UNEVEN**2 * scale),
            rare[0] * rare[-1] * scale,
        )

    def _weights(self, terms: Terms, attribute: Ints, place: Ints, measured: Measured) -> Weights:
        """What the counts of released tables are multiplied with, in an estimate of each term that has as
        little noise as they allow, shape (n,) each.

        A function of an attribute may be moved by any constant, if the count of the other attributes makes up
        for it. There is least noise where its plain mean over bins is 0.
        """
        mean, width = terms.mean[place], place.shape[1]
        found: Weights = {(): mean.prod(axis=1)}
        for position in range(width):
            found[position,] = _without(mean, (position,))
            found[()] = found[()] + terms.shift[place[:, position], 0] * found[position,]
        for positions, (rows, table) in reversed(measured.items()):
            rest = _without(mean[rows], positions)
            found.setdefault(positions, np.zeros(len(place)))[rows] += rest
            shifts = {
                position: terms.shift[place[rows, position], self._binning[table, attribute[rows, position]]]
                for position in positions
            }
            kept = self._kept[table] * rest
            for n in range(len(positions)):
                for some in combinations(positions, n):
                    moved = [shifts[position] for position in positions if position not in some]
                    found.setdefault(some, np.zeros(len(place)))[rows] += kept * np.prod(moved, axis=0)
        return found

    def _measured(self, attribute: Ints) -> Measured:
        """Positions in terms whose attributes are those of a table: for which terms, and of which tables.
        Fewer positions come first.
        """
        width = attribute.shape[1]
        found: Measured = {}
        for n in sorted(self._numbers_of_tables):
            for positions in combinations(range(width), n):
                table = self._table_of(attribute[:, positions])
                rows = np.flatnonzero(table >= 0)
                if len(rows):
                    found[positions] = rows, table[rows]
        return found

    def rests_on_tables(self, batch: Batch) -> NDArray[np.bool_]:
        """Whether all attributes of each quantity lie in one released table, shape (n,)."""
        asked = np.zeros((len(batch), len(self._codes) + 1))  # a column more, for no attribute
        asked[batch.quantity[:, None], batch.attribute] = 1.0
        found: NDArray[np.bool_] = (asked[:, :-1] @ self._outside == 0.0).any(axis=1)
        cuts = batch.of_functions(np.array(False), lambda _, own: own.cuts)[batch.place].any(axis=1)
        found[batch.quantity[cuts]] = False
        return found

    def beyond_independence(self, terms: Terms, estimate: Floats) -> Floats:
        """How many times more records lie there than if attributes were independent, at least 1, shape
        (n,).
        """
        batch = terms.batch
        independent = self._total * batch.sums(batch.constant * terms.mean[batch.place].prod(axis=1))
        more: Floats = np.divide(estimate, independent, out=np.ones(len(batch)), where=independent > 0)
        return np.maximum(more, 1.0)

    # What the released tables say, once per view.

    @cached_property
    def _total(self) -> float:
        return max(float(self.part.components.weight.sum()), 1.0)

    @cached_property
    def total_variance(self) -> float:
        """Every table measures the total; the fit combines them by precision."""
        precision = sum(1.0 / (table.counts.size * table.variance) for table in self.part.tables)
        return _OF_THE_FIT / precision if precision else self._total**2

    @cached_property
    def code_variance(self) -> Floats:
        """Of the noise that is left in the count of one code, per attribute: its histogram's and its tables'
        margins', and what the fit has moved counts by beyond noise.
        """
        sizes = self.part.components.sizes
        precision = np.zeros(len(sizes))
        for table in self.part.tables:
            for a, n_bins in zip(table.attributes, table.counts.shape, strict=True):
                of_bin = table.variance * table.counts.size / n_bins
                precision[a] += min(1.0, n_bins / sizes[a]) / of_bin
        found: Floats = np.divide(
            _OF_THE_FIT, precision, out=np.full(len(sizes), self._total**2), where=precision > 0
        )
        for table in self.part.tables:
            if len(table.attributes) == 1:
                found[table.attributes[0]] += self.moved(table)
        return found

    def moved(self, table: Table) -> float:
        """How far the fit is from a released table beyond its noise, squared: mean over the records.

        Counts must not be negative, so where many cells have few records, all of these lose some.
        """
        components = self.part.components
        if table.counts.size > _MOST_CELLS or not isinstance(components, Mixture):
            return 0.0
        fitted = components.table(table.shape)
        shares = fitted / max(float(fitted.sum()), 1.0)
        squares = float((shares * (fitted - table.counts) ** 2).sum())
        # As far as the mean square of the noise itself varies over so many cells, were they alike.
        varies = math.sqrt(LAPLACE_SQUARES * float((shares**2).sum()))
        return max(squares - table.variance * (1.0 + varies), 0.0)

    @cached_property
    def _tables(self) -> list[Table]:
        """Tables of several attributes and the pairs inside them; of those with the same attributes, the most
        precise.
        """
        best: dict[tuple[int, ...], Table] = {}
        for table in self.part.tables:
            known = best.get(table.attributes)
            if len(table.attributes) > 1 and (known is None or table.variance < known.variance):
                best[table.attributes] = table
        return [*best.values(), *pairs_inside(self.part.tables)]

    @cached_property
    def _outside(self) -> Floats:
        """1 for attributes that a table does not count, shape (n_attributes, n_tables)."""
        found = np.ones((len(self._codes), len(self.part.tables)))
        for number, table in enumerate(self.part.tables):
            found[list(table.attributes), number] = 0.0
        return found

    @cached_property
    def _kept(self) -> Floats:
        """Of each table, the share that the fit has kept: noise far above the dependence that tables usually
        show was smoothed away.
        """
        signal = (_DEPENDENCE * self._total) ** 2
        return np.array([signal / (signal + table.variance * table.counts.size) for table in self._tables])

    @cached_property
    def _table_noise(self) -> Floats:
        """Of each table, the variance of the noise of a cell that the fit has kept, and what it has moved
        cells by beyond noise.
        """
        variance = np.array([table.variance for table in self._tables])
        moved = np.array(list(map(self.moved, self._tables)))
        found: Floats = _OF_THE_FIT * self._kept * variance + moved
        return found

    @cached_property
    def _table_finer(self) -> Floats:
        """Of each table, the dependence that there may be inside its bins, squared; for tables of two."""
        strengths = [
            dependence(self.part, table) if len(table.attributes) == 2 else 0.0 for table in self._tables
        ]
        return (_FINER * np.square(strengths)) ** 2

    @cached_property
    def _numbers_of_tables(self) -> dict[int, tuple[Ints, Ints]]:
        """Number of attributes → of tables with so many: keys of their sets of attributes, rising, and the
        tables' numbers.
        """
        found = {}
        for n in {len(table.attributes) for table in self._tables}:
            numbers = np.array([i for i, table in enumerate(self._tables) if len(table.attributes) == n])
            keys = self._key(np.array([self._tables[i].attributes for i in numbers.tolist()]))
            order = np.argsort(keys)
            found[n] = keys[order], numbers[order]
        return found

    def _key(self, attributes: Ints) -> Ints:
        """A number for each row of attributes, whatever their order; negative where one of them is −1."""
        found: Ints = np.sort(attributes, axis=1) @ len(self._codes) ** np.arange(attributes.shape[1])[::-1]
        return found

    def _table_of(self, attributes: Ints) -> Ints:
        """The number of the table of exactly these attributes, shape (n, k) → (n,); −1 where none is."""
        keys, numbers = self._numbers_of_tables[attributes.shape[1]]
        asked = self._key(attributes)
        place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[place] == asked, numbers[place], -1)

    @cached_property
    def _bins_of_attributes(self) -> tuple[list[list[NDArray[np.int32]]], Ints]:
        """Per attribute, the different ways in which tables of several attributes gather its codes; and for
        each table and attribute, which of them it has, counted from 1.
        """
        n_attributes = len(self.part.components.sizes)
        found: list[dict[bytes, NDArray[np.int32]]] = [{} for _ in range(n_attributes)]
        binning = np.zeros((len(self._tables), n_attributes + 1), np.int64)
        for number, table in enumerate(self._tables):
            for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
                key = bins.tobytes()
                found[a].setdefault(key, bins)
                binning[number, a] = 1 + list(found[a]).index(key)
        return [list(own.values()) for own in found], binning

    @property
    def _binning(self) -> Ints:
        return self._bins_of_attributes[1]

    @cached_property
    def _n_binnings(self) -> int:
        """Of the attribute with the most: one for the codes themselves, and those of tables."""
        return 1 + max(map(len, self._bins_of_attributes[0]), default=0)

    @cached_property
    def _codes(self) -> list[Codes]:
        components, bins = self.part.components, self._bins_of_attributes[0]
        return [
            Codes(
                components.grid([a], components.weight) / self._total,
                own,
                self._n_binnings,
                variance,
                self._total,
            )
            for a, (own, variance) in enumerate(zip(bins, self.code_variance.tolist(), strict=True))
        ]

    # Pairs of terms.

    def _pairs(self, left: Terms, right: Terms, i: Ints, j: Ints) -> tuple[Pairs, Moments]:
        """Pairs of terms, and the moments of all different pairs of functions in them."""
        if left is right and i is j:
            which = left.batch.place[i]
            return Pairs(left.batch.attribute[i], which, which, which), self._moments(left, right, None)
        attribute, own, other = _joined(left.batch, right.batch, i, j)
        key = np.where((own > 0) & (other > 0), own * len(right.mean) + other, 0)
        different, which = np.unique(key, return_inverse=True)
        first = int(len(different) > 0 and different[0] == 0)
        which = which.reshape(key.shape) + (1 - first)
        return Pairs(attribute, own, other, which), self._moments(left, right, different[first:])

    def _moments(self, left: Terms, right: Terms, pairs: Ints | None) -> Moments:
        """Moments of pairs of functions, after those of no pair, which are 0.

        pairs: the number of the left function times the number of functions on the right, plus that of the
            right one, rising; None for all functions with themselves.
        """
        found = [Moments(*np.zeros((2, 1, self._n_binnings)), *np.zeros((3, 1)))]
        for a, functions in left.batch.functions.items():
            others, start = right.batch.functions.get(a), left.batch.offset[a]
            if others is None:
                continue
            end = start + len(functions)
            if pairs is None:
                found.append(self._codes[a].moments(functions, functions, None, None))
                continue
            ends = np.searchsorted(pairs, np.array([start, end]) * len(right.mean))
            own, other = np.divmod(pairs[slice(*ends)], len(right.mean))
            other -= right.batch.offset[a]
            found.append(self._codes[a].moments(functions, others, own - start, other))
        return Moments(*map(np.concatenate, zip(*found, strict=True)))


def _in_common(terms: Terms, place: Ints, measured: Measured) -> Floats:
    """Records that may be exceptions in two attributes that were not counted together, beyond independence,
    as a share of all, shape (n,).
    """
    mean, exceptions, found = terms.mean[place], terms.exceptions[place], np.zeros(len(place))
    for pair in combinations(range(place.shape[1]), 2):
        both = exceptions[:, pair].min(axis=1) * _without(mean, pair)
        if pair in measured:
            both[measured[pair][0]] = 0.0
        found += both
    return _COINCIDE * found


def _without(factors: Floats, positions: Sequence[int]) -> Floats:
    """Products of all but some columns, shape (n,)."""
    others = [position for position in range(factors.shape[1]) if position not in positions]
    found: Floats = factors[:, others].prod(axis=1)
    return found


def _summed_by_order(mean: Floats, which: Ints, moments: Moments) -> tuple[Floats, Floats]:
    """Of pairs of terms: Σ over sets of 1, 2, 3, and 4 or more attributes of Π covariances · Π means of the
    others, (N_ORDERS, n); and what is left open inside bins, (n,).
    """
    n, width = which.shape
    inside = np.zeros(n)
    found = np.zeros((N_ORDERS + 1, n))
    found[0] = 1.0
    for position in range(width):
        own, pair = mean[:, position], which[:, position]
        covariance = moments.related[pair]
        inside = inside * own + found[0] * moments.inside[pair]
        last = found[-1] * (own + covariance) + found[-2] * covariance
        found[1:-1] = found[1:-1] * own + found[:-2] * covariance
        found[0] *= own
        found[-1] = last
    return found[1:], inside


def _joined(left: Batch, right: Batch, i: Ints, j: Ints) -> tuple[Ints, Ints, Ints]:
    """Attributes of pairs of terms, −1 for none, and each term's function of them, 0 for none. Shape
    (n_pairs, width) each.
    """
    own, other, place, other_place = left.attribute[i], right.attribute[j], left.place[i], right.place[j]
    same = (own[:, :, None] == other[:, None, :]) & (own >= 0)[:, :, None]
    in_other = np.where(same, other_place[:, None, :], 0).sum(axis=2)
    extra = np.where(same.any(axis=1), -1, other)
    return (
        np.concatenate([own, extra], axis=1),
        np.concatenate([place, np.zeros_like(extra)], axis=1),
        np.concatenate([in_other, np.where(extra >= 0, other_place, 0)], axis=1),
    )
