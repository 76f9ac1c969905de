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
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.errors.codes import Codes
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.quality import LAPLACE_SQUARES
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_PIECE_ORDER = 3  # attributes: released tables are read for sets of up to so many
MAX_TABLE_CELLS = 1_000_000  # cells of a table that is compared with the fit
# Variance of what is left of the total's and the histograms' noise, in units of the best combination of all
# tables: the fit combines them less than perfectly.
FIT_VARIANCE = 1.25
# Squared Cramér's V of a table → correlation that there may be inside its bins.
WITHIN_BIN_DEPENDENCE = 0.9
# Degrees of freedom with which the misfit of all tables of an order counts beside that of one table.
POOLED_FREEDOM = 20.0
# Records: the least error of a question about several attributes. Where the view sees nobody, rare values may
# still meet in a few records.
MIN_ERROR_RECORDS = 2.0
# How unevenly records lie inside a bin: at 95 %, half of a bin may hold all of its records or none.
UNEVEN_WITHIN_BIN = 0.5


class Piece(NamedTuple):
    """What released tables know about some attributes together, beyond what fewer of them tell.

    binnings: per attribute, which of its binnings the table has, from 1.
    noise: records², the error left in a cell. kept: the share of the table's departures from independence
        that the fit has kept. within: squared correlation that there may be inside bins.
    """

    attributes: tuple[int, ...]
    binnings: tuple[int, ...]
    noise: float
    kept: float
    within: float


class _Candidate(NamedTuple):
    """One table's margin on a set of attributes: its noise, and energies of interactions, in records²."""

    bins: tuple[NDArray[np.int32], ...]
    variance: float
    freedom: int
    fitted: float
    residual: float
    dependence: float

    @property
    def kept(self) -> float:
        """Share that optimal shrinkage keeps of departures as large as the fitted ones, given the noise."""
        noise = self.variance * self.freedom
        return self.fitted / (self.fitted + noise) if self.fitted + noise > 0 else 0.0

    @property
    def misfit(self) -> float:
        """Residuals beyond those that shrinkage leaves, in units of the noise's variance; may be negative."""
        return self.residual / (self.variance * self.freedom) - (1.0 - self.kept)


@dataclass(frozen=True, eq=False)
class ErrorModel:
    """Everything that the errors of a part depend on.

    total: records. total_variance, code_variance: of the noise left in the total and, per attribute, in the
        count of a code. margins: per attribute, share of the records at each code. factors: of `Quality`.
    binnings: per attribute, the ways in which tables gather its codes: the bin of each code.
    pieces: what tables know about two or three attributes together, by attributes, rising.
    """

    total: float
    total_variance: float
    code_variance: Floats
    margins: tuple[Floats, ...]
    factors: tuple[float, ...]
    binnings: tuple[tuple[NDArray[np.int32], ...], ...]
    pieces: dict[tuple[int, ...], Piece]

    @cached_property
    def levels(self) -> Floats:
        """Squared correlation among k attributes that the view does not know, k = 1, 2, 3, and 4 or more.

        Even a perfect model errs by chance: correlations in n records vary by 1/√n.
        """
        squares = np.square(self.factors)
        squares[1:] += 1.0 / self.total
        return squares

    @cached_property
    def hidden(self) -> Floats:
        """Per attribute, the share of records that noise may hide at a code; it grows with the root of the
        number of codes.
        """
        sizes = np.array(list(map(len, self.margins)))
        found: Floats = np.sqrt(self.code_variance / sizes) / self.total
        return found

    @cached_property
    def n_binnings(self) -> int:
        """Of the attribute with the most: one for the codes themselves, and those of tables."""
        return 1 + max(map(len, self.binnings), default=0)

    @cached_property
    def codes(self) -> list[Codes]:
        return [
            Codes(margin, bins, self.n_binnings, hidden)
            for margin, bins, hidden in zip(self.margins, self.binnings, self.hidden.tolist(), strict=True)
        ]

    # Pieces as arrays, after which comes one for "none", so that −1 finds it.

    @cached_property
    def piece_noise(self) -> Floats:
        return np.array([*(piece.noise for piece in self.pieces.values()), 0.0])

    @cached_property
    def piece_kept(self) -> Floats:
        return np.array([*(piece.kept for piece in self.pieces.values()), 0.0])

    @cached_property
    def piece_within(self) -> Floats:
        return np.array([*(piece.within for piece in self.pieces.values()), 0.0])

    @cached_property
    def piece_binning(self) -> Ints:
        """Which binning each piece has of each attribute, shape (n_pieces + 1, n_attributes + 1)."""
        found = np.zeros((len(self.pieces) + 1, len(self.margins) + 1), np.int64)
        for number, piece in enumerate(self.pieces.values()):
            found[number, list(piece.attributes)] = piece.binnings
        return found

    @cached_property
    def _keys(self) -> dict[int, tuple[Ints, Ints]]:
        """Number of attributes → keys of sets that are pieces, rising, and the pieces' numbers."""
        found = {}
        for n in {len(attributes) for attributes in self.pieces}:
            own = [(self._key(np.array([s]))[0], i) for i, s in enumerate(self.pieces) if len(s) == n]
            keys, numbers = np.array(sorted(own), np.int64).T
            found[n] = keys, numbers
        return found

    def _key(self, attributes: Ints) -> Ints:
        """A number for each row of attributes, whatever their order; negative where one of them is −1."""
        base = (len(self.margins) + 1) ** np.arange(attributes.shape[1])[::-1]
        found: Ints = np.sort(attributes, axis=1) @ base
        return np.where((attributes < 0).any(axis=1), -1, found)

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
    found: dict[tuple[int, ...], list[_Candidate]] = {}
    for table in part.tables:
        for attributes, candidate in _candidates(components, table):
            found.setdefault(attributes, []).append(candidate)
    binnings: list[dict[bytes, NDArray[np.int32]]] = [{} for _ in margins]
    usual = {n: _usual_misfit([c for s, own in found.items() if len(s) == n for c in own]) for n in (2, 3)}
    pieces = {}
    for attributes, candidates in sorted(found.items()):
        best = min(candidates, key=lambda each: (-each.freedom, each.variance))
        numbers = []
        for a, bins in zip(attributes, best.bins, strict=True):
            binnings[a].setdefault(bins.tobytes(), bins)
            numbers.append(1 + list(binnings[a]).index(bins.tobytes()))
        pooled = best.freedom + POOLED_FREEDOM
        misfit = (best.freedom * best.misfit + POOLED_FREEDOM * usual[len(attributes)]) / pooled
        noise = best.variance * (best.kept + max(misfit, 0.0))
        within = (WITHIN_BIN_DEPENDENCE * best.dependence**2) ** 2
        pieces[attributes] = Piece(attributes, tuple(numbers), noise, best.kept, within)
    return ErrorModel(
        total,
        _total_variance(part, total),
        _code_variance(part, total),
        margins,
        part.quality.factors,
        tuple(tuple(own.values()) for own in binnings),
        pieces,
    )


