"""What the blocks say to a batch of questions: the sums from which estimates and intervals are made.

Many questions go to the Numba kernel. A few are answered in NumPy, in less time than it takes to load Numba: a question on the
command line should not wait for a compiler. Both give the same sums.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.machine import available_cores
from hdpview.query.boxes import Questions
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]

FEW = 32  # boxes; a NumPy pass over a block costs about ten times the kernel's
FULL = 1.0 - 1e-9  # a weight this close to 1 is 1, but for rounding
_QUESTIONS_PER_TASK = 250


@dataclass(frozen=True, eq=False)
class Summary:
    """Sums over blocks, shape (n_questions,) each. The weight of a block is the share of its cells that is asked for.

    raw, consistent: of weight times count, noisy and consistent.
    squares, fourths, largest: of the weights' squares and fourth powers, and the largest weight.
    full_sum, n_full: of noisy counts, and number, of blocks that lie inside the question.
    touched_sum, n_touched: the same of all blocks it touches.
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


def summarise(blocks: Blocks, questions: Questions) -> Summary:
    """Answer questions with sums over all blocks."""
    rows = np.empty((len(questions), len(Summary.__dataclass_fields__)))
    if questions.box_start[-1] <= FEW:
        _summarise_few(blocks, questions, rows)
    else:
        _summarise_many(blocks, questions, rows)
    return Summary(*rows.T)


def block_weights(blocks: Blocks, questions: Questions, q: int) -> Floats:
    """Weight of every block in one question, shape (n_blocks,)."""
    lower, upper, inverse_width = blocks.by_attribute
    weight = np.zeros(len(blocks))
    for box in range(questions.box_start[q], questions.box_start[q + 1]):
        of_box = np.ones(len(blocks))
        for term in range(questions.term_start[box], questions.term_start[box + 1]):
            a, at = questions.term_attribute[term], questions.term_at[term]
            of_box *= (questions.prefix[at + upper[a]] - questions.prefix[at + lower[a]]) * inverse_width[a]
        weight += of_box
    return weight


def _summarise_few(blocks: Blocks, questions: Questions, rows: Floats) -> None:
    noisy = blocks.noisy_counts.astype(np.float64)
    for q in range(len(questions)):
        weight = block_weights(blocks, questions, q)
        squares, full, touched = weight**2, weight > FULL, weight > 0
        rows[q] = (
            weight @ noisy,
            weight @ blocks.consistent_counts,
            squares.sum(),
            (squares**2).sum(),
            weight.max(),
            noisy[full].sum(),
            full.sum(),
            noisy[touched].sum(),
            touched.sum(),
        )


def _summarise_many(blocks: Blocks, questions: Questions, rows: Floats) -> None:
    from hdpview.query import kernels

    arrays = (questions.box_start, questions.term_start, questions.term_attribute, questions.term_at, questions.prefix)
    columns = (*blocks.by_attribute, blocks.noisy_counts.astype(np.float64), blocks.consistent_counts)

    def task(first: int) -> None:
        kernels.summarise(first, min(first + _QUESTIONS_PER_TASK, len(questions)), arrays, *columns, FULL, rows)

    with ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(task, range(0, len(questions), _QUESTIONS_PER_TASK)))
