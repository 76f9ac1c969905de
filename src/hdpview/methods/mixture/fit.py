"""Components fitted to released tables: post-processing, so it costs no budget. [P10]

A model is P(cell) = Σ_z weight_z · Π_a share_a[bin | z]. Each pass compares the model with every released
table, keeps the departures that exceed noise, and moves the components towards them by rounds of expectation
maximisation. It then scales the components to the margins, which are the most precise. Structure shared by
several tables can look like noise in each of them at first, so many short passes learn more than a few long
ones.

The attributes of a table are split in two halves, so that its cells are the product of two matrices. These
are so small that they stay in the processor's first cache while a kernel visits the table's cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview.machine import available_cores
from hdpview.methods.mixture.smooth import SUMS_IN_ANY_ORDER, Shrinkage
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


class Targets:
    """Released tables to fit to.

    A coarse row is a bin of an attribute in some table; tables with the same bins share it.

    halves: an order of each table's attributes, and how many of them its rows combine; its columns combine
    the others. factors: coarse rows to multiply, of all rows and columns of all tables. layout: where those
    of each half start in `factors`, their number, and the number of factors of each, shape (n_tables, 2, 3).
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
        self.n_tables = np.bincount([a for table in tables for a in table.attributes], minlength=len(fine))
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
        self.halves = [_halves(table.counts.shape) for table in tables]
        self.ends = np.cumsum([table.counts.size for table in tables])
        self.n_cells = int(self.ends[-1])
        parts, layout, at = [], list[tuple[int, int, int]](), 0
        for table, first_rows, (order, half) in zip(tables, starts, self.halves, strict=True):
            for part in (order[:half], order[half:]):
                bins = np.indices([table.counts.shape[i] for i in part]).reshape(len(part), -1).T
                parts.append((bins + np.array([first_rows[i] for i in part], np.int64)).reshape(-1))
                layout.append((at, *bins.shape))
                at += bins.size
        self.factors, self.layout = np.concatenate(parts), np.array(layout).reshape(-1, 2, 3)

    def of_model(self, share: Singles, weight: Singles) -> Floats:
        """The model's probability of each cell of each table."""
        return self._expect(share, weight, np.zeros(self.n_cells, np.float32))[0].astype(np.float64)

    def _expect(self, share: Singles, weight: Singles, wanted: Singles) -> tuple[Singles, ...]:
        """Cells of the model, shares at coarse rows, and expected records there and in all."""
        coarse = np.zeros((self.n_coarse, len(weight)), np.float32)
        _add_rows(coarse, self.coarse_of, self.fine_of, share)
        cells, sums, records = np.empty_like(wanted), np.zeros_like(coarse), np.zeros_like(weight)
        _expect(coarse, weight, self.layout, self.factors, wanted, cells, sums, records)
        return cells, coarse, sums, records

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
        target /= np.bincount(self.table_of_cell, target)[self.table_of_cell]
        return target.astype(np.float32)

    def maximise(
        self, share: Singles, weight: Singles, wanted: Singles, rounds: int
    ) -> tuple[Singles, Singles]:
        """Rounds of expectation maximisation: each raises Σ over tables and cells of wanted · log P(cell).

        All but the last take long steps: factors have an exponent of 7/4. With up to 2, the fit converges to
        the same result in fewer rounds. On heart at epsilon 10, ranges of two attributes err by 40 records
        instead of 61.
        """
        for i in range(rounds):
            _, coarse, factors, records = self._expect(share, weight, wanted)
            changed = np.zeros_like(share)
            rows = self.fine_of, self.coarse_of, self.n_tables
            _move(share, coarse, factors, *rows, self.offsets, i < rounds - 1, changed)
            share, weight = changed, weight * records
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


@nb.njit(cache=True, nogil=True)
def _add_rows(sums, to, of, rows):  # type: ignore[no-untyped-def]
    """Add row `of[i]` to the sum at `to[i]`."""
    for i in range(len(to)):
        for c in range(rows.shape[1]):
            sums[to[i], c] += rows[of[i], c]


@nb.njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _products(coarse, factors, start, width, products):  # type: ignore[no-untyped-def]
    """Products of the coarse rows that `factors` lists from `start`, `width` for each."""
    for i in range(len(products)):
        product, first = products[i], coarse[factors[start + i * width]]
        for c in range(len(product)):
            product[c] = first[c]
        for j in range(1, width):
            factor = coarse[factors[start + i * width + j]]
            for c in range(len(product)):
                product[c] *= factor[c]


