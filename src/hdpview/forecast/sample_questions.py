"""Counting questions drawn at random, to measure errors with.

`sizes` are the numbers of codes of all attributes, `n` is the number of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.domain.table_shapes import CodeBoxes

Ints = NDArray[np.int64]


def draw_single_ranges(sizes: Sequence[int], n: int, rng: Generator) -> CodeBoxes:
    """Ranges of single attributes, uniform among all of them."""
    width = np.array(sizes, dtype=np.int64)
    weight = width * (width + 1) / 2.0
    attribute = rng.choice(len(sizes), (n, 1), p=weight / weight.sum())
    size = width[attribute]
    ends = rng.integers(0, size + 1, (n, 2))
    while (empty := ends[:, 0] == ends[:, 1]).any():
        ends[empty] = rng.integers(0, size[empty] + 1, (int(empty.sum()), 2))
    ends = np.sort(ends, axis=1)
    return CodeBoxes(attribute, ends[:, :1], ends[:, 1:])


def draw_ranges(sizes: Sequence[int], n_attributes: int, n: int, rng: Generator) -> CodeBoxes:
    """Ranges of random attributes between two random codes of each."""
    width = np.array(sizes, dtype=np.int64)
    attribute = np.argsort(rng.random((n, len(sizes))), axis=1)[:, :n_attributes]
    ends = np.sort(rng.integers(0, width[attribute][..., None], (n, n_attributes, 2)), axis=2)
    return CodeBoxes(attribute, ends[..., 0], ends[..., 1] + 1)


def draw_cells(sizes: Sequence[int], n_attributes: int, n: int, rng: Generator) -> CodeBoxes:
    """Cells of tables of the given number of attributes, uniform among all of them."""
    width = np.array(sizes, dtype=np.int64)
    sets = np.array(list(combinations(range(len(sizes)), n_attributes)), dtype=np.int64)
    weight = width[sets].astype(np.float64).prod(axis=1)
    attribute = sets[rng.choice(len(sets), n, p=weight / weight.sum())]
    code = rng.integers(0, width[attribute])
    return CodeBoxes(attribute, code, code + 1)
