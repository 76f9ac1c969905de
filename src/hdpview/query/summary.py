"""What the blocks say to a batch of questions: the sums from which estimates and intervals are made.

Many questions go to the Numba kernel. A few are answered in NumPy, in less time than it takes to load Numba:
a question on the command line should not wait for a compiler. Both give the same sums.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hdpview.machine import available_cores
from hdpview.query import base_noise
from hdpview.query.boxes import Questions
from hdpview.view.base import GRAIN, Base
from hdpview.view.blocks import Blocks, Level

Floats = NDArray[np.float64]

FEW = 32  # boxes; a NumPy pass over a block costs about ten times the kernel's
# A box covers a block if its weight there is 1. Shares of codes are exact, so a box that leaves out anything
# at all, 2^-20 of one code of 2^16 at the least, has a weight of at most 1 − 2^-36; rounding takes less than
# 1e-12 from 1 in up to 1,000 products.
FULL = 1.0 - 1e-12
_QUESTIONS_PER_TASK = 250
N_COLUMNS, _LARGEST = 10, 4  # of `Summary`, before the coarser ones, and the one that does not add up
Arrays = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Floats]


@dataclass(frozen=True, eq=False)
class Summary:
    """Sums over blocks, shape (n_questions,) each. The weight of a block is the share of its cells that is
    asked for.

    raw, consistent: of weight times count, noisy and consistent.
    squares, fourths, largest: of the weights' squares and fourth powers, and the largest weight.
    full_sum, n_full: of noisy counts, and number, of blocks that lie inside one box of the question.
    touched_sum, n_touched: the same of all blocks it touches.
    spread: of consistent counts times (weight·(1 − weight))^¾: how much lies in blocks that the question cuts
        through.
    coarser_estimates, coarser_spreads: `consistent` and `spread` from coarser blocks, shape (n_levels,
        n_questions).
    base_variance: squared error to expect from the noise in the histograms behind the base; 0 where records
        spread evenly.
    joint_share: of what a question asks for, the share that is a matter of several attributes together, of
        which histograms tell nothing.
    total_variance: squared error to expect from the number of all records, as histograms tell it.
    total_squares: of `squares`, those of weights that are the same in all blocks and so only say how large
        the total is.
    """

    raw: Floats
    consistent: Floats
    squares: Floats
    fourths: Floats
    largest: Floats
    full_sum: Floats
    n_full: Floats
    touched_sum: Floats
    n_touched: Floats
    spread: Floats
    coarser_estimates: Floats
    coarser_spreads: Floats
    base_variance: Floats
    joint_share: Floats
    total_variance: Floats
    total_squares: Floats

    @property
    def of_base(self) -> base_noise.OfBase:
        return base_noise.OfBase(
            self.base_variance, self.joint_share, self.total_variance, self.total_squares
        )


def summarise(blocks: Blocks, questions: Questions) -> Summary:
    """Answer questions with sums over all blocks, fine and coarse."""
    finest, *coarser = blocks.levels
    columns = np.empty((len(questions), N_COLUMNS))
    of_coarser = np.empty((len(coarser), len(questions), 2))
    many = _summarise_many_over_bases if finest.within else _summarise_many
    (_summarise_few if questions.box_start[-1] <= FEW else many)(
        finest, coarser, blocks.noisy_counts, questions, columns, of_coarser
    )
    named = dict(zip((field.name for field in fields(Summary)), columns.T, strict=False))
    coarse = {"coarser_estimates": of_coarser[..., 0], "coarser_spreads": of_coarser[..., 1]}
    return Summary(**named, **coarse, **base_noise.of_questions(blocks, questions)._asdict())


def block_weights(level: Level, questions: Questions, q: int) -> Floats:
    """Weight of every block in one question, shape (n_blocks,)."""
    return weights_and_full(level, questions, q)[0]


def weights_and_full(level: Level, questions: Questions, q: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Weight of every block in one question, and whether one of the question's boxes covers it, shape
    (n_blocks,) each.

    Of several boxes that cover a block together nothing is claimed: rounding could not tell them from boxes
        that leave out a cell in 10^20.
    """
    weight, full = np.zeros(len(level.counts)), np.zeros(len(level.counts), dtype=bool)
    for box in range(questions.box_start[q], questions.box_start[q + 1]):
        of_box = np.ones(len(level.counts))
        for within in level.within:
            here = slice(within.first, within.last)
            of_box[here], covered = within.shares(_prefixes(within.base, questions, box))
            weight[here] += of_box[here]
            full[here] |= covered
        if not level.within:
            for term in range(questions.term_start[box], questions.term_start[box + 1]):
                a, at = questions.term_attribute[term], questions.term_at[term]
                of_box *= (
                    questions.prefix[at + level.upper[a]] - questions.prefix[at + level.lower[a]]
                ) * level.inverse_width[a]
            weight += of_box
            full |= of_box > FULL
    return weight, full