@nb.njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _expect(coarse, weight, layout, factors, wanted, cells, sums, records):  # type: ignore[no-untyped-def]
    """Fill `cells` with the model's probabilities. Add the records that components expect in cells, relative
    to their weights, to `sums` at all coarse rows of a cell and to `records`.
    """
    at, n = 0, len(weight)
    weighted, of_row = np.empty(n, np.float32), np.empty(n, np.float32)
    for t in range(len(layout)):
        left, right = np.empty((layout[t, 0, 1], n), np.float32), np.empty((layout[t, 1, 1], n), np.float32)
        _products(coarse, factors, layout[t, 0, 0], layout[t, 0, 2], left)
        _products(coarse, factors, layout[t, 1, 0], layout[t, 1, 2], right)
        of_columns = np.zeros_like(right)
        for i in range(len(left)):
            row = left[i]
            for c in range(n):
                weighted[c] = row[c] * weight[c]
                of_row[c] = 0.0
            for j in range(len(right)):
                column, of_column, cell = right[j], of_columns[j], np.float32(0.0)
                for c in range(n):
                    cell += weighted[c] * column[c]
                cells[at] = cell
                ratio = wanted[at] / max(cell, _LEAST_CELL)
                for c in range(n):
                    of_row[c] += ratio * column[c]
                    of_column[c] += ratio * row[c]
                at += 1
            for c in range(n):
                of_row[c] *= row[c]
                records[c] += of_row[c]
            _add_to_all(sums, factors, layout[t, 0, 0] + i * layout[t, 0, 2], layout[t, 0, 2], of_row)
        for j in range(len(right)):
            column, of_column = right[j], of_columns[j]
            for c in range(n):
                of_column[c] *= column[c]
            _add_to_all(sums, factors, layout[t, 1, 0] + j * layout[t, 1, 2], layout[t, 1, 2], of_column)


@nb.njit(cache=True, nogil=True)
def _add_to_all(sums, factors, start, width, values):  # type: ignore[no-untyped-def]
    """Add values to the sums at all coarse rows of a row or column."""
    for j in range(width):
        row = sums[factors[start + j]]
        for c in range(len(row)):
            row[c] += values[c]


@nb.njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _move(share, coarse, sums, fine, of_fine, n_tables, offsets, far, changed):  # type: ignore[no-untyped-def]
    """Multiply shares by the mean factor of their coarse rows, and scale columns to sum 1. far: take a long
    step. changed: zeros at first. Attributes in no table stay as they are.
    """
    n = share.shape[1]
    for row in range(len(coarse)):
        for c in range(n):
            here = coarse[row, c]
            sums[row, c] = sums[row, c] / here if here > _NO_SHARE else np.float32(0.0)
    for i in range(len(fine)):
        factor, row = sums[of_fine[i]], changed[fine[i]]
        for c in range(n):
            row[c] += factor[c]
    total = np.empty(n, np.float32)
    for a in range(len(n_tables)):
        first, last = offsets[a], offsets[a + 1]
        if n_tables[a] == 0:
            changed[first:last] = share[first:last]
            continue
        total[:] = np.float32(1e-30)
        for i in range(first, last):
            before, row, counted = share[i], changed[i], np.float32(1.0) / n_tables[a]
            for c in range(n):
                if far:
                    factor = row[c] * counted
                    root = math.sqrt(factor)
                    row[c] = factor * root * math.sqrt(root)
                row[c] *= before[c]
                total[c] += row[c]
        for i in range(first, last):
            row = changed[i]
            for c in range(n):
                row[c] /= total[c]
                if row[c] < _NO_SHARE:
                    row[c] = 0.0


@nb.njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
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
            column = np.zeros(len(weight))
            for i in range(n):
                factor = target[i] / max(now[i], 1e-300)
                for c in range(len(weight)):
                    shares[i, c] *= factor
                    column[c] += shares[i, c]
            for c in range(len(weight)):
                weight[c] *= column[c]
                total += weight[c]
                column[c] = 1 / max(column[c], 1e-300)
            for i in range(n):
                for c in range(len(weight)):
                    shares[i, c] *= column[c]
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
    """One fit per start, each on one core: its matrices are too small to divide between cores."""
    doing, passed = "fitting components", list[None]()
    progress(0.0, doing)
    with ThreadPoolExecutor(min(len(starts), available_cores())) as pool:
        step = partial(passed.append, None)
        fits = [pool.submit(fit, start, targets, margins, total, passes, rounds, step) for start in starts]
        while wait(fits, _REPORT_SECONDS).not_done:
            progress(len(passed) / (passes * len(starts)), doing)
        progress(1.0, doing)
        return [one.result() for one in fits]
