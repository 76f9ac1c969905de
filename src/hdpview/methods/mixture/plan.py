"""What to measure, and how finely: from the schema, the budget and released numbers alone.

With N records and ε, n tables get about ε/n each, so the noise of a cell grows with n, and fewer cells stand
out. The number of tables and the number of their cells both grow with √(N·ε).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.accounting import Accounting
from hdpview.methods.mixture.bins import Axis, bins_of

Floats = NDArray[np.float64]
Attributes = tuple[int, ...]

# Of the budget: for the number of records, from which the rest is planned; it needs to be known to a few
# percent.
TOTAL_SHARE = Fraction(1, 100)
# For histograms, where there are tables too, in thousandths: more attributes need more of it, and so do those
# with many codes, which tables gather to bins. All where there are no tables.
_HISTOGRAM_SHARE, _PER_ATTRIBUTE, _PER_ROOT_OF_CODES, _MOST_HISTOGRAM_SHARE = 50, 10, 70, 600
# For choosing tables, where not all are taken.
CHOICE_SHARE = Fraction(5, 100)
# Number of tables: √(N·ε / this). Half or twice as much changes errors by a few percent.
RECORDS_PER_TABLE = 30.0
# A cell of a table is worth having if this many records per unit of Laplace noise fall into it on average.
RECORDS_PER_CELL = 5.0
# A code without order has its own bin if its records are this many standard deviations of their sum's noise.
DEVIATIONS_PER_CODE = 2.0
# An attribute takes part in tables if this many standard deviations of noise are elsewhere than at its
# commonest code.
DEVIATIONS_OFF_THE_COMMONEST = 5.0
# Where there are too few tables to connect all attributes, this part of them is measured, and histograms have
# this share. Fewer tables than two are not worth it.
_PART_OF_FEW, _BESIDE_FEW, _LEAST_FEW = 0.4, Fraction(8, 10), 2
# All pairs are measured where so many of them can be had: then none has to be chosen.
_NEARLY_ALL = 0.8
# Tables of three attributes are measured instead of pairs where every pair keeps this part of the cells that
# it would have in a table of its own: all threes where so many times as many tables as pairs and threes can
# be had, else so many that every pair is in one of them. Those are sought among so many at most, which takes
# less than a second.
_TRIPLES_FROM, _KEPT_BY_ALL, _KEPT_BY_SOME, _MOST_SOUGHT = 3, 0.25, 0.4, 2_000
# Bins of an ordered attribute in a table, at least (so that a table can show a shape) and at most.
_LEAST_BINS, _MOST_BINS = 3, 128
# Cells of all tables together, so that drawing noise and fitting take seconds.
_MOST_CELLS = 200_000
# Cells times components times rounds of all fits: about ten seconds of one core. At least so many passes in
# any case.
_MOST_WORK, _LEAST_PASSES = 1.2e10, 3
# From so many cells on there is structure enough that fits follow it sooner with long steps; on fewer they
# follow noise.
_LONG_STEPS_FROM = 10_000
# A table that the curator asks for gets the budget of so many others.
FOCUS_WEIGHT = 4
# Tables beyond the spanning tree are chosen in so many rounds.
ROUNDS = 3


@dataclass(frozen=True)
class Plan:
    """candidates: tables that may be chosen; focus: those that are measured in any case. n_choices: how many
    of the candidates are. for_histograms: their share of the budget where there are tables.
    """

    for_histograms: Fraction
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
        """Shares of the budget for histograms, choices and tables: all but that for the number of records."""
        left = 1 - TOTAL_SHARE
        if not self.total_weight:
            return left, Fraction(0), Fraction(0)
        choices = CHOICE_SHARE if self.chooses else Fraction(0)
        return self.for_histograms, choices, left - self.for_histograms - choices


def plan_for(
    axes: tuple[Axis, ...],
    focus: tuple[Attributes, ...],
    noisy_total: float,
    accounting: Accounting,
    left_out: Container[int] = (),
) -> Plan:
    """The plan for about so many records. left_out: attributes without tables but for those of the focus."""
    divided = [a for a, axis in enumerate(axes) if axis.size > 1]
    focus = tuple(table for table in focus if set(table) <= set(divided))
    n_tables = accounting.n_tables(noisy_total / RECORDS_PER_TABLE)
    # Too few to connect all attributes: then a part of them, and most of the budget is better spent on
    # histograms.
    few = n_tables < len(divided) - 1
    if few:
        n_tables = int(_PART_OF_FEW * n_tables)
    for_histograms = _BESIDE_FEW if few and not focus else _for_histograms(axes)
    divided = [a for a in divided if a not in left_out]
    pairs, triples = ([*combinations(divided, k)] for k in (2, 3))
    share = 1 - TOTAL_SHARE - for_histograms
    worthwhile = partial(_worthwhile_cells, noisy_total, accounting, share, FOCUS_WEIGHT * len(focus))
    sizes = [axis.size for axis in axes]
    tables = pairs if few else _threes(sizes, pairs, triples, n_tables, worthwhile) or pairs
    candidates = tuple(table for table in tables if table not in focus)
    n_choices = 0 if few and (focus or n_tables < _LEAST_FEW) else min(len(candidates), n_tables)
    if n_choices >= _NEARLY_ALL * len(candidates):
        n_choices = len(candidates)
    return Plan(for_histograms, candidates, focus, n_choices)


def _threes(
    sizes: Sequence[int],
    pairs: Sequence[Attributes],
    triples: Sequence[Attributes],
    n_tables: int,
    worthwhile: Callable[[int], float],
) -> Sequence[Attributes]:
    """Tables of three attributes that hold all pairs, if those lose little of their cells; else none.

    Summed over its third attribute, a table tells of three pairs. There may be a third as many tables, so
    each has three times the budget, and its noise in a pair grows with the root of the bins summed over.
    worthwhile: number of cells of each table, if there are so many tables.
    """
    if not triples or n_tables < _NEARLY_ALL * len(pairs):
        return ()
    of_pairs = worthwhile(len(pairs))
    all_fit = _TRIPLES_FROM * (len(pairs) + len(triples)) <= n_tables
    if all_fit and _cells_kept(sizes, triples, worthwhile(len(triples)), of_pairs) >= _KEPT_BY_ALL:
        return triples
    if len(triples) > _MOST_SOUGHT:
        return ()
    found = _covering(sizes, pairs, triples)
    kept = _cells_kept(sizes, found, worthwhile(len(found)), of_pairs)
    return found if kept >= _KEPT_BY_SOME else ()


def _covering(
    sizes: Sequence[int], pairs: Sequence[Attributes], triples: Sequence[Attributes]
) -> list[Attributes]:
    """Threes that hold all pairs: each the one with most new pairs, and among such with the fewest codes."""
    left, found = set(pairs), list[Attributes]()
    by_codes = sorted(triples, key=lambda three: math.prod(sizes[a] for a in three))
    while left:
        found.append(max(by_codes, key=lambda three: sum(pair in left for pair in combinations(three, 2))))
        left.difference_update(combinations(found[-1], 2))
    return sorted(found)


def _cells_kept(sizes: Sequence[int], threes: Sequence[Attributes], n_cells: float, of_pairs: float) -> float:
    """The least part that any pair keeps of its cells in tables of three with n_cells each, where a table of
    its own would have `of_pairs`.
    """
    kept: dict[Attributes, float] = {}
    for three in threes:
        for pair in combinations(three, 2):
            (third,) = set(three) - set(pair)
            summed = min(sizes[third], max(_LEAST_BINS, n_cells ** (1 / 3)))
            most = min(of_pairs, math.prod(sizes[a] for a in pair))
            kept[pair] = max(kept.get(pair, 0.0), n_cells / summed / most)
    return min(kept.values(), default=0.0)


def _worthwhile_cells(
    noisy_total: float, accounting: Accounting, share: Fraction, weight: int, n_tables: int
) -> float:
    """Cells that pay in each of so many tables with this share of the budget, beside others' weight."""
    noise = accounting.noise(accounting.total * share / (n_tables + weight))
    return _cells_for(noisy_total, noise.variance**0.5)


