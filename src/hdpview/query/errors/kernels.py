"""The error model of a mixture: Gaussian fields that are products over attributes.

An answer is a sum over records of f(record) = Π f_a(code of a). Its error is linear in f, and splits by sets
of attributes: the part that depends on none of them, on one, on two together, and so on (Hoeffding's
decomposition). If a released table counts a set, the error is the noise left by the fit and its misfit;
otherwise it is the model's own, whose size `Quality` gives per number of attributes. docs/intervals.md
derives it.

`closed` sums the kernels of this model for pairs of questions, `fields` draws them, and a published page gets
the same record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.errors.codes import Codes, Cycle
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.released_tables import Table, margin

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MAX_RESIDUAL_ORDER = 3  # maximum number of attributes together whose residuals are used
LAPLACE_SQUARES = 5.0  # variance of the square of Laplace noise, in squares of its variance
MAX_TABLE_CELLS = 1_000_000  # maximum number of cells of a table that is compared with the fit
# Variance of the noise that is left where departures from independence may far exceed noise. Measured by
# ranges and populated cells on eight tables, with the same result from 1.1 to 1.5.
KEPT_NOISE = 1.3
# Squared departure from independence that noise hides in a cell, per record and standard deviation of noise;
# 0.15 to 0.4 do as well for rates of groups of 100 to 5,000 records (heart, adult) and cells (jm1, phoneme).
HIDDEN_DEPARTURE = 0.25
# Share of a histogram's noise that is left at codes without records.
EMPTY_CODE_NOISE = 0.03
# The same in a class without records, such as an hour, by that in the median class: E[T²] of a truth T ≥ 0
# whose noisy count is negative by the median of such noise, 0.67 σ.
EMPTY_CLASS_NOISE = 0.6
# Minimum error of a question about several attributes, in records. Even where the view estimates none, a few
# records may combine rare values.
MIN_ERROR_RECORDS = 2.0


class Piece(NamedTuple):
    """Information in released tables about two attributes together, beyond that about each.

    binnings: per attribute, which of its binnings the table has, from 1. noise: records², the error left in a
        cell. kept: the share of the table's departures from independence that the fit has kept.
    """

    binnings: tuple[int, ...]
    noise: float
    kept: float


class _Margin(NamedTuple):
    """A released table's margin on some attributes.

    kept: share of the noise's variance that the fit keeps, per bin of each attribute. residual: the fit minus
        the table, per cell.
    """

    table: Table
    kept: tuple[Floats, ...]
    residual: Floats

    @property
    def explained(self) -> float:
        """Share of the expected squared residual that noise does not explain."""
        freedom = math.prod(n_bins - 1 for n_bins in self.residual.shape)
        energy = _interaction(self.residual, [np.full(n, 1.0 / n) for n in self.residual.shape]) ** 2
        ratio = float(energy.sum()) / (self.table.variance * freedom)
        return 1.0 - 1.0 / float(max(ratio - 2.0 * math.sqrt(LAPLACE_SQUARES / freedom), 1.0))


class Residual(NamedTuple):
    """The expected difference between the fit and the table in each cell, given their noisy difference.

    binnings: as in `Piece`; 0 for single codes. cells: shape (bins of each attribute); sums along each axis
        are 0, because the residuals of fewer attributes have them.
    """

    binnings: tuple[int, ...]
    cells: Floats


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """All inputs of the errors of a part.

    total: records. total_variance, code_variance: of the noise left in the total and, per attribute, in the
        count of a code. margins: per attribute, share of the records at each code. factors: of `Quality`.
    binnings: per attribute, the ways in which tables gather its codes: the bin of each code.
    kept: per attribute, weights of noise at each code, and then in each bin of each binning.
    pieces: information of tables about two attributes together, by attributes, ascending.
    cycles: per attribute, classes of codes whose sums keep more noise than their codes.
    residuals: by attributes, of tables that the fit misses by more than noise explains.
    """

    total: float
    total_variance: float
    code_variance: Floats
    margins: tuple[Floats, ...]
    factors: tuple[float, ...]
    binnings: tuple[tuple[NDArray[np.int32], ...], ...]
    kept: tuple[tuple[Floats, ...], ...]
    pieces: dict[tuple[int, ...], Piece]
    cycles: tuple[tuple[Cycle, ...], ...]
    residuals: dict[tuple[int, ...], Residual]

    @cached_property
    def levels(self) -> Floats:
        """Squared correlation among k attributes that the view does not capture, k = 1, 2, 3, and 4 or more.

        Even a perfect model errs by chance: correlations in n records vary by 1/√n.
        """
        squares = np.square(self.factors)
        squares[0] = 0
        squares[1:] += 1.0 / self.total
        return squares

    @cached_property
    def n_binnings(self) -> int:
        """Maximum number of binnings of an attribute: its codes count as one, besides those of tables."""
        return 1 + max(map(len, self.binnings), default=0)

    @cached_property
    def codes(self) -> list[Codes]:
        own = zip(self.margins, self.binnings, self.kept, self.cycles, strict=True)
        return [Codes(margin, bins, kept, self.n_binnings, cycles) for margin, bins, kept, cycles in own]

    @cached_property
    def of_pairs(self) -> tuple[Floats, Floats, Ints]:
        """Noise and kept share of the piece of two attributes, and the first one's binning in it; 0 if there
        is none, as for attribute −1.
        """
        shape = (len(self.margins) + 1,) * 2
        noise, kept, binning = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int64)
        for (a, b), piece in self.pieces.items():
            noise[[a, b], [b, a]], kept[[a, b], [b, a]] = piece.noise, piece.kept
            binning[[a, b], [b, a]] = piece.binnings
        return noise, kept, binning


def lifts(estimates: Floats, independent: Floats, is_count: Sequence[bool]) -> Floats:
    """Ratios of records to those expected under independence, at least 1, per quantity and group, (m, n):
    errors grow with them. Sums of values have the lift of their group's largest count.
    """
    ratios = np.divide(estimates, independent, out=np.ones_like(independent), where=independent > 0)
    counts, others = np.flatnonzero(is_count), np.flatnonzero(np.logical_not(is_count))
    ratios[others] = 1.0
    if len(counts):
        largest = estimates[counts].argmax(axis=0)
        ratios[others] = ratios[counts[largest], np.arange(estimates.shape[1])]
    return np.maximum(ratios, 1.0)


@lru_cache(maxsize=64)
def error_model(part: ViewPart) -> ErrorModel:
    """The error model of a part whose components are a mixture."""
    components = part.components
    assert isinstance(components, Mixture)
    total = max(float(components.weight.sum()), 1.0)
    margins = tuple(components.grid([a], components.weight) / total for a in range(len(components.sizes)))
    margins_of: dict[tuple[int, ...], list[_Margin]] = {}
    for table in part.tables:
        for own in _margins(components, table):
            margins_of.setdefault(own.table.attributes, []).append(own)
    # Per attribute: the bins of each binning, and the shares of noise kept in all tables with this binning.
    binnings: list[dict[bytes, tuple[NDArray[np.int32], list[Floats]]]] = [{} for _ in margins]
    code_variance = _code_variance(part, total)
    pieces: dict[tuple[int, ...], Piece] = {}
    residuals: dict[tuple[int, ...], Residual] = {}
    for table in part.tables:
        if len(table.attributes) == 1 and (misfit := _histogram_misfit(components, table)):
            a, explained = table.attributes[0], misfit / (misfit + table.variance)
            code_variance[a] += explained * table.variance
            residual = explained * (components.table(table.shape) - table.counts)
            residuals[a,] = Residual((0,), _interaction(residual, [margins[a]]))
    for attributes, several in sorted(margins_of.items()):
        best = min(several, key=lambda each: (-each.residual.size, each.table.variance))
        explained = best.explained
        if len(attributes) > 2 and not explained:
            continue
        bins_of, numbers = best.table.shape.bin_of_code, []
        for a, bins, kept in zip(attributes, bins_of, best.kept, strict=True):
            binnings[a].setdefault(bins.tobytes(), (bins, []))[1].append(kept / max(kept.mean(), 1e-9))
            numbers.append(1 + list(binnings[a]).index(bins.tobytes()))
        if explained:
            own_bins = zip(attributes, bins_of, strict=True)
            of_bins = [np.bincount(bins, margins[a]).astype(float) for a, bins in own_bins]
            residuals[attributes] = Residual(tuple(numbers), _interaction(explained * best.residual, of_bins))
        if len(attributes) == 2:
            share = float(best.kept[0].mean())
            noise = best.table.variance * (KEPT_NOISE * share + explained)
            pieces[attributes] = Piece(tuple(numbers), noise, share)
    counts = [(total * margin, float(own)) for margin, own in zip(margins, code_variance, strict=True)]
    of_codes = [kept_noise(*own) for own in counts]
    averages = [tuple(np.mean(kept, axis=0) for _, kept in own.values()) for own in binnings]
    cycles = zip(part.cycles or ((),) * len(margins), counts, of_codes, strict=True)
    return ErrorModel(
        total,
        _total_variance(part, total),
        code_variance,
        margins,
        part.quality.factors,
        tuple(tuple(bins for bins, _ in own.values()) for own in binnings),
        tuple((kept, *own) for kept, own in zip(of_codes, averages, strict=True)),
        pieces,
        tuple(tuple(cycle_of(bins, *known, kept) for bins in own) for own, known, kept in cycles),
        residuals,
    )


def kept_noise(records: Floats, variance: float) -> Floats:
    """Share of the noise left in counts of this many records. Counts must not be negative, so little is left
    in empty cells.
    """
    squares = records**2 / variance
    return (squares + EMPTY_CODE_NOISE) / (squares + 1.0)


def cycle_of(bins: NDArray[np.int32], records: Floats, variance: float, kept: Floats) -> Cycle:
    """Classes of codes, from the records of each code and the share of its noise that is kept.

    The noise of a few codes with all records of a class hardly depends on its other codes.
    """
    n, seen = len(bins), records[: len(bins)] + math.sqrt(variance)
    own = kept_noise(np.bincount(bins, records[:n]) / np.sqrt(np.bincount(bins)), variance)
    whole = np.bincount(bins, seen) ** 2 / np.bincount(bins, seen**2)
    whole *= np.maximum(own, EMPTY_CLASS_NOISE * np.median(own))
    return Cycle(bins, np.maximum(whole - np.bincount(bins, kept[:n]), 0.0))


def _margins(components: Mixture, table: Table) -> Iterator[_Margin]:
    """Margins of a table on two and three of its attributes."""
    n_attributes = len(table.attributes)
    if n_attributes < 2 or table.counts.size > MAX_TABLE_CELLS:
        return
    fitted = components.table(table.shape)
    # A cell keeps as much noise as it may depart from independence: by sampling, by the same multiple of its
    # records as in the whole table, and by what noise hides.
    expected, contingency, deviation = _independent(fitted), _contingency(fitted), math.sqrt(table.variance)
    departures = expected * (1.0 + contingency * expected + HIDDEN_DEPARTURE * deviation)
    kept = departures / (departures + table.variance)

    def all_but(*axes: int) -> tuple[int, ...]:
        return tuple(i for i in range(n_attributes) if i not in axes)

    for order in range(2, _MAX_RESIDUAL_ORDER + 1):
        for places in combinations(range(n_attributes), order):
            of_axes = tuple(kept.mean(axis=all_but(i)) for i in places)
            residual = (fitted - table.counts).sum(axis=all_but(*places))
            if min(residual.shape) > 1:
                yield _Margin(margin(table, places), of_axes, residual)


def _independent(cells: Floats) -> Floats:
    """Counts with the same margins if attributes were independent."""
    total = max(float(cells.sum()), 1.0)
    shares = [
        cells.sum(axis=tuple(i for i in range(cells.ndim) if i != axis)) / total for axis in range(cells.ndim)
    ]
    expected: Floats = total * reduce(np.multiply.outer, shares)
    return expected


def _interaction(cells: Floats, shares: Sequence[Floats]) -> Floats:
    """The interaction of all axes: sums along each axis are spread by these shares of records and removed."""
    for axis, own in enumerate(shares):
        spread = np.multiply.outer(cells.sum(axis=axis), own)
        cells = cells - np.moveaxis(spread, -1, axis)
    return cells


def _contingency(cells: Floats) -> float:
    """The mean square contingency φ²: squared relative departures from independence, mean over records."""
    expected = _independent(cells)
    squares = np.divide((cells - expected) ** 2, expected, where=expected > 0, out=np.zeros_like(expected))
    return float(squares.sum()) / max(float(expected.sum()), 1.0)


def cramers_v(joint: Floats) -> float:
    """Cramér's V of a table of two attributes: 0 for independence, 1 if one determines the other."""
    fewest = min(joint.shape)
    return math.sqrt(min(1.0, _contingency(joint) / (fewest - 1))) if fewest > 1 else 0.0


