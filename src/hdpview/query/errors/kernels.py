"""The error model of a mixture: Gaussian fields that are products over attributes.

An answer is a sum over records of f(record) = Π f_a(code of a). Its error is linear in f, and splits by sets
of attributes: what shows in none of them, in one, in two together, and so on (Hoeffding's decomposition).
Where a released table counted a set, the error is the noise that the fit has kept and its misfit; elsewhere
it is the model's own, whose size `Quality` gives per number of attributes. docs/intervals.md derives it.

`closed` sums the kernels of this model for pairs of questions, `fields` draws them, and a published page gets
the same record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.attributes import Cycles
from hdpview.query.errors.codes import Codes
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_PIECE_ORDER = 3  # attributes: released tables are read for sets of up to so many
LAPLACE_SQUARES = 5.0  # variance of the square of Laplace noise, in squares of its variance
MAX_TABLE_CELLS = 1_000_000  # cells of a table that is compared with the fit
# Share of the variance of noise that is left where cells of a table may depart from independence by far more
# than noise, for what shows in two and in three attributes.
KEPT_NOISE = (1.1, 0.6)
# Squared departure from independence that noise hides in a cell, per record and standard deviation of noise:
# rates of groups of 100 to 5,000 records on heart and adult.
HIDDEN_DEPARTURE = 0.15
# Misfit that grows with a cell's records, in variances of the noise per standard deviation of it.
LARGE_CELL_MISFIT = 0.005
# Share of a histogram's noise that is left at codes without records.
EMPTY_CODE_NOISE = 0.03
# Squared Cramér's V of a table → correlation that there may be inside its bins.
WITHIN_BIN_DEPENDENCE = 0.9
# Records: the least error of a question about several attributes. Where the view sees nobody, rare values may
# still meet in a few records.
MIN_ERROR_RECORDS = 2.0
# How unevenly records lie inside a bin: at 95 %, half of a bin may hold all of its records or none.
UNEVEN_WITHIN_BIN = 0.5


class Piece(NamedTuple):
    """What released tables know about some attributes together, beyond what fewer of them tell.

    binnings: per attribute, which of its binnings the table has, from 1.
    noise: records², the error left in a cell. kept: the share of the table's departures from independence
        that the fit has kept. within: squared correlation that there may be inside bins, beside what is
        unknown of attributes without a table. scatter: per attribute, how much of that there is inside its
        bins, squared: 1 for bins of any codes, less for ranges of codes, where dependence changes little.
    """

    attributes: tuple[int, ...]
    binnings: tuple[int, ...]
    noise: float
    kept: float
    within: float
    scatter: tuple[float, ...]


class _Margin(NamedTuple):
    """A released table's margin on some attributes.

    variance: records², of the noise of a cell. freedom: degrees of freedom of what shows in all attributes
        together. kept: share of the noise's variance that the fit keeps, per bin of each attribute.
    misfit: squared residuals that noise does not explain, in units of its variance. dependence: Cramér's V.
    """

    bins: tuple[NDArray[np.int32], ...]
    variance: float
    freedom: int
    kept: tuple[Floats, ...]
    misfit: float
    dependence: float


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Everything that the errors of a part depend on.

    total: records. total_variance, code_variance: of the noise left in the total and, per attribute, in the
        count of a code. margins: per attribute, share of the records at each code. factors: of `Quality`.
    binnings: per attribute, the ways in which tables gather its codes: the bin of each code.
    kept: per attribute, weights of noise at each code, and then in each bin of each binning.
    pieces: what tables know about two or three attributes together, by attributes, rising.
    cycles: per attribute, classes of codes whose sums keep the noise of histograms whole.
    """

    total: float
    total_variance: float
    code_variance: Floats
    margins: tuple[Floats, ...]
    factors: tuple[float, ...]
    binnings: tuple[tuple[NDArray[np.int32], ...], ...]
    kept: tuple[tuple[Floats, ...], ...]
    pieces: dict[tuple[int, ...], Piece]
    cycles: tuple[Cycles, ...]

    @cached_property
    def levels(self) -> Floats:
        """Squared correlation among k attributes that the view does not know, k = 1, 2, 3, and 4 or more.

        Even a perfect model errs by chance: correlations in n records vary by 1/√n.
        """
        squares = np.square(self.factors)
        squares[0] = 0
        squares[1:] += 1.0 / self.total
        return squares

    @cached_property
    def n_binnings(self) -> int:
        """Of the attribute with the most: one for the codes themselves, and those of tables."""
        return 1 + max(map(len, self.binnings), default=0)

    @cached_property
    def codes(self) -> list[Codes]:
        own = zip(self.margins, self.binnings, self.kept, self.cycles, strict=True)
        return [Codes(margin, bins, kept, self.n_binnings, cycles) for margin, bins, kept, cycles in own]

    # Pieces as arrays, after which comes one for "none", so that −1 finds it.

    @cached_property
    def of_pieces(self) -> dict[str, Floats]:
        """`noise`, `kept` and `within` of each piece, shape (n_pieces + 1,)."""
        names, pieces = ("noise", "kept", "within"), self.pieces.values()
        return {name: np.array([*(getattr(piece, name) for piece in pieces), 0.0]) for name in names}

    @cached_property
    def piece_scatter(self) -> Floats:
        """Of each piece and attribute, shape (n_pieces + 1, n_attributes + 1)."""
        return self._by_attribute("scatter", np.float64)

    @cached_property
    def piece_binning(self) -> Ints:
        """Which binning each piece has of each attribute, shape (n_pieces + 1, n_attributes + 1)."""
        return self._by_attribute("binnings", np.int64)

    def _by_attribute(self, name: str, kind: type) -> NDArray[Any]:
        columns: NDArray[Any] = np.zeros((len(self.pieces) + 1, len(self.margins) + 1), kind)
        for number, piece in enumerate(self.pieces.values()):
            columns[number, list(piece.attributes)] = getattr(piece, name)
        return columns

    @cached_property
    def _keys(self) -> dict[int, tuple[Ints, Ints]]:
        """Number of attributes → keys of sets that are pieces, rising, and the pieces' numbers."""
        by_order = {}
        for n in {len(attributes) for attributes in self.pieces}:
            own = [(self._key(np.array([s]))[0], i) for i, s in enumerate(self.pieces) if len(s) == n]
            keys, numbers = np.array(sorted(own), np.int64).T
            by_order[n] = keys, numbers
        return by_order

    def _key(self, attributes: Ints) -> Ints:
        """A number for each row of attributes, whatever their order; negative where one of them is −1."""
        base = (len(self.margins) + 1) ** np.arange(attributes.shape[1])[::-1]
        keys: Ints = np.sort(attributes, axis=1) @ base
        return np.where((attributes < 0).any(axis=1), -1, keys)

    def piece_numbers(self, attributes: Ints) -> Ints:
        """The number of the piece of exactly these attributes, shape (n, k) → (n,); −1 for none."""
        if attributes.shape[1] not in self._keys:
            return np.full(len(attributes), -1)
        keys, numbers = self._keys[attributes.shape[1]]
        asked = self._key(attributes)
        place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where(keys[place] == asked, numbers[place], -1)