def _usual_misfit(candidates: list[_Candidate]) -> float:
    """Misfit of all tables of an order together, in units of their noise's variances."""
    freedom = sum(each.freedom for each in candidates)
    return sum(each.freedom * each.misfit for each in candidates) / freedom if freedom else 0.0


def _candidates(components: Mixture, table: Table) -> Iterator[tuple[tuple[int, ...], _Candidate]]:
    """Margins of a table on two and three of its attributes."""
    n_bins, every = table.counts.shape, range(len(table.attributes))
    if table.counts.size > MAX_TABLE_CELLS:
        return
    fitted = components.table(table.shape) if len(every) > 1 else np.zeros(n_bins)
    residual = fitted - table.counts
    for order in range(2, MAX_PIECE_ORDER + 1):
        for places in combinations(every, order):
            others = tuple(i for i in every if i not in places)
            freedom = math.prod(n_bins[i] - 1 for i in places)
            if not freedom:
                continue
            margin = fitted.sum(axis=others)
            yield (
                tuple(table.attributes[i] for i in places),
                _Candidate(
                    tuple(table.shape.bin_of_code[i] for i in places),
                    table.variance * math.prod(n_bins[i] for i in others),
                    freedom,
                    _interaction_energy(margin),
                    _interaction_energy(residual.sum(axis=others)),
                    cramers_v(margin) if order == 2 else 0.0,
                ),
            )


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
    return FIT_VARIANCE / precision if precision else total**2


def _code_variance(part: ViewPart, total: float) -> Floats:
    """Of the noise left in the count of one code, per attribute: that of its histogram and of its tables'
    margins, and the misfit to the histogram.
    """
    sizes = part.components.sizes
    precision = np.zeros(len(sizes))
    for table in part.tables:
        for a, n_bins in zip(table.attributes, table.counts.shape, strict=True):
            precision[a] += min(1.0, n_bins / sizes[a]) * n_bins / (table.variance * table.counts.size)
    found: Floats = np.divide(FIT_VARIANCE, precision, out=np.full(len(sizes), total**2), where=precision > 0)
    for table in part.tables:
        if len(table.attributes) == 1:
            found[table.attributes[0]] += _histogram_misfit(part, table)
    return found


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
