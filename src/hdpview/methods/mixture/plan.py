"""What to measure, and how finely: from the schema, the budget and released numbers alone.

With N records and ε, n tables get about ε/n each, so the noise of a cell grows with n, and fewer cells stand out. The
number of tables and the number of their cells both grow with √(N·ε).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.accounting import Accounting
from hdpview.methods.mixture.bins import Axis, bins_of

Floats = NDArray[np.float64]
Attributes = tuple[int, ...]

# Of the budget: for the number of records, from which the rest is planned; it needs to be known to a few percent.
TOTAL_SHARE = Fraction(1, 100)
# For histograms, where there are tables too: more attributes need more of it. All where there are no tables.
_HISTOGRAM_SHARE, _HISTOGRAM_SHARE_PER_ATTRIBUTE = Fraction(25, 100), Fraction(15, 1000)
_MOST_HISTOGRAM_SHARE = Fraction(6, 10)
# For choosing tables, where not all are taken.
CHOICE_SHARE = Fraction(5, 100)
# Number of tables: √(N·ε / this). Half or twice as much changes errors by a few percent.
RECORDS_PER_TABLE = 30.0
# A cell of a table is worth having if this many records per unit of Laplace noise fall into it on average.
RECORDS_PER_CELL = 5.0
# A code without order has its own bin if its records are this many standard deviations of their sum's noise.
DEVIATIONS_PER_CODE = 2.0
# Bins of an ordered attribute in a table, at least (so that a table can show a shape) and at most.
_LEAST_BINS, _MOST_BINS = 3, 128
# Cells of all tables together, so that drawing noise and fitting take seconds.
_MOST_CELLS = 200_000
# Cells times components times rounds of all fits: about ten seconds of one core. At least so many passes in any case.
_MOST_WORK, _LEAST_PASSES = 1.2e10, 3
# A table that the curator asks for gets the budget of so many others.
FOCUS_WEIGHT = 4
# Tables beyond the spanning tree are chosen in so many rounds.
ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """candidates: tables that may be chosen; focus: those that are measured in any case. n_choices: how many of the
    candidates are.
    """

    n_attributes: int
    candidates: tuple[Attributes, ...]
    focus: tuple[Attributes, ...]
    n_choices: int

    @property
    def chooses(self) -> bool:
        """Whether anything is left to choose."""
        return 0 < self.n_choices < len(self.candidates)

    @property
    def total_weight(self) -> int:
        """Of all tables, in tables of usual budget."""
        return self.n_choices + FOCUS_WEIGHT * len(self.focus)

    def shares(self) -> tuple[Fraction, Fraction, Fraction]:
        """Of the budget after the number of records: for histograms, choices and tables; they add up to what is
        left.
        """
        left = 1 - TOTAL_SHARE
        if not self.total_weight:
            return left, Fraction(0), Fraction(0)
        wanted = _HISTOGRAM_SHARE + self.n_attributes * _HISTOGRAM_SHARE_PER_ATTRIBUTE
        histograms = min(_MOST_HISTOGRAM_SHARE, wanted)
        choices = CHOICE_SHARE if self.chooses else Fraction(0)
        return histograms, choices, left - histograms - choices


def plan_for(
    axes: tuple[Axis, ...], focus: tuple[Attributes, ...], noisy_total: float, accounting: Accounting
) -> Plan:
    """The plan for about so many records."""
    divided = [a for a, axis in enumerate(axes) if axis.size > 1]
    focus = tuple(table for table in focus if set(table) <= set(divided))
    n_tables = accounting.n_tables(noisy_total / RECORDS_PER_TABLE)
    pairs, triples = ([*combinations(divided, k)] for k in (2, 3))
    # Tables of three attributes pay where all of them can be had beside all pairs.
    tables = pairs + triples if len(pairs) + len(triples) <= n_tables else pairs
    candidates = tuple(table for table in tables if table not in focus)
    # Too few to connect all attributes: then the budget is better spent on histograms.
    n_choices = 0 if n_tables < len(divided) - 1 else min(len(candidates), n_tables)
    return Plan(len(axes), candidates, focus, n_choices)


def shape_for(
    attributes: Attributes,
    axes: tuple[Axis, ...],
    shares: list[Floats],
    noisy_total: float,
    deviation: float,
    lots: list[Floats],
    n_tables: int = 1,
) -> TableShape:
    """Bins of a table whose cells have noise of this standard deviation, one of so many."""
    worthwhile, affordable = (
        noisy_total / (deviation / math.sqrt(2)) / RECORDS_PER_CELL,
        _MOST_CELLS / n_tables,
    )
    n_cells = min(worthwhile, affordable)
    sizes = [axes[a].size for a in attributes]
    most = [_bins_of_one(i, sizes, n_cells) for i in range(len(attributes))]
    bins = []
    for i, a in enumerate(attributes):
        others = math.prod(
            min(size, n) for j, (size, n) in enumerate(zip(sizes, most, strict=True)) if j != i
        )
        least_share = DEVIATIONS_PER_CODE * deviation * math.sqrt(others) / noisy_total
        if affordable < worthwhile:
            least_share = max(least_share, 1 / (2 * most[i]))
        bins.append(bins_of(axes[a], shares[a], most[i], least_share, lots[a]))
    return TableShape(attributes, tuple(bins))


def _bins_of_one(i: int, sizes: list[int], n_cells: float) -> int:
    """Bins of one attribute: as many as of the others, and more where the others have few codes."""
    even = max(_LEAST_BINS, int(n_cells ** (1 / len(sizes))))
    others = math.prod(min(size, even) for j, size in enumerate(sizes) if j != i)
    return min(_MOST_BINS, max(_LEAST_BINS, int(n_cells / others)))


@dataclass(frozen=True)
class Effort:
    """How much work a fit is worth: it grows with the number of cells that were measured, never with time."""

    n_components: int
    passes: int
    rounds: int
    members: int


def effort_for(n_cells: int) -> Effort:
    """More cells carry more structure and less noise, so more components and passes pay.

    Measured: 64 components are enough for 400 cells, 128 for 3,000, and 300 still gain over 256 for 27,000.
    """
    members, rounds = 3 if n_cells < 10_000 else 2 if n_cells < 60_000 else 1, 40
    most = min(512.0, _MOST_WORK / (max(1, n_cells) * members * rounds * _LEAST_PASSES))
    n_components = int(max(64, min(most, 16 * round(2 * math.sqrt(n_cells) / 16))))
    wanted = min(14, max(3, round(0.65 * n_cells**0.25)))
    affordable = int(_MOST_WORK / (max(1, n_cells) * n_components * members * rounds))
    return Effort(n_components, min(wanted, max(_LEAST_PASSES, affordable)), rounds, members)