@lru_cache(maxsize=64)
def error_model(part: ViewPart) -> ErrorModel:
    """The error model of a part whose components are a mixture."""
    components = part.components
    assert isinstance(components, Mixture)
    total = max(float(components.weight.sum()), 1.0)
    margins = tuple(components.grid([a], components.weight) / total for a in range(len(components.sizes)))
    margins_of: dict[tuple[int, ...], list[_Margin]] = {}
    for table in part.tables:
        for attributes, margin in _margins(components, table):
            margins_of.setdefault(attributes, []).append(margin)
    # Per attribute: the bins of each binning, and the shares of noise kept there in all tables that have it.
    binnings: list[dict[bytes, tuple[NDArray[np.int32], list[Floats]]]] = [{} for _ in margins]
    pieces = {}
    for attributes, own in sorted(margins_of.items()):
        best = min(own, key=lambda each: (-each.freedom, each.variance))
        numbers = []
        for a, bins, kept in zip(attributes, best.bins, best.kept, strict=True):
            binnings[a].setdefault(bins.tobytes(), (bins, []))[1].append(kept / max(kept.mean(), 1e-9))
            numbers.append(1 + list(binnings[a]).index(bins.tobytes()))
        share = float(best.kept[0].mean())
        noise = best.variance * (KEPT_NOISE[len(attributes) - 2] * share + best.misfit)
        share = min(share, 1.0)
        within = (WITHIN_BIN_DEPENDENCE * best.dependence**2) ** 2
        scatter = tuple(map(_scatter, best.bins))
        pieces[attributes] = Piece(attributes, tuple(numbers), noise, share, within, scatter)
    code_variance = _code_variance(part, total)
    return ErrorModel(
        total,
        _total_variance(part, total),
        code_variance,
        margins,
        part.quality.factors,
        tuple(tuple(bins for bins, _ in own.values()) for own in binnings),
        tuple(
            (
                1.0 - (1.0 - EMPTY_CODE_NOISE) / (1.0 + (total * margin) ** 2 / variance),
                *(np.mean(kept, axis=0) for _, kept in own.values()),
            )
            for margin, variance, own in zip(margins, code_variance.tolist(), binnings, strict=True)
        ),
        pieces,
        part.cycles or ((),) * len(margins),
    )


