"""Components fitted to released tables: post-processing, so it costs no budget. [P10]

A model is P(cell) = Σ_z weight_z · Π_a share_a[bin | z]. Each pass compares the model with every released
table, keeps what of the departures is more than noise, and moves the components towards it by rounds of
expectation maximisation. Then they are scaled to the margins, which are known best. What looks like noise to
a table at first may turn out to be structure that other tables share, so many short passes take in more than
a few long ones.

All tables are fitted at once. The attributes of a table are split in two halves, so that its cells are the
product of two matrices; tables of similar shape are stacked, and one call multiplies all of them.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hdpview.jit import numba as nb
from hdpview.machine import available_cores
from hdpview.methods.mixture.smooth import Shrinkage
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Bins = NDArray[np.int32]

# Probability of a cell below which a model is never divided by.
_LEAST_CELL = np.float32(1e-12)
# Target of a cell at least, as a share of all records: expectation maximisation needs positive numbers.
_LEAST_TARGET = 1e-7
# A pass leaves a cell this part of its records at least.
_LEAST_LEFT = 0.1
# Shares below are 0: products of such numbers are denormal, and computing with them is slow.
_NO_SHARE = np.float32(1e-10)
# Components of less weight are dropped.
_NO_WEIGHT = np.float32(1e-9)
# Of the gamma distribution of random starts; smaller is further from independence.
_START_SHAPE = 6.0
# Margins are scaled so often after each pass, and at most so often after the last.
_SCALINGS, _LAST_SCALINGS = 2, 3_000
# Sum of the differences of a margin at which scaling stops.
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


class _Stack:
    """Tables of similar shape, padded to one: shape (n_tables, n_rows, n_columns).

    left, right: per row and column, the rows of all bins' shares whose product it is, shape (n, n_factors).
    place: of each cell among all cells of all tables; the padding is one past the last.
    """

    def __init__(self, left: Ints, right: Ints, place: Ints) -> None:
        self.left, self.right, self.place = left, right, place
        self.shape = place.shape


class Targets:
    """Released tables to fit to.

    A coarse row is a bin of an attribute in some table; tables that have the same bins share it. After the
    last come a row of zeros, for padding, and a row of ones, for tables with fewer attributes than others in
    their stack.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        variances: Sequence[float],
        fine: Sequence[Bins],
        n_ordered: Sequence[int],
        caution: float = 1.0,
    ) -> None:
        """fine: per attribute of the schema, bins that refine those of all tables. n_ordered: codes per
        attribute of the schema that are ordered, from the first on.
        """
        self.caution = caution
        self.sizes = [int(bins.max()) + 1 for bins in fine]
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        self.touched = sorted({a for table in tables for a in table.attributes})
        starts = self._coarse_rows(tables, fine)
        self._lay_out(tables, starts)
        shapes, noisy, ordered = [], [], []
        for table, (order, _) in zip(tables, self.halves, strict=True):
            counts = table.counts.transpose(order)
            shapes.append(counts.shape)
            noisy.append(counts.reshape(-1).astype(np.float64))
            own = [(table.attributes[i], table.shape.bin_of_code[i]) for i in order]
            ordered.append([int(bins[: n_ordered[a]].max(initial=-1)) + 1 for a, bins in own])
        self.noisy = np.concatenate(noisy)
        self.shrink = Shrinkage(ordered, shapes, variances)
        self.deviation = np.repeat(np.sqrt(variances), [math.prod(shape) for shape in shapes])
        self.table_of_cell = np.repeat(np.arange(len(tables)), [math.prod(shape) for shape in shapes])

    def _coarse_rows(self, tables: Sequence[Table], fine: Sequence[Bins]) -> list[list[int]]:
        """Number all bins of all tables, and note the fine bins that make up each; returns the first row of
        each table's bins, attribute by attribute.
        """
        known: dict[tuple[int, bytes], int] = {}
        rows, members, starts, n = [], [], [], 0
        for table in tables:
            own = []
            for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
                of_fine = np.empty(self.sizes[a], np.int64)
                of_fine[fine[a]] = bins
                key = a, of_fine.tobytes()
                if key not in known:
                    known[key] = n
                    rows.append(n + of_fine)
                    members.append(self.offsets[a] + np.arange(self.sizes[a]))
                    n += int(bins.max()) + 1
                own.append(known[key])
            starts.append(own)
        self.n_coarse = n
        self.coarse_of = np.concatenate(rows)
        self.fine_of = np.concatenate(members)
        return starts

    def _lay_out(self, tables: Sequence[Table], starts: Sequence[Sequence[int]]) -> None:
        self.halves = [_halves(table.counts.shape) for table in tables]
        stacks: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, (table, (order, half)) in enumerate(zip(tables, self.halves, strict=True)):
            bins = [table.counts.shape[j] for j in order]
            stacks[_rounded(math.prod(bins[:half])), _rounded(math.prod(bins[half:]))].append(i)
        self.ends = np.cumsum([table.counts.size for table in tables])
        self.n_cells = int(self.ends[-1])
        self.stacks = []
        for (n_rows, n_columns), members in sorted(stacks.items()):
            widths = [max(len(self.halves[i][0][: self.halves[i][1]]) for i in members)]
            widths.append(max(len(self.halves[i][0][self.halves[i][1] :]) for i in members))
            left = np.full((len(members), n_rows, widths[0]), self.n_coarse, np.int64)
            right = np.full((len(members), n_columns, widths[1]), self.n_coarse, np.int64)
            place = np.full((len(members), n_rows, n_columns), self.n_cells, np.int64)
            for at, i in enumerate(members):
                order, half = self.halves[i]
                shape = tables[i].counts.shape
                for side, part in ((left, order[:half]), (right, order[half:])):
                    n = math.prod(shape[j] for j in part)
                    grid = np.indices([shape[j] for j in part]).reshape(len(part), -1)
                    side[at, :n] = self.n_coarse + 1
                    for column, (j, numbers) in enumerate(zip(part, grid, strict=True)):
                        side[at, :n, column] = starts[i][j] + numbers
                rows = math.prod(shape[j] for j in order[:half])
                columns = math.prod(shape[j] for j in order[half:])
                first = int(self.ends[i]) - tables[i].counts.size
                place[at, :rows, :columns] = first + np.arange(rows * columns).reshape(rows, columns)
            self.stacks.append(_Stack(left, right, place))

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

    def towards(self, expected: Floats, total: float) -> Singles:
        """What to fit: the expected tables and what of the departures from them is more than noise; sum 1
        each.

        Rounds move a cell by target / expected, so noise would move cells with few records most. But noise is
        the same in all cells of a table: departures of cells with fewer records than noise are damped.
        """
        counts = expected * total
        departures = self.shrink(self.noisy - counts)
        departures *= counts / (counts + self.caution * self.deviation)
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
        for _ in range(rounds):
            coarse = self._coarse(share)
            factors = np.zeros_like(coarse)
            records = np.zeros_like(weight)
            for stack, target in zip(self.stacks, targets, strict=True):
                left, right = _products(coarse, stack.left), _products(coarse, stack.right)
                ratio = target / np.maximum((left * weight) @ right.transpose(0, 2, 1), _LEAST_CELL)
                for_left, for_right = ratio @ right, ratio.transpose(0, 2, 1) @ left
                for_left *= left
                for_right *= right
                _add_products(factors, stack.left, for_left, records)
                _add_products(factors, stack.right, for_right, records[:0])
            share, weight = self._step(share, weight, coarse, factors, records)
        return share, weight

    def _step(
        self, share: Singles, weight: Singles, coarse: Singles, factors: Singles, records: Singles
    ) -> tuple[Singles, Singles]:
        """New shares and weights from sums over the tables' cells."""
        np.divide(factors, coarse, out=factors, where=coarse > _NO_SHARE)
        factors[coarse <= _NO_SHARE] = 0
        sums = np.zeros_like(share)
        _add_rows(sums, self.fine_of, self.coarse_of, factors)
        sums *= share
        _normalise(sums, self.offsets, np.array(self.touched), share)
        weight = weight * records
        return sums, weight / weight.sum()


