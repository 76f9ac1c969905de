"""Components fitted to released tables: post-processing, so it costs no budget. [P10]

A model is P(cell) = Σ_z weight_z · Π_a share_a[bin | z]. Each pass compares the model with every released
table, keeps the departures that exceed noise, and moves the components towards them by rounds of expectation
maximisation. It then scales the components to the margins, which are the most precise. Structure shared by
several tables can look like noise in each of them at first, so many short passes learn more than a few long
ones.

All tables are fitted at once. The attributes of a table are split in two halves, so that its cells are the
product of two matrices; tables of similar shape are stacked and multiplied in one call.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hdpview.jit import numba as nb
from hdpview.machine import available_cores
from hdpview.methods.mixture.smooth import Shrinkage
from hdpview.progress import Progress
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bins = NDArray[np.int32]

# Smallest divisor: probability of a cell in the model.
_LEAST_CELL = np.float32(1e-12)
# Smallest target of a cell, as a share of all records: expectation maximisation needs positive numbers.
_LEAST_TARGET = 1e-7
# A pass leaves each cell at least this part of its records.
_LEAST_LEFT = 0.1
# Smaller shares become 0: their products would be denormal numbers, which are slow.
_NO_SHARE = np.float32(1e-10)
# Components with less weight are dropped.
_NO_WEIGHT = np.float32(1e-9)
# Shape of the gamma distribution of random starts; smaller values start further from independence.
_START_SHAPE = 6.0
# Over-relaxation: exponent of the factors in all rounds of a pass but the last. Up to 2, the fit converges
# to the same result in fewer rounds. On heart at epsilon 10, ranges of two attributes err by 40 records
# instead of 61.
_POWER = np.float32(1.75)
# In tables of more attributes, bins without order form a row, too, by falling share, and departures are
# shrunk as contrasts along it: the margins of a group, which are more certain than its cells, then lose less.
# That takes 9% off the errors of heart and 5% off those of census. In tables of two attributes, dependence is
# often that of single cells: contrasts add 6% to the errors of small-adult.
_MOST_APART = 2
# A fit ends once this part of the noise is fitted; or less of it, in proportion, if the signal in the tables
# has less variance than their noise. That takes 20% to 45% off the errors of 40 and 60 attributes that hardly
# depend on each other, and nothing changes on heart, bank and Adult; 0.2 flattens relationships of bank.
_MOST_NOISE_FITTED = 0.35
_SCALINGS = 2  # of margins, after each pass
_LAST_SCALINGS = 3_000  # after the last pass, at most
# Scaling stops when the differences of a margin sum to less.
_MARGINS_AGREE = 1e-6
# Seconds between two reports of progress.
_REPORT_SECONDS = 0.1


@dataclass(frozen=True, eq=False)
class Components:
    """weight: shape (n,), sum 1. share: per attribute (n_bins, n), columns sum to 1."""

    weight: Singles
    share: tuple[Singles, ...]

    @classmethod
    def independent(cls, margins: Sequence[Floats]) -> Components:
        """One component: all attributes are independent."""
        return cls(np.ones(1, np.float32), tuple(margin[:, None].astype(np.float32) for margin in margins))

    @classmethod
    def start(cls, margins: Sequence[Floats], n: int, rng: np.random.Generator) -> Components:
        """Components near independence, each with its own random departures from the margins."""
        shares = []
        for margin in margins:
            drawn = margin[:, None] * rng.gamma(_START_SHAPE, 1.0, (len(margin), n))
            shares.append((drawn / drawn.sum(axis=0)).astype(np.float32))
        return cls(np.full(n, 1 / n, np.float32), tuple(shares))


class _Stack(NamedTuple):
    """Tables of similar shape, padded to one.

    left, right: shape (n_tables, n_rows or n_columns, n_factors): the coarse rows that are multiplied.
    place: shape (n_tables, n_rows, n_columns): number of each cell; padding is numbered one past the last.
    """

    left: Ints
    right: Ints
    place: Ints


class Targets:
    """Released tables to fit to.

    A coarse row is a bin of an attribute in some table; tables with the same bins share it. The last two
    rows hold zeros, for padding, and ones, for tables with fewer attributes than others in their stack.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        variances: Sequence[float],
        fine: Sequence[Bins],
        n_ordered: Sequence[int],
    ) -> None:
        """fine: per attribute of the schema, bins that refine those of all tables. n_ordered: per attribute,
        the number of ordered codes, which come first.
        """
        self.sizes = [int(bins.max()) + 1 for bins in fine]
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.touched = np.isin(np.arange(len(fine)), [a for table in tables for a in table.attributes])
        counted = np.bincount([a for table in tables for a in table.attributes], minlength=len(fine))
        self.n_tables = np.repeat(np.maximum(counted, 1), self.sizes)[:, None].astype(np.float32)
        starts = self._coarse_rows(tables, fine)
        self._lay_out(tables, starts)
        shapes, noisy, n_in_row = [], [], list[Sequence[int]]()
        for table, (order, _) in zip(tables, self.halves, strict=True):
            counts = table.counts.transpose(order)
            shapes.append(counts.shape)
            noisy.append(counts.reshape(-1).astype(np.float64))
            own = [(table.attributes[i], table.shape.bin_of_code[i]) for i in order]
            if len(own) > _MOST_APART:
                n_in_row.append(counts.shape)
            else:
                n_in_row.append([int(bins[: n_ordered[a]].max(initial=-1)) + 1 for a, bins in own])
        self.noisy = np.concatenate(noisy)
        self.shrink = Shrinkage(n_in_row, shapes, variances)
        self.variance = np.repeat(variances, [math.prod(shape) for shape in shapes])
        # Large groups have many cells with few records. Damping by k − 1 times the noise, for k attributes,
        # instead of once takes 1% to 2% off the errors of bank and census.
        damping = np.sqrt(variances) * [max(1, len(shape) - 1) for shape in shapes]
        self.damping = np.repeat(damping, [math.prod(shape) for shape in shapes])
        self.table_of_cell = np.repeat(np.arange(len(tables)), [math.prod(shape) for shape in shapes])

    def _coarse_rows(self, tables: Sequence[Table], fine: Sequence[Bins]) -> list[list[int]]:
        """Number all bins of all tables, and list the fine bins of each; returns the first row of each
        table's bins, attribute by attribute.
        """
        known: dict[tuple[int, bytes], int] = {}
        rows, members, starts, n = [], [], [], 0
        for table in tables:
            first_rows = []
            for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
                of_fine = np.empty(self.sizes[a], np.int64)
                of_fine[fine[a]] = bins
                key = a, of_fine.tobytes()
                if key not in known:
                    known[key] = n
                    rows.append(n + of_fine)
                    members.append(self.offsets[a] + np.arange(self.sizes[a]))
                    n += int(bins.max()) + 1
                first_rows.append(known[key])
            starts.append(first_rows)
        self.n_coarse = n
        self.coarse_of = np.concatenate(rows)
        self.fine_of = np.concatenate(members)
        return starts

    def _lay_out(self, tables: Sequence[Table], starts: Sequence[Sequence[int]]) -> None:
        """Split the attributes of each table in two halves, and stack tables of similar shape."""
        self.halves = [_halves(table.counts.shape) for table in tables]
        self.ends = np.cumsum([table.counts.size for table in tables])
        self.n_cells = int(self.ends[-1])
        parts, stacks = [], defaultdict[tuple[int, int], list[int]](list)
        for i, (table, (order, half)) in enumerate(zip(tables, self.halves, strict=True)):
            own = [_factors(table.counts.shape, part, starts[i]) for part in (order[:half], order[half:])]
            parts.append(own)
            stacks[_rounded(len(own[0])), _rounded(len(own[1]))].append(i)
        self.stacks = []
        for shape, members in sorted(stacks.items()):
            place = np.full((len(members), *shape), self.n_cells, np.int64)
            for at, i in enumerate(members):
                cells = np.arange(self.ends[i] - tables[i].counts.size, self.ends[i])
                n_rows, n_columns = map(len, parts[i])
                place[at, :n_rows, :n_columns] = cells.reshape(n_rows, n_columns)
            left, right = (self._padded([parts[i][j] for i in members], shape[j]) for j in (0, 1))
            self.stacks.append(_Stack(left, right, place))

    def _padded(self, factors: Sequence[Ints], n: int) -> Ints:
        """Stack the factors of tables: missing rows become zeros, missing attributes become ones."""
        width = max(rows.shape[1] for rows in factors)
        padded = np.full((len(factors), n, width), self.n_coarse, np.int64)
        for at, rows in enumerate(factors):
            padded[at, : len(rows)] = self.n_coarse + 1
            padded[at, : len(rows), : rows.shape[1]] = rows
        return padded

    def _coarse(self, share: Singles) -> Singles:
        """Shares of all coarse rows, from those of fine bins."""
        coarse = np.zeros((self.n_coarse + 2, share.shape[1]), np.float32)
        _add_rows(coarse, self.coarse_of, self.fine_of, share)
        coarse[-1] = 1
        return coarse

    def of_model(self, share: Singles, weight: Singles) -> Floats:
        """The model's probability of each cell of each table."""
        coarse = self._coarse(share)
        cells = np.zeros(self.n_cells + 1)
        for stack in self.stacks:
            left, right = _products(coarse, stack.left), _products(coarse, stack.right)
            left *= weight
            cells[stack.place] = left @ right.transpose(0, 2, 1)
        return cells[:-1]

    def misfit(self, expected: Floats, total: float) -> float:
        """Mean squared departure of cells from a model, over the variance of their noise: 1 for noise."""
        return float(np.mean((self.noisy - expected * total) ** 2 / self.variance))

    def towards(self, expected: Floats, total: float) -> Singles:
        """Targets of the fit: the expected tables plus the departures that exceed noise; each sums to 1.

        Rounds multiply a cell by target / expected, so noise would move cells with few records most. Noise is
        equal in all cells of a table, so departures of cells with fewer records than noise are damped.
        """
        counts = expected * total
        departures = self.shrink(self.noisy - counts)
        departures *= counts / (counts + self.damping)
        target = np.maximum(counts + departures, _LEAST_LEFT * counts) + _LEAST_TARGET * total
        sums = np.bincount(self.table_of_cell, target)
        wanted = np.zeros(self.n_cells + 1, np.float32)
        wanted[:-1] = target / sums[self.table_of_cell]
        return wanted

    def maximise(
        self, share: Singles, weight: Singles, wanted: Singles, rounds: int
    ) -> tuple[Singles, Singles]:
        """Rounds of expectation maximisation: each raises Σ over tables and cells of wanted · log P(cell)."""
        targets = [wanted[stack.place] for stack in self.stacks]
        for i in range(rounds):
            coarse = self._coarse(share)
            factors = np.zeros_like(coarse)
            records = np.zeros_like(weight)
            for stack, target in zip(self.stacks, targets, strict=True):
                left, right = _products(coarse, stack.left), _products(coarse, stack.right)
                ratio = target / np.maximum((left * weight) @ right.transpose(0, 2, 1), _LEAST_CELL)
                for_left, for_right = ratio @ right, ratio.transpose(0, 2, 1) @ left
                for_left *= left
                for_right *= right
                records += for_left.sum(axis=(0, 1))
                _add_products(factors, stack.left, for_left)
                _add_products(factors, stack.right, for_right)
            np.divide(factors, coarse, out=factors, where=coarse > _NO_SHARE)
            factors[coarse <= _NO_SHARE] = 0
            sums = np.zeros_like(share)
            _add_rows(sums, self.fine_of, self.coarse_of, factors)
            if i < rounds - 1:
                sums = self.n_tables * (sums / self.n_tables) ** _POWER
            sums *= share
            _normalise(sums, self.offsets, self.touched, share)
            share, weight = sums, weight * records
            weight /= weight.sum()
        return share, weight