def _margins(components: Mixture, table: Table) -> Iterator[tuple[tuple[int, ...], _Margin]]:
    """Margins of a table on two and three of its attributes."""
    n_bins, every = table.counts.shape, range(len(table.attributes))
    if len(every) < 2 or table.counts.size > MAX_TABLE_CELLS:
        return
    fitted = components.table(table.shape)
    residual = fitted - table.counts
    # Of noise in a cell there is left what its departure from independence may be: that of sampling, as many
    # times its records as in the whole table, and what noise hides.
    expected, deviation = _independent(fitted), math.sqrt(table.variance)
    squares = np.divide((fitted - expected) ** 2, expected, where=expected > 0, out=np.zeros_like(expected))
    dependence = float(squares.sum()) / max(float(expected.sum()), 1.0)
    departures = expected * (1.0 + dependence * expected + HIDDEN_DEPARTURE * deviation)
    kept = departures / (departures + table.variance) + LARGE_CELL_MISFIT * expected / deviation
    for order in range(2, MAX_PIECE_ORDER + 1):
        for places in combinations(every, order):
            others = tuple(i for i in every if i not in places)
            freedom = math.prod(n_bins[i] - 1 for i in places)
            if not freedom:
                continue
            margin = fitted.sum(axis=others)
            variance = table.variance * math.prod(n_bins[i] for i in others)
            of_cells = kept.mean(axis=others)
            excess = _interaction_energy(residual.sum(axis=others)) / (variance * freedom) - 1.0
            misfit = max(excess - 2.0 * math.sqrt(LAPLACE_SQUARES / freedom), 0.0)
            yield (
                tuple(table.attributes[i] for i in places),
                _Margin(
                    tuple(table.shape.bin_of_code[i] for i in places),
                    variance,
                    freedom,
                    tuple(
                        of_cells.mean(axis=tuple(i for i in range(order) if i != axis))
                        for axis in range(order)
                    ),
                    misfit,
                    cramers_v(margin) if order == 2 else 0.0,
                ),
            )


def _scatter(bins: NDArray[np.int32]) -> float:
    """Squared share of dependence that is left inside bins: 1/n for n ranges of codes, 1 for other bins."""
    return 1.0 / float(bins[-1] + 1) if (np.diff(bins) >= 0).all() else 1.0


def _independent(cells: Floats) -> Floats:
    """Counts with the same margins if attributes were independent."""
    total = max(float(cells.sum()), 1.0)
    shares = [
        cells.sum(axis=tuple(i for i in range(cells.ndim) if i != axis)) / total for axis in range(cells.ndim)
    ]
    expected: Floats = total * reduce(np.multiply.outer, shares)
    return expected


def _interaction_energy(cells: Floats) -> float:
    """Sum of squares of what shows in all axes together."""
    for axis in range(cells.ndim):
        cells = cells - cells.mean(axis=axis, keepdims=True)
    return float((cells**2).sum())


def cramers_v(joint: Floats) -> float:
    """Cramér's V of a table of two attributes: 0 for independence, 1 where one decides the other."""
    total = joint.sum()
    if total <= 0 or min(joint.shape) < 2:
        return 0.0
    joint = joint / total
    even = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    squared = np.divide((joint - even) ** 2, even, out=np.zeros_like(even), where=even > 0).sum()
    return float(np.sqrt(min(1.0, squared / (min(joint.shape) - 1))))


def _total_variance(part: ViewPart, total: float) -> float:
    """Every table measures the total; the fit combines them by precision."""
    precision = sum(1.0 / (table.counts.size * table.variance) for table in part.tables)
    return 1.0 / precision if precision else total**2


def _code_variance(part: ViewPart, total: float) -> Floats:
    """Of the noise left in the count of one code, per attribute: that of its histogram and of its tables'
    margins, and the misfit to the histogram.
    """
    sizes = part.components.sizes
    precision = np.zeros(len(sizes))
    for table in part.tables:
        for a, n_bins in zip(table.attributes, table.counts.shape, strict=True):
            precision[a] += min(1.0, n_bins / sizes[a]) * n_bins / (table.variance * table.counts.size)
    variance: Floats = np.divide(1.0, precision, out=np.full(len(sizes), total**2), where=precision > 0)
    for table in part.tables:
        if len(table.attributes) == 1:
            variance[table.attributes[0]] += _histogram_misfit(part, table)
    return variance


def _histogram_misfit(part: ViewPart, table: Table) -> float:
    """How far the fit is from a histogram beyond its noise, squared: mean over the records.

    Counts must not be negative, so where many cells have few records, all of these lose some.
    """
    assert isinstance(part.components, Mixture)
    fitted = part.components.table(table.shape)
    shares = fitted / max(float(fitted.sum()), 1.0)
    squares = float((shares * (fitted - table.counts) ** 2).sum())
    # As far as the mean square of the noise itself varies over so many cells, were they alike.
    varies = math.sqrt(LAPLACE_SQUARES * float((shares**2).sum()))
    return max(squares - table.variance * (1.0 + varies), 0.0)