def _prefixes(base: Base, questions: Questions, box: int) -> dict[int, Floats]:
    """Attribute → running sums over its codes of what a box asks for, in shares of the base."""
    terms = range(questions.term_start[box], questions.term_start[box + 1])
    places = [(int(questions.term_attribute[term]), int(questions.term_at[term])) for term in terms]
    return {a: base.prefix(a, np.diff(questions.prefix[at : at + base.sizes[a] + 1])) for a, at in places}


def _summarise_few(
    finest: Level,
    coarser: list[Level],
    noisy_counts: NDArray[np.int64],
    questions: Questions,
    columns: Floats,
    of_coarser: Floats,
) -> None:
    noisy = noisy_counts.astype(np.float64)  # whole numbers could overflow in sums
    for q in range(len(questions)):
        weight, full = weights_and_full(finest, questions, q)
        squares, touched = weight**2, weight > 0
        columns[q] = (
            weight @ noisy,
            weight @ finest.counts,
            squares.sum(),
            (squares**2).sum(),
            weight.max(),
            noisy[full].sum(),
            full.sum(),
            noisy[touched].sum(),
            touched.sum(),
            spread_weights(weight) @ finest.counts,
        )
        for i, level in enumerate(coarser):
            weight = block_weights(level, questions, q)
            of_coarser[i, q] = weight @ level.counts, spread_weights(weight) @ level.counts


def spread_weights(weight: Floats) -> Floats:
    """(w·(1 − w))^¾ where a block is cut through, else 0: how much it may be misjudged, shape (n_blocks,)."""
    partial: Floats = np.where((weight > 0) & (weight <= FULL), weight * (1.0 - weight), 0.0) ** 0.75
    return partial


def _summarise_many(
    finest: Level,
    coarser: list[Level],
    noisy_counts: NDArray[np.int64],
    questions: Questions,
    columns: Floats,
    of_coarser: Floats,
) -> None:
    from hdpview.query import kernels

    arrays = (
        questions.box_start,
        questions.term_start,
        questions.term_attribute,
        questions.term_at,
        questions.prefix,
    )
    noisy = noisy_counts.astype(np.float64)

    def task(first: int) -> None:
        rows = (first, min(first + _QUESTIONS_PER_TASK, len(questions)), arrays)
        kernels.summarise(
            *rows, finest.lower, finest.upper, finest.inverse_width, finest.counts, noisy, FULL, columns
        )
        for level, out in zip(coarser, of_coarser, strict=True):
            kernels.estimate_and_spread(
                *rows, level.lower, level.upper, level.inverse_width, level.counts, FULL, out
            )

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(task, range(0, len(questions), _QUESTIONS_PER_TASK)))


def _summarise_many_over_bases(
    finest: Level,
    coarser: list[Level],
    noisy_counts: NDArray[np.int64],
    questions: Questions,
    columns: Floats,
    of_coarser: Floats,
) -> None:
    """Part by part, since each may have a base of its own."""
    from hdpview.query import base_kernels

    columns[:], of_coarser[:] = 0.0, 0.0
    n, noisy, nothing = len(questions), noisy_counts.astype(np.float64), np.empty((0, 0))
    with ThreadPoolExecutor(available_cores()) as pool:
        for part, within in enumerate(finest.within):
            asked, found, found_coarser = (
                over_base(questions, within.base),
                np.empty_like(columns),
                np.empty_like(of_coarser),
            )

            def task(
                first: int,
                part: int = part,
                asked: Arrays = asked,
                found: Floats = found,
                coarse: Floats = found_coarser,
            ) -> None:
                rows = (first, min(first + _QUESTIONS_PER_TASK, n), asked)
                for level, out in zip((finest, *coarser), (found, *coarse), strict=True):
                    within = level.within[part]
                    counts = level.counts[within.first : within.last], noisy[within.first : within.last]
                    into = (out, nothing) if level is finest else (nothing, out)
                    base_kernels.summarise(*rows, within.flat, *counts, FULL, *into)

            list(pool.map(task, range(0, n, _QUESTIONS_PER_TASK)))
            largest = np.maximum(columns[:, _LARGEST], found[:, _LARGEST])
            columns += found
            columns[:, _LARGEST] = largest
            of_coarser += found_coarser


def over_base(questions: Questions, base: Base) -> Arrays:
    """Questions with running sums in shares of a base."""
    from hdpview.query import base_kernels

    sizes = np.array(base.sizes, np.int64)
    prefix = np.empty_like(questions.prefix)
    arrays = (sizes, np.cumsum(sizes) - sizes, np.concatenate(base.shape), GRAIN, questions.prefix, prefix)
    base_kernels.shaped_prefix(questions.term_attribute, questions.term_at, *arrays)
    return questions.box_start, questions.term_start, questions.term_attribute, questions.term_at, prefix
