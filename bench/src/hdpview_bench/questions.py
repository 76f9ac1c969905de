"""Questions to measure with, drawn at random: ranges, cells, and cells at the place of a record.

Questions at the place of a record read the exact table, so this is for benchmarks only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain.table_shapes import CodeBoxes

Ints = NDArray[np.int64]


def random_ranges(sizes: Sequence[int], k: int, n: int, rng: Generator) -> CodeBoxes:
    """`n` ranges of k attributes drawn at random, both ends uniform."""
    attribute = random_attributes(len(sizes), k, n, rng)
    ends = np.sort(rng.integers(0, np.array(sizes)[attribute][..., None], (n, k, 2)), axis=2)
    return CodeBoxes(attribute, ends[..., 0], ends[..., 1] + 1)


def random_cells(sizes: Sequence[int], k: int, n: int, rng: Generator) -> CodeBoxes:
    """`n` cells of tables of k attributes; sets of attributes are equally likely, and so are their cells."""
    attribute = random_attributes(len(sizes), k, n, rng)
    code = rng.integers(0, np.array(sizes)[attribute])
    return CodeBoxes(attribute, code, code + 1)


def populated_cells(counts: SparseCounts, k: int, n: int, rng: Generator) -> CodeBoxes:
    """`n` cells of tables of k attributes, each at the place of a random record. Reveals where records
    are.
    """
    attribute = random_attributes(len(counts.schema), k, n, rng)
    code = codes_of_records(counts, attribute, rng)
    return CodeBoxes(attribute, code, code + 1)


def codes_of_records(counts: SparseCounts, attribute: Ints, rng: Generator) -> Ints:
    """Codes of these attributes, shape (n, k), of a random record per row."""
    # Growing a partition reorders these counts.
    order = np.lexsort(counts.exact_codes.T)
    weights = counts.exact_counts[order]
    record = order[rng.choice(len(weights), len(attribute), p=weights / weights.sum())]
    return counts.exact_codes[record[:, None], attribute].astype(np.int64)


def random_attributes(n_attributes: int, k: int, n: int, rng: Generator) -> Ints:
    """Sets of k attributes, all equally likely, shape (n, k)."""
    return np.argsort(rng.random((n, n_attributes)), axis=1)[:, :k].astype(np.int64)