def _cells_for(noisy_total: float, deviation: float) -> float:
    """How many cells pay in a table whose cells have noise of this standard deviation."""
    return noisy_total / (deviation / math.sqrt(2)) / RECORDS_PER_CELL


def _for_histograms(axes: tuple[Axis, ...]) -> Fraction:
    """The share of histograms beside tables: grows with attributes and the cube root of their codes."""
    roots = sum(axis.size ** (1 / 3) for axis in axes) / len(axes)
    wanted = _HISTOGRAM_SHARE + _PER_ATTRIBUTE * len(axes) + round(_PER_ROOT_OF_CODES * roots)
    return Fraction(min(_MOST_HISTOGRAM_SHARE, wanted), 1000)


def nearly_constant(shares: list[Floats], noisy_total: float, deviation: float) -> set[int]:
    """Attributes that cannot depend on others by more than noise: nearly all records are at one of their
    codes.

    shares: of codes, per attribute, released. deviation: of the noise of a table's cells.
    """
    return {
        a
        for a, share in enumerate(shares)
        if noisy_total * (1 - share.max()) < DEVIATIONS_OFF_THE_COMMONEST * deviation
    }


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
    worthwhile, affordable = _cells_for(noisy_total, deviation), _MOST_CELLS / n_tables
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
    long_steps: bool


def effort_for(n_cells: int) -> Effort:
    """More cells carry more structure and less noise, so more components and passes pay.

    Measured: 64 components are enough for 400 cells, 128 for 3,000, and 300 still gain over 256 for 27,000.
    """
    members, rounds = 3 if n_cells < 10_000 else 2 if n_cells < 60_000 else 1, 40
    most = min(512.0, _MOST_WORK / (max(1, n_cells) * members * rounds * _LEAST_PASSES))
    n_components = int(max(64, min(most, 16 * round(2 * math.sqrt(n_cells) / 16))))
    wanted = min(14, max(3, round(0.65 * n_cells**0.25)))
    affordable = int(_MOST_WORK / (max(1, n_cells) * n_components * members * rounds))
    passes = min(wanted, max(_LEAST_PASSES, affordable))
    return Effort(n_components, passes, rounds, members, long_steps=n_cells >= _LONG_STEPS_FROM)