def _halves(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """An order of a table's attributes and the size of its first half, such that both halves have about
    equally many combinations of bins: then matrix products do nearly all of the work.
    """
    if len(shape) == 1:
        return (0,), 1
    n = len(shape)
    parts = [part for k in range(1, n // 2 + 1) for part in combinations(range(n), k)]

    def n_factors(part: tuple[int, ...]) -> float:
        rows = math.prod(shape[i] for i in part)
        return rows + math.prod(shape) / rows

    left = min(parts, key=n_factors)
    return (*left, *(i for i in range(n) if i not in left)), len(left)


def _factors(shape: Sequence[int], part: Sequence[int], starts: Sequence[int]) -> Ints:
    """The coarse rows of each combination of bins of some of a table's attributes."""
    bins = np.indices([shape[i] for i in part]).reshape(len(part), -1).T
    rows: Ints = bins + np.array([starts[i] for i in part])
    return rows


def _rounded(n: int) -> int:
    """Round up to few significant bits, so that few shapes differ."""
    step = 1 << max(0, n.bit_length() - 3)
    return -(-n // step) * step


@nb.njit(cache=True, nogil=True)
def _add_rows(sums, to, of, rows):  # type: ignore[no-untyped-def]
    """Add row `of[i]` to the sum at `to[i]`."""
    for i in range(len(to)):
        for c in range(rows.shape[1]):
            sums[to[i], c] += rows[of[i], c]


@nb.njit(cache=True, nogil=True)
def _products(rows, factors):  # type: ignore[no-untyped-def]
    """Products of the rows that `factors` lists, shape (n_tables, n, n_components)."""
    n_tables, n, width = factors.shape
    products = np.empty((n_tables, n, rows.shape[1]), np.float32)
    for t in range(n_tables):
        for i in range(n):
            product, first = products[t, i], rows[factors[t, i, 0]]
            for c in range(len(product)):
                product[c] = first[c]
            for j in range(1, width):
                factor = rows[factors[t, i, j]]
                for c in range(len(product)):
                    product[c] *= factor[c]
    return products


@nb.njit(cache=True, nogil=True)
def _add_products(sums, factors, values):  # type: ignore[no-untyped-def]
    """Add each row of values to the sums of all its factors."""
    n_tables, n, width = factors.shape
    for t in range(n_tables):
        for i in range(n):
            for j in range(width):
                row, value = sums[factors[t, i, j]], values[t, i]
                for c in range(len(row)):
                    row[c] += value[c]


@nb.njit(cache=True, nogil=True)
def _normalise(sums, offsets, touched, before):  # type: ignore[no-untyped-def]
    """Scale the shares of each touched attribute to columns of sum 1; the others stay as before."""
    total = np.empty(sums.shape[1], np.float32)
    for a in range(len(touched)):
        total[:] = np.float32(1e-30)
        for i in range(offsets[a], offsets[a + 1]):
            for c in range(len(total)):
                total[c] += sums[i, c]
        for i in range(offsets[a], offsets[a + 1]):
            for c in range(len(total)):
                share = sums[i, c] / total[c] if touched[a] else before[i, c]
                sums[i, c] = share if share >= _NO_SHARE or not touched[a] else 0.0


@nb.njit(cache=True, nogil=True)
def _scale_to_margins(share, weight, margins, offsets, times, tolerance):  # type: ignore[no-untyped-def]
    """Scale shares and weights in place to the given margins, attribute by attribute, repeatedly."""
    for _ in range(times):
        agree = True
        for a in range(len(offsets) - 1):
            shares, target = share[offsets[a] : offsets[a + 1]], margins[offsets[a] : offsets[a + 1]]
            n, now, departure = len(shares), np.zeros(len(shares)), 0.0
            for i in range(n):
                for c in range(len(weight)):
                    now[i] += shares[i, c] * weight[c]
                departure += abs(now[i] - target[i])
            if departure < tolerance:
                continue
            agree, total = False, 0.0
            for c in range(len(weight)):
                column = 0.0
                for i in range(n):
                    shares[i, c] *= target[i] / max(now[i], 1e-300)
                    column += shares[i, c]
                for i in range(n):
                    shares[i, c] /= max(column, 1e-300)
                weight[c] *= column
                total += weight[c]
            for c in range(len(weight)):
                weight[c] /= total
        if agree:
            return


def _scaled(
    share: Singles, weight: Singles, margins: Floats, offsets: Ints, times: int
) -> tuple[Singles, Singles]:
    """Components with the given margins, without those that have no records."""
    kept = weight > _NO_WEIGHT
    for first, last in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        kept &= share[first:last].max(axis=0) > 0
    if not kept.any():
        return margins[:, None].astype(np.float32), np.ones(1, np.float32)
    if not kept.all():
        share, weight = share[:, kept], weight[kept]
    doubles, weights = share.astype(np.float64), weight.astype(np.float64)
    weights /= weights.sum()
    _scale_to_margins(doubles, weights, margins, offsets, times, _MARGINS_AGREE)
    scaled = doubles.astype(np.float32)
    scaled[scaled < _NO_SHARE] = 0
    return scaled, weights.astype(np.float32)


def fit(
    model: Components,
    targets: Targets,
    margins: Sequence[Floats],
    total: float,
    passes: int,
    rounds: int,
    step: Callable[[], None],
) -> Components:
    """Components fitted to all tables. The first pass compares tables with independence, later ones with the
    model; where noise is most of the departures, the fit ends early. margins: per attribute, the share of
    records in each fine bin, positive, sum 1. step: called after each pass.
    """
    wanted_margins, offsets = np.concatenate(margins), targets.offsets
    share, weight = np.concatenate(model.share), model.weight
    expected = targets.of_model(wanted_margins[:, None].astype(np.float32), np.ones(1, np.float32))
    signal = targets.misfit(expected, total) - 1
    enough = 1 - _MOST_NOISE_FITTED * min(1.0, max(0.0, signal))
    for _ in range(passes):
        wanted = targets.towards(expected, total)
        share, weight = targets.maximise(share, weight, wanted, rounds)
        share, weight = _scaled(share, weight, wanted_margins, offsets, _SCALINGS)
        expected = targets.of_model(share, weight)
        step()
        if targets.misfit(expected, total) < enough:
            break
    share, weight = _scaled(share, weight, wanted_margins, offsets, _LAST_SCALINGS)
    return Components(weight, tuple(np.split(share, offsets[1:-1])))


def fits_side_by_side(
    starts: Sequence[Components],
    targets: Targets,
    margins: Sequence[Floats],
    total: float,
    passes: int,
    rounds: int,
    progress: Progress,
) -> list[Components]:
    """One fit per start, each on one core: the matrices are too small to divide between cores."""
    doing, passed = "fitting components", list[None]()
    progress(0.0, doing)
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(min(len(starts), available_cores())) as pool,
    ):
        step = partial(passed.append, None)
        fits = [pool.submit(fit, start, targets, margins, total, passes, rounds, step) for start in starts]
        while wait(fits, _REPORT_SECONDS).not_done:
            progress(len(passed) / (passes * len(starts)), doing)
        progress(1.0, doing)
        return [one.result() for one in fits]