def _total_variance(part: ViewPart, total: float) -> float:
    """Every table measures the total; the fit combines them by precision."""
    precision = sum(1.0 / (table.counts.size * table.variance) for table in part.tables)
    return 1.0 / precision if precision else total**2


def _code_variance(part: ViewPart, total: float) -> Floats:
    """Variance of the noise in the count of one code, per attribute, in its histogram and tables' margins."""
    sizes = part.components.sizes
    precision = np.zeros(len(sizes))
    for table in part.tables:
        for a, n_bins in zip(table.attributes, table.counts.shape, strict=True):
            precision[a] += min(1.0, n_bins / sizes[a]) * n_bins / (table.variance * table.counts.size)
    variance: Floats = np.divide(1.0, precision, out=np.full(len(sizes), total**2), where=precision > 0)
    return variance


def _histogram_misfit(components: Mixture, table: Table) -> float:
    """Mean squared difference of the fit and a histogram beyond its noise, over the records.

    Counts must not be negative, so where many cells have few records, all of these lose some.
    """
    fitted = components.table(table.shape)
    shares = fitted / max(float(fitted.sum()), 1.0)
    squares = float((shares * (fitted - table.counts) ** 2).sum())
    # the standard deviation of the mean square of the noise over this many equal cells
    varies = math.sqrt(LAPLACE_SQUARES * float((shares**2).sum()))
    return max(squares - table.variance * (1.0 + varies), 0.0)