def _halves(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """An order of a table's attributes and how many of them come first, such that both halves have about as
    many combinations of bins: then matrix products do nearly all of the work.
    """
    if len(shape) == 1:
        return (0,), 1
    n = len(shape)
    parts = [some for k in range(1, n // 2 + 1) for some in combinations(range(n), k)]

    def n_factors(some: tuple[int, ...]) -> float:
        rows = math.prod(shape[i] for i in some)
        return rows + math.prod(shape) / rows

    left = min(parts, key=n_factors)
    return (*left, *(i for i in range(n) if i not in left)), len(left)


def _rounded(n: int) -> int:
    """A number at least as large with few significant bits, so that few shapes differ."""
    step = 1 << max(0, n.bit_length() - 3)
    return -(-n // step) * step


@nb.njit(cache=True, nogil=True)
def _add_rows(sums, to, of, rows):  # type: ignore[no-untyped-def]
    """Add row `of[i]` to the sum at `to[i]`."""
    for i in range(len(to)):
        for k in range(rows.shape[1]):
            sums[to[i], k] += rows[of[i], k]


@nb.njit(cache=True, nogil=True)
def _products(rows, factors):  # type: ignore[no-untyped-def]
    """Products of the rows that `factors` lists, shape (n_tables, n, n_components)."""
    n_tables, n, width = factors.shape
    products = np.empty((n_tables, n, rows.shape[1]), np.float32)
    for t in range(n_tables):
        for i in range(n):
            product = products[t, i]
            product[:] = rows[factors[t, i, 0]]
            for j in range(1, width):
                row = rows[factors[t, i, j]]
                for k in range(len(row)):
                    product[k] *= row[k]
    return products


@nb.njit(cache=True, nogil=True)
def _add_products(sums, factors, values, total):  # type: ignore[no-untyped-def]
    """Add each row of values to the sums of all its factors, and to the total unless that is empty."""
    n_tables, n, width = factors.shape
    for t in range(n_tables):
        for i in range(n):
            row = values[t, i]
            for j in range(width):
                to = sums[factors[t, i, j]]
                for k in range(len(row)):
                    to[k] += row[k]
            if len(total):
                for k in range(len(row)):
                    total[k] += row[k]


@nb.njit(cache=True, nogil=True)
def _normalise(sums, offsets, touched, before):  # type: ignore[no-untyped-def]
    """Scale the shares of each touched attribute to columns of sum 1; the others stay as before."""
    n = sums.shape[1]
    is_touched = np.zeros(len(offsets) - 1, np.bool_)
    is_touched[touched] = True
    for a in range(len(offsets) - 1):
        first, last = offsets[a], offsets[a + 1]
        if not is_touched[a]:
            sums[first:last] = before[first:last]
            continue
        total = np.zeros(n, np.float32)
        for i in range(first, last):
            for k in range(n):
                total[k] += sums[i, k]
        for k in range(n):
            total[k] = 1 / max(total[k], np.float32(1e-30))
        for i in range(first, last):
            for k in range(n):
                share = sums[i, k] * total[k]
                sums[i, k] = share if share >= np.float32(1e-10) else np.float32(0)


@nb.njit(cache=True, nogil=True)
def _scale_to_margins(share, weight, margins, offsets, times, tolerance):  # type: ignore[no-untyped-def]
    """Bring margins to the given ones in place, attribute by attribute, repeatedly."""
    n = share.shape[1]
    sums = np.empty(n)
    for _ in range(times):
        agree = True
        for a in range(len(offsets) - 1):
            first, last = offsets[a], offsets[a + 1]
            difference = 0.0
            now = np.zeros(last - first)
            for i in range(first, last):
                for k in range(n):
                    now[i - first] += share[i, k] * weight[k]
                difference += abs(now[i - first] - margins[i])
            if difference < tolerance:
                continue
            agree = False
            sums[:] = 0
            for i in range(first, last):
                factor = margins[i] / max(now[i - first], 1e-300)
                for k in range(n):
                    share[i, k] *= factor
                    sums[k] += share[i, k]
            total = 0.0
            for k in range(n):
                weight[k] *= sums[k]
                total += weight[k]
                sums[k] = 1 / max(sums[k], 1e-300)
            weight /= total
            for i in range(first, last):
                for k in range(n):
                    share[i, k] *= sums[k]
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
    """Components fitted to all tables, with the given margins.

    Args:
        model: where to start.
        targets: the tables.
        margins: per attribute the share of records in each fine bin, positive, sum 1.
        total: number of records.
        passes: how often the tables are compared with the model anew; first with independence.
        rounds: of expectation maximisation in each pass.
        step: called after each pass.
    """
    wanted_margins, offsets = np.concatenate(margins), targets.offsets
    share, weight = np.concatenate(model.share), model.weight
    expected = targets.of_model(wanted_margins[:, None].astype(np.float32), np.ones(1, np.float32))
    for i in range(passes):
        wanted = targets.towards(expected, total)
        share, weight = targets.maximise(share, weight, wanted, rounds)
        last = i == passes - 1
        share, weight = _scaled(share, weight, wanted_margins, offsets, _LAST_SCALINGS if last else _SCALINGS)
        if not last:
            expected = targets.of_model(share, weight)
        step()
    return Components(weight, tuple(np.split(share, offsets[1:-1])))


def fits_side_by_side(
    starts: Sequence[Components],
    targets: Targets,
    margins: Sequence[Floats],
    total: float,
    passes: int,
    rounds: int,
    progress: Callable[[float], None],
) -> list[Components]:
    """A fit from every start, each on one core: matrices are too small to be shared between cores."""
    done, lock = 0, threading.Lock()

    def step() -> None:
        nonlocal done
        with lock:
            done += 1

    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(min(len(starts), available_cores())) as pool,
    ):
        futures: set[Future[Components]] = set()
        running = [pool.submit(fit, start, targets, margins, total, passes, rounds, step) for start in starts]
        futures.update(running)
        while futures:
            _, futures = wait(futures, _REPORT_SECONDS)
            progress(done / (passes * len(starts)))
        return [one.result() for one in running]
