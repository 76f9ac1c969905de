"""From noisy tables to synthetic records. Everything here is post-processing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdpview.view.blocks import project_to_simplex
from hdpview_bench.rivals.privbayes.candidates import size_at
from hdpview_bench.rivals.privbayes.network import Node

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def best_total(
    noisy_total: float, noisy_tables: list[Ints], total_variance: float, cell_variance: float
) -> float:
    """The number of records, from its count and the sums of all tables, weighted by precision; at least 1."""
    totals = [noisy_total, *(float(table.sum()) for table in noisy_tables)]
    precision = [1 / total_variance, *(1 / (cell_variance * table.size) for table in noisy_tables)]
    return max(1.0, float(np.average(totals, weights=precision)))


def conditional(noisy_table: Ints, total: float) -> Floats:
    """P(child | parents), rows of sum 1, from a noisy joint table (n_parent_cells, size of child).

    The nearest non-negative table with the known total. Rows without records get the distribution of all
    rows.
    """
    table = project_to_simplex(noisy_table.astype(np.float64).reshape(-1), total).reshape(noisy_table.shape)
    overall = table.sum(axis=0) / table.sum()
    row = table.sum(axis=1, keepdims=True)
    return np.where(row > 0, table / np.where(row > 0, row, 1.0), overall)


def synthesise(
    network: list[Node],
    conditionals: list[Floats],
    sizes: tuple[int, ...],
    n_records: int,
    rng: np.random.Generator,
) -> NDArray[np.unsignedinteger]:
    """Records drawn down the network, shape (n_attributes, n_records).

    Within the records of one combination of parents the child's values are drawn evenly spaced, not
    independently: their shares then differ from the conditional distribution by less than one record per
    value.
    """
    codes = np.zeros((len(sizes), n_records), np.uint8 if max(sizes) <= 256 else np.uint16)
    for node, table in zip(network, conditionals, strict=True):
        row = np.zeros(n_records, np.int64)
        for a, level in node.parents:
            row = row * size_at(sizes[a], level) + (codes[a].astype(np.int64) >> level)
        codes[node.child] = _draw_evenly(table, row, rng)
    return codes


def _draw_evenly(table: Floats, row: Ints, rng: np.random.Generator) -> Ints:
    """A column for each record, given its row of a table of probabilities."""
    shuffled = rng.permutation(len(row))
    order = shuffled[np.argsort(row[shuffled], kind="stable")]
    n_of_row = np.bincount(row, minlength=len(table))
    first = np.cumsum(n_of_row) - n_of_row
    sorted_row = row[order]
    point = (np.arange(len(row)) - first[sorted_row] + rng.random(len(table))[sorted_row]) / n_of_row[
        sorted_row
    ]
    reach = np.cumsum(table, axis=1)
    reach[:, -1] = np.inf
    steps = np.arange(len(table))[:, None] * 2.0 + np.minimum(reach, 1.5)
    place = np.searchsorted(steps.reshape(-1), sorted_row * 2.0 + point, side="right")
    columns = np.empty(len(row), np.int64)
    columns[order] = place - sorted_row * table.shape[1]
    return columns
